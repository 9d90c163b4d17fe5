"""Error consistency: whether two models err on the same samples more often than their accuracies alone explain.

Cohen's κ on right and wrong, as in Geirhos et al. (arXiv:2006.16736). 1: the same samples; 0: as by chance; below 0:
they avoid each other's errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.types import Score
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.resampling import RESAMPLES, percentiles, resampled_sums
from holdfast.store.rows import Rows


def error_consistency(one: Rows, other: Rows, *, resamples: int = RESAMPLES) -> Score:
    """κ of two runs on the same samples; NaN where both are always right or both always wrong."""
    other = aligned(other, one.ids)
    if len(other) != len(one) or (one.labels != other.labels).any():
        raise HoldfastError("the two runs are not of the same samples with the same labels")
    return kappa(one.correct, other.correct, resamples=resamples)


def kappa(one: NDArray[np.bool_], other: NDArray[np.bool_], *, resamples: int = RESAMPLES) -> Score:
    """(observed - expected) / (1 - expected) agreement of being right, with a bootstrap interval over samples."""
    assert one.shape == other.shape, "paired samples: the same samples in the same order"
    n = len(one)
    if not n:
        return Score(math.nan, -1.0, 1.0, 0)
    columns = np.stack([one, other, one == other], axis=1).astype(np.float64)
    value = float(_kappa(columns.mean(axis=0)[None])[0])
    if not resamples:
        return Score(value, math.nan, math.nan, n)
    return percentiles(value, _kappa(resampled_sums(columns, resamples=resamples) / n), n)


def consistency_matrix(runs: Sequence[Rows]) -> NDArray[np.float64]:
    """κ of every pair of runs on the same samples; the diagonal is 1, or NaN where κ is not defined."""
    right = np.stack([aligned(rows, runs[0].ids).correct for rows in runs]).astype(np.float64)
    shares = right.mean(axis=1)
    same = (right @ right.T + (1 - right) @ (1 - right).T) / right.shape[1]
    expected = np.outer(shares, shares) + np.outer(1 - shares, 1 - shares)
    return _ratio(same - expected, 1 - expected)


def _kappa(means: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other, same = means.T
    expected = one * other + (1 - one) * (1 - other)
    return _ratio(same - expected, 1 - expected)


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    made: NDArray[np.float64] = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 1e-12)
    return made
