"""How far a line could have lain elsewhere: with other models, or with other samples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.bootstrap_draws import draw_counts, percentiles
from holdfast.trends.bootstrap import DRAWS, fit_planes, sample_draws, scored, widened_confidence
from holdfast.trends.fits import Fit, as_columns
from holdfast.trends.piecewise import Piecewise, Trend
from holdfast.trends.robustness import conversion_rate, score_columns, upper_limit
from holdfast.trends.spaces import Floats

Over = Literal["models", "samples", "both"]


class Band(NamedTuple):
    """What a line expects at `at` (points, k), with the bounds of its refits, in accuracy."""

    at: Floats
    expected: Floats
    low: Floats
    high: Floats


def refits(line: Fit, *, over: Over = "models", draws: int = DRAWS, seed: int = 0) -> Floats:
    """Weights and intercept (last) of the same fit made again and again, (draws, k + 1).

    Over `models`: models drawn with replacement. Over `samples`: the same models, measured on other samples. `both`:
    one on top of the other. A draw that determines no line is NaN.
    """
    points, space = line.points, line.space
    x, y = space.forward(points.x), space.forward(points.y)
    weights = np.ones((draws, line.n))
    if over not in ("models", "samples", "both"):
        raise Misuse(f"refits are over models, samples or both, got `{over}`")
    if over != "models":
        x = space.forward(sample_draws(points.x, points.x_counts, draws, seed=seed + 1))
        y = space.forward(sample_draws(points.y, points.y_counts, draws, seed=seed + 2))
    if over != "samples":
        weights = draw_counts(line.n, draws, seed=seed)
    return fit_planes(x, y, weights)


def band(
    line: Trend,
    at: Floats,
    *,
    over: Over = "models",
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    as_published: bool = False,
) -> Band:
    """The band in which the line itself lies; a single model scatters more widely, see `placing`.

    Over models the percentiles are a little wider than those of the refits, more so for few models; `as_published`
    takes them as they are.
    """
    if isinstance(line, Piecewise):
        at = np.asarray(at, dtype=np.float64).ravel()
        left, right = (
            band(side, at, over=over, draws=draws, seed=start, confidence=confidence, as_published=as_published)
            for side, start in ((line.left, seed), (line.right, seed + 10))
        )
        return Band(at[:, None], *(line.by_side(at, *pair) for pair in zip(left[1:], right[1:], strict=True)))
    columns = as_columns(at, len(line.weights))
    drawn = expected_of(line, refits(line, over=over, draws=draws, seed=seed), columns)
    low, high = percentiles(drawn, confidence=confidence if as_published else _level(line, over, confidence))
    return Band(columns, line.expected(columns), low, high)


def expected_of(line: Fit, coefficients: Floats, x: Floats) -> Floats:
    """What every refit expects at accuracies x (points, k) or (draws, points, k): (draws, points)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inputs = line.space.forward(x)
        if inputs.ndim == 2:
            moved = coefficients[:, :-1] @ inputs.T
        else:
            moved = np.einsum("dpk,dk->dp", inputs, coefficients[:, :-1])
        return np.asarray(line.space.inverse(moved + coefficients[:, -1:]))


def effective_robustness_scores(line: Fit, table: Table, *, draws: int = DRAWS, seed: int = 0) -> dict[str, Score]:
    """Effective robustness of every model with its interval, in fractions.

    Each draw refits the line over models and, where the counts are known, measures the model itself again. `n` is the
    count behind its score under the shift; models without a score are left out.
    """
    x, y = score_columns(table, line.x), table.column(line.y)
    x_counts, y_counts = np.stack([table.count(name) for name in line.x], axis=1), table.count(line.y)
    has = np.isfinite(x).all(axis=1) & np.isfinite(y)
    coefficients = refits(line, over="models", draws=draws, seed=seed)
    value = y - line.expected(x)
    drawn_x, drawn_y = np.broadcast_to(x, (draws, *x.shape)).copy(), np.broadcast_to(y, (draws, len(y))).copy()
    counted = has & (x_counts > 0).all(axis=1) & (y_counts > 0)
    if counted.any():
        drawn_x[:, counted] = sample_draws(x[counted], x_counts[counted], draws, seed=seed + 1)
        drawn_y[:, counted] = sample_draws(y[counted], y_counts[counted], draws, seed=seed + 2)
    level = _level(line, "models")
    low, high = percentiles((drawn_y - expected_of(line, coefficients, drawn_x))[:, has], confidence=level)
    bounds = zip(np.flatnonzero(has), low, high, strict=True)
    return {table.models[i]: Score(float(value[i]), float(a), float(b), int(y_counts[i])) for i, a, b in bounds}


def upper_limit_score(line: Fit, *, draws: int = DRAWS, seed: int = 0) -> Score:
    """The upper limit with its interval; n is the number of models."""
    drawn = np.clip(refits(line, draws=draws, seed=seed).sum(axis=1), 0, 1)
    return scored(upper_limit(line), drawn, line.n, confidence=_level(line, "models"))


def conversion_rate_score(line: Fit, *, draws: int = DRAWS, seed: int = 0) -> Score:
    """The conversion rate with its interval; n is the number of models."""
    drawn = refits(line, draws=draws, seed=seed)[:, 0]
    return scored(conversion_rate(line), drawn, line.n, confidence=_level(line, "models"))


def _level(line: Fit, over: Over, confidence: float = CONFIDENCE) -> float:
    return confidence if over == "samples" else widened_confidence(confidence, line.n, len(line.weights))
