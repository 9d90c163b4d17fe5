"""Tests of a difference between two shares, and the intervals that hold what the tests do not reject."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from holdfast.core.intervals import CONFIDENCE, z_value
from holdfast.core.types import Score, without_interval

STEPS = 60  # halvings: a bound is exact to 2^-60


class Tested(NamedTuple):
    """A difference with its interval, and the p-value of no difference: below 5 % where the interval leaves out 0."""

    difference: Score
    p: float


def paired_difference(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Score:
    """Share of `one` minus share of `other` on the same samples: all differences that the samples do not reject.

    No difference is tested by `mcnemar`, any other by the score test of Tango (1998), inverted. Tango's test rejects no
    difference wherever `mcnemar` does, and for some counts more, so the interval leaves out 0 where and only where
    `mcnemar` is below 5 %.
    """
    assert one.shape == other.shape, "paired samples: the same samples in the same order"
    n = len(one)
    if n == 0:
        return Score(math.nan, -1.0, 1.0, 0)
    only_one, only_other = int((one & ~other).sum()), int((~one & other).sum())
    value = (only_one - only_other) / n
    low, high = _inverted(value, partial(_paired_z, only_one, only_other, n), z_value())
    if mcnemar(only_one, only_other) >= 1 - CONFIDENCE:
        low, high = min(low, 0.0), max(high, 0.0)
    return Score(value, low, high, n)


def mcnemar(only_one: int, only_other: int) -> float:
    """Two-sided mid-p-value that two models differ only by chance, from the samples on which they disagree.

    McNemar (1947) with the binomial distribution, equal outcomes counted half (Fagerland, Lydersen and Laake 2013
    advise it). Of equal models on up to 1,000 samples it rejects 5.4 % at most where they differ on 90 % of samples
    or fewer, and 7.7 % at most (16 samples, always exactly one of them right). Without the exact distribution 4 against
    0 would reject: 12.5 % of cases in which four samples differ.
    """
    return min(1.0, 2 * float(_mid_tail(np.asarray(only_one, np.float64), np.asarray(only_other, np.float64))))


def mcnemar_z(only_one: ArrayLike, only_other: ArrayLike) -> NDArray[np.float64]:
    """Standard errors that `mcnemar` of many counts stands for, negative where the first is behind."""
    first, second = np.broadcast_arrays(np.asarray(only_one, np.float64), np.asarray(only_other, np.float64))
    # an equal number, which is 0 standard errors exactly, may be one by rounding
    return np.asarray(np.where(first == second, 0.0, -np.sign(first - second) * ndtri(_mid_tail(first, second))))


def _mid_tail(only_one: NDArray[np.float64], only_other: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely a fair coin gives more heads than the larger count, and half of how likely it gives as many."""
    most, least = np.maximum(only_one, only_other), np.minimum(only_one, only_other)
    as_many = np.where(most > 0, betainc(np.maximum(most, 1), least + 1, 0.5), 1.0)
    more = np.where(least > 0, betainc(most + 1, np.maximum(least, 1), 0.5), 0.0)
    return np.asarray(np.where(most > 0, (as_many + more) / 2, 0.5))


def exact_bounds(right: ArrayLike, n: ArrayLike, miss: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of shares, each beyond the truth in `miss` / 2 of cases at most (Clopper and Pearson 1934).

    For levels far from 95 %, at which bounds by the normal distribution do not hold.
    """
    k, of = np.broadcast_arrays(np.asarray(right, dtype=np.float64), np.asarray(n, dtype=np.float64))
    low = np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1e-9), of - k + 1, miss / 2))
    high = np.where(k >= of, 1.0, betaincinv(k + 1, np.maximum(of - k, 1e-9), 1 - miss / 2))
    return low, high


def unpaired_difference(
    right: int, n: int, other_right: int, other_n: int, *, confidence: float = CONFIDENCE
) -> Tested:
    """Share minus other share, each of its own samples: the score test of Miettinen and Nurminen (1985), inverted."""
    value = right / n - other_right / other_n
    z = partial(_unpaired_z, right, n, other_right, other_n)
    low, high = _inverted(value, z, z_value(confidence))
    p = math.erfc(abs(z(0.0)) / math.sqrt(2))
    # a bound of exactly 0 within rounding: the test has the last word
    if p >= 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)
    return Tested(Score(value, low, high, min(n, other_n)), p)


def printed_difference(share: float, n: int, other_share: float, other_n: int) -> Tested:
    """A difference as printed, with the interval and p of the counts behind it: printed shares are rounded."""
    value = float(share - other_share)
    if not (n and other_n):
        return Tested(without_interval(value, 0, "nobody says how many samples the scores rest on"), math.nan)
    made, p = unpaired_difference(round(share * n), n, round(other_share * other_n), other_n)
    return Tested(replace(made, value=value, low=min(made.low, value), high=max(made.high, value)), p)


def _inverted(value: float, z: Callable[[float], float], limit: float) -> tuple[float, float]:
    """The differences at which a test statistic, falling from +∞ to -∞ and 0 at `value`, is `limit` and -`limit`."""

    def bound(end: float, sign: float) -> float:
        inner, outer = value, end
        if sign * z(end) <= limit:
            return end
        for _ in range(STEPS):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if sign * z(middle) <= limit else (inner, middle)
        return inner

    return bound(-1.0, 1.0), bound(1.0, -1.0)


def _paired_z(only_one: int, only_other: int, n: int, at: float) -> float:
    """Tango 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B, with its closed form."""
    b = (2 * n - only_one + only_other) * at - only_one - only_other
    c = -only_other * at * (1 - at)
    rare = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    return _ratio(only_one - only_other - n * at, n * (2 * rare + at * (1 - at)))


def _unpaired_z(right: int, n: int, other_right: int, other_n: int, at: float) -> float:
    """Miettinen and Nurminen 1985, doi:10.1002/sim.4780040211: the shares most likely under a difference of `at`."""
    both = n + other_n
    # the cubic that the other share solves where the difference is `at`
    cubic = both
    square = -(both + right + other_right) + (other_n + both) * at
    plain = right + other_right - (both + 2 * other_right) * at + other_n * at * at
    last = other_right * at * (1 - at)
    q = square**3 / (3 * cubic) ** 3 - square * plain / (6 * cubic**2) + last / (2 * cubic)
    p = math.copysign(math.sqrt(max(square**2 / (3 * cubic) ** 2 - plain / (3 * cubic), 0.0)), q)
    turn = (math.pi + math.acos(min(1.0, max(-1.0, q / p**3)))) / 3 if p else 0.0
    second = min(1.0, max(0.0, 2 * p * math.cos(turn) - square / (3 * cubic)))
    first = min(1.0, max(0.0, second + at))
    variance = (first * (1 - first) / n + second * (1 - second) / other_n) * both / (both - 1)
    return _ratio(right / n - other_right / other_n - at, variance)


def _ratio(gap: float, variance: float) -> float:
    if variance > 1e-300:
        return gap / math.sqrt(variance)
    return math.copysign(math.inf, gap) if abs(gap) > 1e-12 else 0.0
