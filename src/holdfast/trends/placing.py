"""A model against a line it was not fitted on: the expected score, its interval, and the measured score."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.trends.fits import as_columns
from holdfast.trends.piecewise import Piecewise, Trend
from holdfast.trends.robustness import score_columns
from holdfast.trends.spaces import Floats


class Interval(NamedTuple):
    """Bounds in accuracy, per model."""

    low: Floats
    high: Floats


class Placement(NamedTuple):
    """One model and a line. `expected` holds the prediction interval, `n` of it the models fitted on.

    `beyond` is effective robustness; `is_unusual` says that the score lies outside the interval; `was_fitted` that the
    line has seen this model, so that the interval is too wide for it and no test.
    """

    model: str
    score: float
    expected: Score
    beyond: float
    is_unusual: bool
    was_fitted: bool

    def record(self) -> dict[str, object]:
        """What a program reads."""
        low, high = self.expected.low, self.expected.high
        expected = {"expected": self.expected.value, "low": low, "high": high, "n": self.expected.n}
        return self._asdict() | expected


def prediction_interval(line: Trend, x: Floats, *, confidence: float = CONFIDENCE) -> Interval:
    """Where the score of one more model at accuracies x lies, from the scatter of the fitted ones (Student's t).

    In the space of the fit: expected ± t·s·√(1 + leverage), then back to accuracy. It holds for a model of the same
    kind, measured on as many samples; everything is possible (0 to 1) for a line without a degree of freedom.
    """
    if isinstance(line, Piecewise):
        x = np.asarray(x, dtype=np.float64).ravel()
        left, right = (prediction_interval(side, x, confidence=confidence) for side in (line.left, line.right))
        return Interval(*(line.by_side(x, *pair) for pair in zip(left, right, strict=True)))
    columns = as_columns(x, len(line.weights))
    freedom = line.n - len(line.weights) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        inputs = line.space.forward(columns)
        centre = inputs @ line.weights + line.intercept
    if freedom < 1:
        nothing = np.where(np.isnan(centre), np.nan, 0.0)
        return Interval(nothing, nothing + 1)
    design = np.column_stack([inputs, np.ones(len(inputs))])
    with np.errstate(invalid="ignore"):
        leverage = np.einsum("ij,jk,ik->i", design, line.precision, design)
        half = stdtrit(freedom, 0.5 + confidence / 2) * line.spread * np.sqrt(1 + leverage)
        low, high = line.space.inverse(centre - half), line.space.inverse(centre + half)
    return Interval(np.asarray(low), np.asarray(high))


def placements(line: Trend, table: Table, *, models: Iterable[str] | None = None) -> tuple[Placement, ...]:
    """Every model that has the scores, placed against the line."""
    chosen = table if models is None else table.of(models)
    x, y = score_columns(chosen, line.x), chosen.column(line.y)
    expected = line.expected(x)
    low, high = prediction_interval(line, x)
    sides = (line.left, line.right) if isinstance(line, Piecewise) else (line,)
    seen = {name for side in sides for name in side.points.models}
    made = []
    for i, name in enumerate(chosen.models):
        if np.isnan(expected[i]) or np.isnan(y[i]):
            continue
        score = Score(float(expected[i]), float(low[i]), float(high[i]), line.n)
        unusual = not score.low <= y[i] <= score.high
        made.append(Placement(name, float(y[i]), score, float(y[i] - expected[i]), unusual, name in seen))
    return tuple(made)


def mean_absolute_error(placed: Iterable[Placement]) -> float:
    """How far models lie from a line on average, in accuracy; the measure for models that were not fitted on."""
    apart = [abs(each.beyond) for each in placed]
    return float(np.mean(apart)) if apart else float("nan")
