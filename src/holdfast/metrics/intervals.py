"""Intervals and tests for two shares measured on the same samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import CONFIDENCE, wilson
from holdfast.core.types import Score


def paired_difference(one: NDArray[np.bool_], other: NDArray[np.bool_], *, confidence: float = CONFIDENCE) -> Score:
    """Share of `one` minus share of `other` on the same samples, with Newcombe's interval (1998, method 10)."""
    assert one.shape == other.shape, "paired samples: the same samples in the same order"
    n = len(one)
    if n == 0:
        return Score(math.nan, -1.0, 1.0, 0)
    both, only_one = int((one & other).sum()), int((one & ~other).sum())
    only_other, neither = int((~one & other).sum()), int((~one & ~other).sum())
    first = wilson(both + only_one, n, confidence=confidence)
    second = wilson(both + only_other, n, confidence=confidence)
    difference = first.value - second.value
    margins = (both + only_one) * (only_other + neither) * (both + only_other) * (only_one + neither)
    cross = float(both * neither - only_one * only_other)
    if cross > 0:
        cross = max(cross - n / 2, 0)
    correlation = cross / math.sqrt(margins) if margins else 0.0
    low = difference - _length(first.value - first.low, second.high - second.value, correlation)
    high = difference + _length(first.high - first.value, second.value - second.low, correlation)
    return Score(difference, low, high, n)


def mcnemar(only_one: int, only_other: int) -> float:
    """Exact two-sided p-value that two models differ only by chance, from the samples on which they disagree."""
    n = only_one + only_other
    if n == 0:
        return 1.0
    fewer = min(only_one, only_other)
    tail = math.fsum(math.exp(_log_choose(n, k) - n * math.log(2)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


def _length(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
