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
    """A share with its Wilson score interval (Wilson 1927): inside [0, 1] and sensible at 0, 1 and small n."""
    if n == 0:
        return Score(math.nan, 0.0, 1.0, 0)
    z = z_value(confidence)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Score(share, low, high, n)
