"""Balanced accuracy: every class counts the same, however many samples it has."""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.per_class_accuracy import per_class
from holdfast.store.rows import Rows


def mean_of_shares(scores: Sequence[Score]) -> Score:
    """The mean of independent shares, its interval made of theirs (Zou & Donner 2008, "MOVER").

    Each side is the root of the summed squares of the shares' own distances to that side: one share keeps its
    interval, and where all are 0 or 1 the interval ends there and has a width.
    """
    count = len(scores)
    if not count:
        return Score(math.nan, 0.0, 1.0, 0)
    mean = math.fsum(score.value for score in scores) / count
    below = math.sqrt(math.fsum((score.value - score.low) ** 2 for score in scores)) / count
    above = math.sqrt(math.fsum((score.high - score.value) ** 2 for score in scores)) / count
    return Score(mean, max(0.0, mean - below), min(1.0, mean + above), sum(score.n for score in scores))


@register("metric", "balanced-accuracy", source="Zou & Donner 2008, doi:10.1002/sim.3095")
class BalancedAccuracy:
    """Mean over classes of the share right in each: a model that always answers one of k classes has 1 / k.

    Classes without samples are left out.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return mean_of_shares(list(per_class(rows).values()))
