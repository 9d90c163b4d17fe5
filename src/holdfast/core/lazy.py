"""Names of a package that are imported when first used, so that importing the package stays quick."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names live in other modules."""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module `{package}` has no `{name}`")
        return getattr(importlib.import_module(homes[name]), name)

    return get, lambda: sorted(homes)
