"""The interval of a share, measured or printed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from holdfast.core.types import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95


@cache
def z_value(confidence: float = CONFIDENCE) -> float:
    """The two-sided normal quantile, 1.96 at 95 %."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(successes: int, n: int) -> Score:
    """A share with Wilson's score interval and its continuity correction (Newcombe 1998, method 4).

    Without the correction it holds a share of 1 % in 92 % of samples of 100, and one of 0.9 % in 84 % of samples of 20;
    with it in 94.8 % or more, whatever the share and n (`docs/coverage.md`).
    """
    if n == 0:
        return Score(math.nan, 0.0, 1.0, 0)
    low, high = share_bounds(successes, n)
    return Score(successes / n, low, high, n)


def share_bounds(successes: float, n: float, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The bounds of `wilson`; counts need not be whole, as where samples weigh differently."""
    z = z_value(confidence)
    low = 0.0 if successes <= 0 else _lower(successes / n, n, z)
    high = 1.0 if successes >= n else 1 - _lower(1 - successes / n, n, z)
    return low, high


def share_intervals(value: ArrayLike, n: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The bounds of `wilson` for many shares, NaN where n is 0; printed shares are rounded, and never outside."""
    import numpy as np

    shares, counts = np.asarray(value, dtype=np.float64), np.asarray(n, dtype=np.float64)
    z = z_value()
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.round(shares * counts) / counts
        low = np.where(whole == 0, 0, _lower(whole, counts, z, sqrt=np.sqrt, larger=np.maximum))
        high = np.where(whole == 1, 1, 1 - _lower(1 - whole, counts, z, sqrt=np.sqrt, larger=np.maximum))
    return np.minimum(low, shares), np.maximum(high, shares)


def printed_score(value: float, n: int, unit: str) -> Score:
    """A number with its interval where it is a share and its count is known."""
    if not n or unit not in ("percent", "fraction"):
        return Score(value, math.nan, math.nan, 0)
    low, high = share_intervals(value, n)
    return Score(value, float(low), float(high), n)


def _lower(
    share: Any, n: Any, z: float, *, sqrt: Callable[..., Any] = math.sqrt, larger: Callable[..., Any] = max
) -> Any:
    """The lower bound of numbers, or of arrays with the functions for them."""
    root = z * z - 2 - 1 / n + 4 * share * (n * (1 - share) + 1)
    return larger(0.0, (2 * n * share + z * z - 1 - z * sqrt(larger(root, 0.0))) / (2 * (n + z * z)))
