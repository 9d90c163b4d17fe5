"""The interval of a measured share."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

from holdfast.core.types import Score

CONFIDENCE = 0.95


@cache
def z_value(confidence: float = CONFIDENCE) -> float:
    """The two-sided normal quantile, 1.96 at 95 %."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Score:
    """A share with Wilson's score interval and its continuity correction (Newcombe 1998, method 4).

    Without the correction it holds a share of 1 % in 92 % of samples of 100, and one of 0.9 % in 84 % of samples of 20;
    with it in 94.8 % or more, whatever the share and n (`docs/coverage.md`).
    """
    if n == 0:
        return Score(math.nan, 0.0, 1.0, 0)
    low, high = share_bounds(successes, n, confidence=confidence)
    return Score(successes / n, low, high, n)


def share_bounds(successes: float, n: float, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The bounds of `wilson`; counts need not be whole, as where samples weigh differently."""
    z = z_value(confidence)
    low = 0.0 if successes <= 0 else _lower(successes / n, n, z)
    high = 1.0 if successes >= n else 1 - _lower(1 - successes / n, n, z)
    return low, high


def _lower(share: float, n: float, z: float) -> float:
    root = z * z - 2 - 1 / n + 4 * share * (n * (1 - share) + 1)
    return max(0.0, (2 * n * share + z * z - 1 - z * math.sqrt(max(root, 0.0))) / (2 * (n + z * z)))
