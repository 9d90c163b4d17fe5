"""The bootstrap over samples, vectorised: sums over resampled rows, and percentile intervals from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import CONFIDENCE

RESAMPLES = 1000
_AT_ONCE = 2_000_000  # counts held in memory: 16 MB


def resampled_sums(columns: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Column sums over `resamples` draws of all rows with replacement, (resamples, columns).

    One matrix product of draw counts with the columns, so a statistic that is a function of sums costs no loop. The
    draws depend on `seed` and the number of rows alone: two sets of columns over the same samples are resampled alike.
    """
    n = len(columns)
    random = np.random.default_rng(seed)
    sums = np.empty((resamples, columns.shape[1]))
    step = max(1, _AT_ONCE // max(n, 1))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        sums[start : start + size] = draw_counts(n, size, seed=random) @ columns
    return sums


def draw_counts(n: int, draws: int, *, seed: int | np.random.Generator = 0) -> NDArray[np.float64]:
    """How often each of n items is in each draw of n with replacement, (draws, n); every row sums to n."""
    index = np.random.default_rng(seed).integers(0, n, (draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(index.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def percentiles(
    drawn: NDArray[np.float64], *, confidence: float = CONFIDENCE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The bounds that hold the middle of the draws, over the first axis; draws without a value are not counted."""
    tail = (1 - confidence) / 2
    known = np.isfinite(drawn)
    if known.all():
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        return low, high
    nothing = ~known.any(axis=0)
    kept = np.where(nothing, 0.0, np.where(known, drawn, np.nan))
    low, high = np.where(nothing, np.nan, np.nanquantile(kept, [tail, 1 - tail], axis=0))
    return low, high
