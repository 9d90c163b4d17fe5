"""Many refits at once: models or samples are resampled, and all fits are solved in a few matrix products."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.types import Score
from holdfast.metrics.bootstrap_draws import percentiles
from holdfast.trends.spaces import Floats, inside

DRAWS = 1000  # arXiv:2007.00644 draws its bands from 1,000 line fits


class LineFits(NamedTuple):
    """Slopes and intercepts, (draws, columns); NaN where a draw left fewer than two different x. `n`: the models."""

    slope: Floats
    intercept: Floats
    n: NDArray[np.int64]


def sample_draws(values: Floats, counts: NDArray[np.int64], draws: int = DRAWS, *, seed: int = 0) -> Floats:
    """Scores as measured again on as many other samples: binomial, (draws, *shape), half a sample off 0 and 1.

    Every score is drawn for itself. Models measured on the same images are alike in what they get wrong, so the
    scatter of a difference is smaller than this says; `ranks` takes the answers themselves and knows.
    """
    if (counts[np.isfinite(values)] <= 0).any():
        raise Misuse("drawing samples again needs the count behind every score", hint="draw models instead")
    known = np.isfinite(values)
    drawn = np.full((draws, *values.shape), np.nan)
    n = counts[known]
    right = np.random.default_rng(seed).binomial(n, values[known], size=(draws, len(n)))
    drawn[:, known] = inside(right / n, n)
    return drawn


def fit_lines(x: Floats, y: Floats, weights: Floats | None = None) -> LineFits:
    """Weighted least-squares lines of every column of y (models, columns) on x (models,) or its own column of x.

    x and y are already in their space, NaN where there is no value; `weights` is (draws, models), one plain fit where
    None. Cost: six products of (draws, models) with (models, columns).
    """
    y = y[:, None] if y.ndim == 1 else y
    x = np.broadcast_to(x[:, None], y.shape) if x.ndim == 1 else x
    weights = np.ones((1, len(y))) if weights is None else weights
    assert x.shape == y.shape, f"x of shape {x.shape} for y of shape {y.shape}"
    present = np.isfinite(x) & np.isfinite(y)
    n = present.sum(axis=0)
    # about their means, so that sums of squares lose no digits
    x_mean, y_mean = (np.where(present, a, 0).sum(axis=0) / np.maximum(n, 1) for a in (x, y))
    dx, dy = np.where(present, x - x_mean, 0), np.where(present, y - y_mean, 0)
    total = weights @ present.astype(np.float64)
    sx, sy, sxx, sxy = weights @ dx, weights @ dy, weights @ (dx * dx), weights @ (dx * dy)
    with np.errstate(divide="ignore", invalid="ignore"):
        varied = sxx - sx * sx / total
        enough = varied > 1e-12 * np.maximum((dx * dx).sum(axis=0), 1e-300)
        slope = np.where(enough, (sxy - sx * sy / total) / varied, np.nan)
        intercept = (sy - slope * sx) / total + y_mean - slope * x_mean
    return LineFits(slope, intercept, n)


def fit_planes(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Weights and intercept (last) of every draw, (draws, k + 1).

    x is (models, k) or (draws, models, k), y (models,) or (draws, models), weights (draws, models), all in the space.
    """
    draws = len(weights)
    x = np.broadcast_to(x, (draws, *x.shape[-2:]))
    y = np.broadcast_to(y, (draws, y.shape[-1]))
    design = np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
    weighted = design * weights[:, :, None]
    normal = np.swapaxes(weighted, 1, 2) @ design
    right = np.swapaxes(weighted, 1, 2) @ y[:, :, None]
    made = np.full((draws, design.shape[-1]), np.nan)
    scale = np.sqrt(np.einsum("dii->di", normal))
    scaled = normal / (scale[:, :, None] * scale[:, None, :])
    sound = np.linalg.cond(scaled) < 1e12
    made[sound] = np.linalg.solve(scaled[sound], right[sound] / scale[sound, :, None])[..., 0] / scale[sound]
    return made


def correlations(x: Floats, y: Floats, weights: Floats | None = None) -> Floats:
    """Pearson's r of the columns of x with those of y for each row of weights, over the models that have both.

    x and y are (models, columns), or (models, 1) for one against all; NaN where either does not vary.
    """
    x, y = np.broadcast_arrays(x, y)
    weights = np.ones((1, len(y))) if weights is None else weights
    present = np.isfinite(x) & np.isfinite(y)
    n = np.maximum(present.sum(axis=0), 1)
    dx, dy = (np.where(present, a - np.where(present, a, 0).sum(axis=0) / n, 0) for a in (x, y))
    total, sx, sy = weights @ present.astype(np.float64), weights @ dx, weights @ dy
    with np.errstate(divide="ignore", invalid="ignore"):
        xx, yy = weights @ (dx * dx) - sx * sx / total, weights @ (dy * dy) - sy * sy / total
        # a sum of squares this small is rounding: what is left of a constant
        varied = (xx > 1e-20 * total) & (yy > 1e-20 * total)
        r = (weights @ (dx * dy) - sx * sy / total) / np.sqrt(xx * yy)
    return np.where(varied, np.clip(r, -1, 1), np.nan)


def widened_confidence(confidence: float, n: int, k: int) -> float:
    """The confidence to take percentiles at so that refits over few models hold what they say.

    Percentiles of refits are too narrow by √((n - k - 1) / n) and know no t quantile; Hesterberg, "What teachers should
    know about the bootstrap" (arXiv:1411.5279), for a line over k inputs.
    """
    freedom = n - k - 1
    if freedom < 1:
        return 1.0
    reach = np.sqrt(n / freedom) * stdtrit(freedom, 0.5 + confidence / 2)
    return float(1 - 2 * ndtr(-reach))


def scored(value: float, drawn: Floats, n: int, *, confidence: float = CONFIDENCE) -> Score:
    """A value with the interval of its draws."""
    low, high = percentiles(drawn, confidence=confidence)
    return Score(value, float(low), float(high), n)
