"""Readers of published results. A format is one file here with `read(path) -> Imported`, named after it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, unknown
from holdfast.store.reading import Unreadable
from holdfast.store.scores import Imported


class Format(NamedTuple):
    """A file format of published results."""

    name: str
    summary: str
    read: Callable[[Path], Imported]


def formats() -> dict[str, Format]:
    """Every format there is, by the name of its file with `-` for `_`."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        name = info.name.replace("_", "-")
        found[name] = Format(name, (module.__doc__ or "").split("\n", 1)[0].strip(), module.read)
    return found


def read(format_name: str, path: Path) -> Imported:
    """The published results in a file or folder."""
    known = formats()
    if format_name not in known:
        raise unknown("format", format_name, known)
    try:
        return known[format_name].read(path)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror or error}") from error
    except DAMAGED as error:
        raise Unreadable(f"{path} is not laid out as {format_name}: {error}", hint="is it the right file?") from error
