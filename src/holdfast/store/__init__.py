"""Rows and manifests: written once, verified, queried. No torch here: a laptop can read every store."""

import os

from holdfast.core.errors import Misuse
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Predictions, Rows
from holdfast.store.store import Store

__all__ = ["ChangeRecord", "Footer", "Predictions", "Rows", "Store", "as_store"]


def as_store(store: object) -> Store:
    """A store as it is, or the one in a folder; an error for what is neither."""
    if isinstance(store, Store):
        return store
    if isinstance(store, str | os.PathLike) and os.fspath(store):
        return Store(str(os.fspath(store)))
    raise Misuse(f"a store is a folder or a Store, got {type(store).__name__}", hint='store="rows"')
