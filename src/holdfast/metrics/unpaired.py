"""Two models of a published table: a difference without the samples behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.types import Score
from holdfast.metrics.averages import difference
from holdfast.metrics.board import score_of
from holdfast.store.scores import Scores


class Unpaired(NamedTuple):
    """Two models under one setting of a table, whose samples nobody has: a difference without pairs."""

    setting: str
    unit: str
    one: Score
    other: Score
    difference: Score

    @property
    def verdict(self) -> str:
        """In words; without counts there is nothing to test."""
        if not self.difference.n:
            return "counts unknown"
        if self.difference.low > 0:
            return "higher"
        return "lower" if self.difference.high < 0 else "no difference shown"

    def texts(self) -> tuple[str, str, str]:
        """Both scores and their difference, as they are printed."""
        scale = 100 if self.unit in ("percent", "points") else 1
        bounds = self.difference
        interval = f" [{scale * bounds.low:+.2f}, {scale * bounds.high:+.2f}]" if bounds.n else ""
        shown = f"{scale * bounds.value:+.2f}{interval}"
        return f"{scale * self.one.value:.2f}", f"{scale * self.other.value:.2f}", shown

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
            "verdict": self.verdict,
        }


def unpaired(scores: Scores, one: str, other: str, *, settings: Iterable[str] = ()) -> list[Unpaired]:
    """Every setting under which a table has both models."""
    rows = scores.table.of([one, other])
    wanted = list(settings)
    for name in wanted:
        rows.column(name)  # an error that suggests, for a setting nobody has
    made = []
    for j, setting in enumerate(rows.settings):
        values = rows.values[:, j]
        if (wanted and setting not in wanted) or not all(map(math.isfinite, values)):
            continue
        unit = scores.unit(setting)
        first, second = (score_of(float(values[i]), int(rows.counts[i, j]), unit) for i in (0, 1))
        if first.n and second.n:
            gap = difference(first, second)
        else:
            gap = Score(first.value - second.value, math.nan, math.nan, 0)
        made.append(Unpaired(setting, unit, first, second, gap))
    if not made:
        raise HoldfastError(f"`{one}` and `{other}` share no setting of `{scores.benchmark}`")
    return made
