"""Two models: how much they differ, and whether chance explains it; on the same samples, or in a published table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.core.errors import HoldfastError, NoLabels, unknown
from holdfast.core.intervals import CONFIDENCE, printed_score, wilson
from holdfast.core.rounding import shown
from holdfast.core.types import Score
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.difference_tests import mcnemar, paired_difference, printed_difference
from holdfast.metrics.summary import NO_SCORE, lines, unlabelled
from holdfast.store.rows import Rows
from holdfast.store.scores import Scores
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class Comparison:
    """Model `one` against model `other` under one scenario, sample by sample."""

    scenario: str
    one: Score
    other: Score
    difference: Score
    only_one: int
    only_other: int
    chance: float
    left_out: int

    def record(self) -> dict[str, object]:
        """Flat and plain, for CSV and JSON; shares are fractions."""
        flat = self.one.flat("one") | self.other.flat("other") | self.difference.flat("difference")
        counts = {"n": self.one.n, "only_one": self.only_one, "only_other": self.only_other, "left_out": self.left_out}
        return {"scenario": self.scenario, **flat, **counts, "p": self.chance, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """In words: `better`, `worse` or `no difference shown`. The interval leaves out 0 where p is below 5 %."""
        if self.chance >= 1 - CONFIDENCE:
            return "no difference shown"
        return "better" if self.difference.value > 0 else "worse"


def compare(one: Rows, other: Rows) -> Comparison:
    """Paired comparison on the samples both runs hold; `left_out` counts those only one of them has."""
    theirs = set(other.ids)
    shared = [name for name in one.ids if name in theirs]
    if not shared:
        raise HoldfastError(
            f"`{one.footer.model}` and `{other.footer.model}` share no samples under `{one.footer.scenario}`",
            hint="evaluate both on the same dataset with the same --samples",
        )
    right, wrong = aligned(one, shared), aligned(other, shared)
    if (right.labels != wrong.labels).any():
        raise HoldfastError(
            "the two runs disagree about the labels of the same samples",
            hint="their datasets differ: evaluate one of them again",
        )
    a, b = right.correct, wrong.correct
    only_one, only_other = int((a & ~b).sum()), int((~a & b).sum())
    return Comparison(
        scenario=one.footer.scenario,
        one=wilson(int(a.sum()), len(a)),
        other=wilson(int(b.sum()), len(b)),
        difference=paired_difference(a, b),
        only_one=only_one,
        only_other=only_other,
        chance=mcnemar(only_one, only_other),
        left_out=len(one) + len(other) - 2 * len(shared),
    )


def comparisons(store: Store, one: str, other: str, *, scenarios: Sequence[str] = ()) -> list[Comparison]:
    """Every scenario under which both models were measured, each on its largest choice of samples."""
    first = {made.footer.scenario: made.footer for made in lines(store, models=[one], scenarios=scenarios)}
    second = {made.footer.scenario: made.footer for made in lines(store, models=[other], scenarios=scenarios)}
    known = {footer.model for footer in store.footers().values()}
    for model, runs in ((one, first), (other, second)):
        if model not in known:
            raise unknown("measured model", model, known)
        if not runs and unlabelled(store, models=[model], scenarios=scenarios):
            raise NoLabels(f"`{model}` was measured on data without labels alone", hint=NO_SCORE)
        if not runs:
            raise HoldfastError(f"`{model}` was not measured under {', '.join(scenarios)}")
    shared = [scenario for scenario in first if scenario in second]
    if not shared:
        raise HoldfastError(f"`{one}` and `{other}` were measured under no scenario in common")
    pairs = [(store.read_or_tell(first[name].key), store.read_or_tell(second[name].key)) for name in shared]
    made = [compare(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if not made:
        raise HoldfastError(
            f"no scenario of `{one}` and `{other}` has rows of both that can be read", hint="`holdfast verify` says why"
        )
    return made


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
        tested = printed_difference(first.value, first.n, second.value, second.n)
        made.append(Unpaired(setting, unit, first, second, *tested))
    if not made:
        raise HoldfastError(f"`{one}` and `{other}` share no setting of `{scores.benchmark}`")
    return made
