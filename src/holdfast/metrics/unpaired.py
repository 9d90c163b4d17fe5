"""Two models of a published table: a difference without the samples behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import CONFIDENCE, printed_score
from holdfast.core.rounding import shown
from holdfast.core.types import Score, without_interval
from holdfast.metrics.difference_tests import Tested, unpaired_difference
from holdfast.store.scores import Scores


class Unpaired(NamedTuple):
    """Two models under one setting of a table, whose samples nobody has: a difference without pairs."""

    setting: str
    unit: str
    one: Score
    other: Score
    difference: Score
    p: float

    @property
    def verdict(self) -> str:
        """In words; without counts there is nothing to test. The interval leaves out 0 where p is below 5 %."""
        if not self.difference.n:
            return "counts unknown"
        if self.p >= 1 - CONFIDENCE:
            return "no difference shown"
        return "higher" if self.difference.value > 0 else "lower"

    def texts(self) -> tuple[str, str, str, str]:
        """Both scores, their difference and p, as they are printed."""
        scale = 100 if self.unit in ("percent", "points") else 1
        bounds = self.difference
        low, value, high = (shown(scale * part, 2, signed=True) for part in (bounds.low, bounds.value, bounds.high))
        interval = f" [{low}, {high}]" if bounds.n else ""
        p = f"{self.p:.2g}" if bounds.n else ""
        return shown(scale * self.one.value, 2), shown(scale * self.other.value, 2), f"{value}{interval}", p

    def record(self) -> dict[str, object]:
        """Flat and plain, for CSV and JSON; shares are fractions."""
        has = bool(self.difference.n)
        return {
            "setting": self.setting,
            "unit": self.unit,
            "one": self.one.value,
            "other": self.other.value,
            "difference": self.difference.value,
            "difference_low": self.difference.low if has else None,
            "difference_high": self.difference.high if has else None,
            "n": self.difference.n or None,
            "p": self.p if has else None,
            "verdict": self.verdict,
        }


def unpaired(scores: Scores, one: str, other: str, *, settings: Iterable[str] = ()) -> list[Unpaired]:
    """Every setting under which a table has both models."""
    rows = scores.table.of([one, other])
    chosen = list(settings)
    for name in chosen:
        rows.column(name)  # an error that suggests, for a setting nobody has
    made = []
    for j, setting in enumerate(rows.settings):
        values = rows.values[:, j]
        if (chosen and setting not in chosen) or not all(map(math.isfinite, values)):
            continue
        unit = scores.unit(setting)
        first, second = (printed_score(float(values[i]), int(rows.counts[i, j]), unit) for i in (0, 1))
        made.append(Unpaired(setting, unit, first, second, *_tested(first, second)))
    if not made:
        raise HoldfastError(f"`{one}` and `{other}` share no setting of `{scores.benchmark}`")
    return made


def _tested(one: Score, other: Score) -> Tested:
    """The difference as printed, with the interval and p of the counts behind it: printed shares are rounded."""
    value = one.value - other.value
    if not (one.n and other.n):
        return Tested(without_interval(value, 0, "nobody says how many samples the scores rest on"), math.nan)
    made = unpaired_difference(round(one.value * one.n), one.n, round(other.value * other.n), other.n)
    bounds = made.difference
    return Tested(replace(bounds, value=value, low=min(bounds.low, value), high=max(bounds.high, value)), made.p)
