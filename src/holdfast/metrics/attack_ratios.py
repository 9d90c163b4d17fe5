"""The scores of MultiRobustBench and UAR by name: ratios to the best known accuracy over a battery of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.metrics.multi_attack import (
    Battery,
    Competitiveness,
    competitiveness,
    inside_outside,
    knowledge,
    mean_uar,
    single_competitiveness,
    uar,
)
from holdfast.metrics.stability import conditioned_stability, stability

SOURCE = "arXiv:2302.10980"
BEST_N = 30_000  # behind every acc* of MultiRobustBench: three models on 10,000 images
LOWEST = "the lowest of several attacks, chosen by the samples that measure it: name one for its interval"
Ratio = Literal["average", "worst", "expected", "maximum"]


def ratio_named(made: Competitiveness, name: Ratio) -> Score:
    """One of the four ratios of a battery."""
    score: Score = getattr(made, "individual_worst" if name == "worst" else name)
    return score


class _CompetitivenessRatio:
    """One of the four ratios of the whole battery."""

    unit = "percent"
    ratio: Ratio

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:  # noqa: ARG002
        return ratio_named(competitiveness(cells), self.ratio)


@register("metric", "cr-ind-avg", source=SOURCE)
class AverageRatio(_CompetitivenessRatio):
    """Competitiveness ratio, average: the mean over attacks of accuracy / best known accuracy."""

    ratio = "average"


@register("metric", "cr-ind-worst", source=SOURCE)
class WorstRatio(_CompetitivenessRatio):
    """Competitiveness ratio, worst case: the smallest accuracy / best known accuracy over attacks."""

    ratio = "worst"


@register("metric", "cr-exp", source=SOURCE)
class ExpectedRatio(_CompetitivenessRatio):
    """CR_exp: mean accuracy over attacks / mean of the best known accuracies."""

    ratio = "expected"


@register("metric", "cr-max", source=SOURCE)
class MaximumRatio(_CompetitivenessRatio):
    """CR_max: smallest accuracy over attacks / smallest of the best known accuracies."""

    ratio = "maximum"


@register("metric", "single-cr", source=SOURCE)
class SingleRatio:
    """Competitiveness ratio over the strengths of one attack and no attack; without `attack`, of the lowest of them."""

    unit = "percent"

    def __init__(self, *, attack: str | None = None, ratio: Ratio = "average") -> None:
        self.attack, self.ratio = attack, ratio

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:  # noqa: ARG002
        if not cells.attacks:
            raise HoldfastError("the battery has no attacks, and no ratio of one is defined")
        if self.attack is not None:
            if self.attack not in cells.attacks:
                raise unknown("attack of this battery", self.attack, cells.attacks)
            cells = cells.with_attack(self.attack)
        every = [ratio_named(made, self.ratio) for made in single_competitiveness(cells).values()]
        lowest = min(every, key=lambda score: score.value)
        return lowest if len(every) == 1 else without_interval(lowest.value, lowest.n, LOWEST)


class _PartRatio:
    """A ratio over a part of the battery."""

    unit = "percent"

    def __init__(self, *, ratio: Ratio = "average") -> None:
        self.ratio = ratio


@register("metric", "cr-in", source=SOURCE)
class RatioInside(_PartRatio):
    """Competitiveness ratio over the attacks that a model was trained on, and no attack."""

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:
        return _side(inside_outside(cells, trained)[0], self.ratio, "foreseen")


@register("metric", "cr-out", source=SOURCE)
class RatioOutside(_PartRatio):
    """Competitiveness ratio over the attacks that a model was not trained on."""

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:
        return _side(inside_outside(cells, trained)[1], self.ratio, "unforeseen")


@register("metric", "uar", source="arXiv:1908.08016")
class UnforeseenRobustness:
    """UAR: accuracies summed over strengths / best known ones; of one `attack`, else the mean over attacks (mUAR)."""

    unit = "percent"

    def __init__(self, *, attack: str | None = None) -> None:
        self.attack = attack

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:  # noqa: ARG002
        if self.attack is None:
            return mean_uar(cells)
        every = uar(cells)
        if self.attack not in every:
            raise unknown("attack of this battery", self.attack, every)
        return every[self.attack]


@register("metric", "stability-constant", source=SOURCE)
class StabilityConstant:
    """Largest |accuracy difference| / |difficulty difference| between attacks of like difficulty, one of them known.

    `conditioned` counts only attacks whose difficulties differ by more than chance, for `best_n` samples behind each.
    """

    def __init__(self, *, conditioned: bool = False, best_n: int = BEST_N) -> None:
        self.conditioned, self.best_n = conditioned, best_n

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:
        if not self.conditioned:
            return stability(cells, trained).constant
        known = Battery(cells.entries, cells.accuracies, cells.best, cells.n, cells.best_n or self.best_n)
        return conditioned_stability(known, trained).constant


@register("metric", "attacks-seen", source=SOURCE)
class AttacksSeen:
    """Share of the attacks of a battery that a model was trained on; no attack counts as known."""

    unit = "percent"

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score:
        return without_interval(knowledge(cells.entries, trained).share, 0, "a count of the attacks, no estimate")


def _side(made: Competitiveness | None, ratio: Ratio, what: str) -> Score:
    if made is None:
        raise HoldfastError(f"no attack of the battery is {what}")
    return ratio_named(made, ratio)
