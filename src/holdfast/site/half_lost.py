"""The radius at which half of what a model gets right is lost, from the radii measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from holdfast.core.types import Score
from holdfast.site.conditions import StrengthAxis, axes, change_text, condition, strength_on
from holdfast.site.model_results import MeasuredRun

HALF = 0.5


@dataclass(frozen=True, slots=True)
class HalfLost:
    """What the runs of one attack at rising radii say of the radius where half is lost.

    `radius` is interpolated between measured radii, None where half is not lost up to the last of them. Its interval
    goes from the last measured radius at which more than half is surely kept (0 where there is none) to the first at
    which less than half is (inf). Of the shape between measured radii it assumes only that more radius loses more.
    """

    runs: tuple[MeasuredRun, ...]
    radius: Score | None

    @property
    def radii(self) -> tuple[float, ...]:
        return tuple(radius_of(run) for run in self.runs)

    @property
    def attack(self) -> str:
        """What the runs share: `pgd-linf, steps 10`."""
        return change_text(self.last.footer, without=_radius_axis(self.last))

    @property
    def last(self) -> MeasuredRun:
        return self.runs[-1]


def half_lost(runs: Sequence[MeasuredRun]) -> HalfLost | None:
    """From the attack under which half is lost, of several the one at most radii, then the one that leaves least.

    Where it is lost under none, from the one that went furthest; None where nothing says what was right.
    """
    lines: dict[tuple[str, str, str], dict[float, MeasuredRun]] = {}
    for run in runs:
        axis = _radius_axis(run)
        if axis is not None and run.kept is not None and run.kept.n:
            key = (condition(run.footer, without=axis), run.footer.weights, run.footer.model_full)
            lines.setdefault(key, {})[strength_on(run.footer, axis)] = run
    if not lines:
        return None
    return min((_of_line([line[radius] for radius in sorted(line)]) for line in lines.values()), key=_rank)


def radius_of(run: MeasuredRun) -> float:
    """The radius of the run's attack; NaN where it has none."""
    axis = _radius_axis(run)
    return math.nan if axis is None else strength_on(run.footer, axis)


def crossing(radii: Sequence[float], shares: Sequence[float]) -> float:
    """Where shares, joined by straight lines, first come down to one half; inf where they do not."""
    for i in range(1, len(radii)):
        if shares[i] <= HALF:
            fall = shares[i - 1] - shares[i]
            part = (shares[i - 1] - HALF) / fall if fall > 0 else 1.0
            return radii[i - 1] + part * (radii[i] - radii[i - 1])
    return math.inf


def _of_line(runs: Sequence[MeasuredRun]) -> HalfLost:
    radii = [0.0, *(radius_of(run) for run in runs)]
    kept = [run.kept for run in runs if run.kept is not None]
    n = min(score.n for score in kept)
    value = crossing(radii, [1.0, *(score.value for score in kept)])
    if math.isinf(value):
        return HalfLost(tuple(runs), None)
    sure = list(takewhile(lambda point: point[1].low > HALF, zip(radii[1:], kept, strict=True)))
    low = sure[-1][0] if sure else 0.0
    high = next((radius for radius, score in zip(radii[1:], kept, strict=True) if score.high < HALF), math.inf)
    return HalfLost(tuple(runs), Score(value, low, high, n))


def _radius_axis(run: MeasuredRun) -> StrengthAxis | None:
    return next((axis for axis in reversed(axes(run.footer)) if axis.name == "radius"), None)


def _rank(result: HalfLost) -> tuple[bool, float, float]:
    """Lost comes first, then many radii, or a large one where it is not lost, then low accuracies."""
    reach = result.radii[-1] if result.radius is None else len(result.runs)
    return result.radius is None, -reach, math.fsum(run.accuracy.value for run in result.runs) / len(result.runs)
