"""Percent or fraction: a number at most 1 may be either, and which it is must be said, not guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.store.scores import PER_HUNDRED, Imported, Scores
from holdfast.store.source_files import BadFile

SAY = "say what they are: --unit fraction, or --unit percent"
EXACT = 12  # decimals: a fraction that was divided by a hundred and multiplied again


def unclear(values: Mapping[str, Sequence[float]]) -> str | None:
    """The first setting whose values, in no stated unit, may be fractions as well as percent; None where none may."""
    for setting, numbers in values.items():
        if numbers and 0 < max(numbers) <= 1 and min(numbers) >= 0:
            return setting
    return None


def refuse_unclear(values: Mapping[str, Sequence[float]], path: Path, *, where: str = "") -> None:
    """An error where a setting may be in percent or in fractions."""
    setting = unclear(values)
    if setting is not None:
        low, high = min(values[setting]), max(values[setting])
        raise BadFile(
            f"{path} gives no unit, and `{setting}` has values from {low:g} to {high:g}: fractions or percent?",
            hint=f"{SAY}{where}",
        )


def in_percent(imported: Imported, path: Path, unit: str | None) -> Imported:
    """What a format that writes percent holds: as it is, or taken for fractions where the caller says so.

    A table without a number above 1 is refused until `--unit` says which. Where only some models have no number
    above 1, a note names them.
    """
    if unit is not None and unit not in ("percent", "fraction"):
        raise Misuse(f"this format holds shares, not `{unit}`", hint="--unit is percent or fraction here")
    if unit == "fraction":
        return replace(imported, scores=tuple(_from_fractions(scores, path) for scores in imported.scores))
    notes = list(imported.notes)
    for scores in imported.scores if unit is None else ():
        values = {name: _written(scores, name) for name in scores.table.settings if scores.unit(name) in PER_HUNDRED}
        every = [number for numbers in values.values() for number in numbers]
        if unclear({"": every}) is not None:
            refuse_unclear({name: numbers for name, numbers in values.items() if numbers}, path)
        notes += _low_models(scores)
    return replace(imported, notes=tuple(notes))


def _written(scores: Scores, setting: str) -> list[float]:
    values = 100 * scores.table.column(setting)
    return [float(value) for value in values[~np.isnan(values)]]


def _from_fractions(scores: Scores, path: Path) -> Scores:
    table = scores.table
    shares = np.array([scores.unit(name) in PER_HUNDRED for name in table.settings], dtype=bool)
    values = np.where(shares, np.round(100 * table.values, EXACT), table.values)
    if (values[:, shares] > 1).any():
        raise BadFile(f"{path} has values above 1: they are no fractions", hint="leave --unit out, or say percent")
    return replace(scores, table=replace(table, values=values))


def _low_models(scores: Scores) -> list[str]:
    """A note where all numbers of some models are at most 1, and half of that or more somewhere: fractions, perhaps."""
    shares = [j for j, name in enumerate(scores.table.settings) if scores.unit(name) == "percent"]
    if not shares:
        return []
    with np.errstate(invalid="ignore"):
        most = np.nanmax(np.where(np.isnan(scores.table.values), -1, scores.table.values)[:, shares], axis=1)
    low = [name for name, value in zip(scores.table.models, most, strict=True) if 0.005 <= value <= 0.01]
    if not low:
        return []
    return [f"{len(low)} of {len(scores.table.models)} models score 1 % at most, `{low[0]}` first: are they fractions?"]
