"""Means and differences of scores, without losing the interval, the count, or a missing cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Score
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.resampling import RESAMPLES, percentiles, resampled_sums
from holdfast.store.rows import Rows

Rounding = Literal["round", "truncate"]


def mean_of(scores: Mapping[str, Score | None] | Sequence[Score | None], *, what: str = "scores") -> Score:
    """The mean of several scores; a missing one is refused, never left out in silence.

    The interval is the mean of the intervals. That is exact for cells that err together and wide for all others, which
    is the safe side: the same images under several changes do err together. n is the smallest of the counts.
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
    value, low, high = (
        math.fsum(getattr(each, part) for each in kept) / len(kept) for part in ("value", "low", "high")
    )
    return Score(value, low, high, min(each.n for each in kept))


def difference(one: Score, other: Score) -> Score:
    """`one` minus `other`, with the interval for independent samples (Newcombe 1998, method 10)."""
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    high = value + math.hypot(one.high - one.value, other.value - other.low)
    return Score(value, low, high, min(one.n, other.n))


def degradation(reference: Score, shifted: Score) -> Score:
    """How much is lost under a shift: positive where the shifted score is lower."""
    return difference(reference, shifted)


def average_accuracy(runs: Sequence[Rows], *, resamples: int = RESAMPLES) -> Score:
    """Mean accuracy over runs on the same samples; whole samples are resampled, with all that was done to each."""
    if not runs:
        raise HoldfastError("the average over no runs is not defined")
    right = np.stack([aligned(rows, runs[0].ids).correct for rows in runs], axis=1).mean(axis=1)
    sums = resampled_sums(right[:, None], resamples=resamples)[:, 0]
    return percentiles(float(right.mean()), sums / len(right), len(right))


def rounded(value: float, digits: int = 2, *, rounding: Rounding = "round") -> float:
    """As printed: to the nearest, halves up, or cut off, as Table 1 of OODRobustBench is."""
    if rounding not in ("round", "truncate"):
        raise Misuse(f"`rounding` is round or truncate, got `{rounding}`")
    if not math.isfinite(value):
        return value
    # nine more digits first: 38.9949999999999974 is 38.995 that a float cannot hold
    exact = Decimal(f"{value:.{digits + 9}f}")
    unit = Decimal(1).scaleb(-digits)
    return float(exact.quantize(unit, rounding=ROUND_HALF_UP if rounding == "round" else ROUND_DOWN))
