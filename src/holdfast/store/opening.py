"""A store from what callers give: the store itself, or the folder that it is in."""

from __future__ import annotations

import os

from holdfast.core.errors import Misuse
from holdfast.store.store import Store


def as_store(store: object) -> Store:
    """A store as it is, or the one in a folder; an error for what is neither."""
    if isinstance(store, Store):
        return store
    if isinstance(store, str | os.PathLike) and os.fspath(store):
        return Store(str(os.fspath(store)))
    raise Misuse(f"a store is a folder or a Store, got {type(store).__name__}", hint='store="rows"')
