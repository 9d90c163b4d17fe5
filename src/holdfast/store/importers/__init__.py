"""Readers of published results. A format is one file here with its `NAME` and `read_FILE(path) -> Imported`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, unknown
from holdfast.store.scores import UNITS, Imported
from holdfast.store.source_files import BadFile, not_hidden
from holdfast.store.units import in_percent


class Format(NamedTuple):
    """A file format of published results. `takes_unit`: it may leave the unit of its values open."""

    name: str
    summary: str
    read: Callable[..., Imported]
    takes_unit: bool


def formats() -> dict[str, Format]:
    """Every format there is, by its name."""
    known = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        read = getattr(module, f"read_{info.name}")
        summary = (module.__doc__ or "").split("\n", 1)[0].strip()
        known[module.NAME] = Format(module.NAME, summary, read, "unit" in inspect.signature(read).parameters)
    return known


def read_results(format_name: str, path: Path, *, unit: str | None = None) -> Imported:
    """The published results in a file or folder. `unit` says what values are in where the file does not."""
    known = formats()
    if format_name not in known:
        raise unknown("format", format_name, known)
    if unit is not None and unit not in UNITS:
        raise unknown("unit", unit, UNITS, otherwise=f"there are: {', '.join(UNITS)}")
    not_hidden(path)
    chosen = known[format_name]
    try:
        made = chosen.read(path, unit=unit) if chosen.takes_unit else in_percent(chosen.read(path), path, unit)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror or error}") from error
    except DAMAGED as error:
        raise BadFile(f"{path} is not laid out as {format_name}: {error}", hint="is it the right file?") from error
    empty = [scores.benchmark for scores in made.scores if not np.isfinite(scores.table.values).any()]
    if empty or not (made.scores or made.rows):
        raise BadFile(f"{path} holds no score", hint="is it the right file, and whole?")
    return made
