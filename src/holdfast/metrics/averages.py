"""Means and differences of scores, without losing the interval, the count, or a missing cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.rounding import rounded as rounded
from holdfast.core.types import Score, without_interval
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.means import DRAWS, SampledValues, difference_reach, mean_over
from holdfast.store.rows import Rows

TOGETHER = "a mean of scores without their samples, which alone tell how the scores vary together"


def mean_of(scores: Mapping[str, Score | None] | Sequence[Score | None], *, what: str = "scores") -> Score:
    """The mean of several scores; a missing one is refused, never left out in silence.

    The mean of one keeps its interval; several have none, as scores alone do not tell how they vary together:
    `means.mean_over` takes the samples and has one. n is the smallest of the counts.
    """
    named = dict(scores) if isinstance(scores, Mapping) else {str(i + 1): each for i, each in enumerate(scores)}
    if not named:
        raise HoldfastError(f"the mean of no {what} is not defined")
    absent = [name for name, each in named.items() if each is None or math.isnan(each.value)]
    if absent:
        raise HoldfastError(
            f"{len(absent)} of {len(named)} {what} are missing, `{absent[0]}` first",
            hint="measure them, or leave them out by name and say so",
        )
    kept = [each for each in named.values() if each is not None]
    if len(kept) == 1:
        return kept[0]
    return without_interval(math.fsum(each.value for each in kept) / len(kept), min(each.n for each in kept), TOGETHER)


def difference(one: Score, other: Score, correlation: float = 0.0) -> Score:
    """`one` minus `other`, with the interval of Newcombe (1998, method 10) where both have one.

    `correlation` says how the two vary together (`means.correlation`): 0 for samples that have nothing in common.
    """
    value = one.value - other.value
    if not (one.has_interval and other.has_interval):
        return without_interval(value, min(one.n, other.n), one.why or other.why)
    low = value - difference_reach(one.value - one.low, other.high - other.value, correlation)
    high = value + difference_reach(one.high - one.value, other.value - other.low, correlation)
    return Score(value, low, high, min(one.n, other.n))


def average_accuracy(runs: Sequence[Rows], *, resamples: int = DRAWS) -> Score:
    """Mean accuracy over runs on the same samples; a sample varies with all that was done to it."""
    if not runs:
        raise HoldfastError("the average over no runs is not defined")
    every = np.arange(len(runs[0]))
    return mean_over([SampledValues(every, aligned(rows, runs[0].ids).correct) for rows in runs], draws=resamples)
