"""Rows and manifests: written once, verified, queried. No torch here: a laptop can read every store."""

from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.opening import as_store
from holdfast.store.rows import Predictions, Rows
from holdfast.store.store import Store

__all__ = ["ChangeRecord", "Footer", "Predictions", "Rows", "Store", "as_store"]
