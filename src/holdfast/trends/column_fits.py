"""The same line fitted for every setting of a table at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.metrics.bootstrap_draws import draw_counts, percentiles
from holdfast.trends.bootstrap import DRAWS, LineFits, fit_lines, widened_confidence
from holdfast.trends.fits import Cut
from holdfast.trends.spaces import LOGIT, Floats, Space, fractions, inside, on_edge, space_of


class ColumnFits(NamedTuple):
    """One line per setting: slope, intercept and R² in the space, MAE and R² in accuracy, models and edge scores."""

    settings: tuple[str, ...]
    slope: Floats
    intercept: Floats
    r2: Floats
    r2_accuracy: Floats
    mae: Floats
    n: NDArray[np.int64]
    at_edge: NDArray[np.int64]


class ColumnBands(NamedTuple):
    """Bounds of slope and intercept of every setting over draws of models."""

    slope_low: Floats
    slope_high: Floats
    intercept_low: Floats
    intercept_high: Floats


class FitInputs(NamedTuple):
    """x (models,) and y (models, settings), as accuracies and in the space; NaN where a model is not fitted on."""

    x: Floats
    y: Floats
    space_x: Floats
    space_y: Floats
    at_edge: NDArray[np.int64]


def fit_columns(
    table: Table,
    x: str,
    *,
    settings: Sequence[str] | None = None,
    space: str | Space = LOGIT,
    models: Iterable[str] | None = None,
    cuts: Sequence[Cut] = (),
    zero: Literal["clip", "drop"] | None = None,
) -> ColumnFits:
    """The line of every setting on `x`; models without a score, or dropped at an edge, are missing from `n`.

    `clip` needs counts. A piecewise fit is one of its own: `piecewise.trend`.
    """
    space, names = space_of(space), tuple(table.settings if settings is None else settings)
    made = fit_inputs(table, x, names, space=space, models=models, cuts=cuts, zero=zero)
    fitted = fit_lines(made.space_x, made.space_y)
    expected_space = made.space_x[:, None] * fitted.slope + fitted.intercept
    return ColumnFits(
        names,
        fitted.slope[0],
        fitted.intercept[0],
        _explained(made.space_y, expected_space),
        _explained(made.y, space.inverse(expected_space)),
        _mean(np.abs(made.y - space.inverse(expected_space))),
        fitted.n,
        made.at_edge,
    )


def column_bands(
    table: Table,
    x: str,
    *,
    settings: Sequence[str] | None = None,
    space: str | Space = LOGIT,
    models: Iterable[str] | None = None,
    zero: Literal["clip", "drop"] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> ColumnBands:
    """Bounds of every setting's line from refits over models, the same models in a draw for all settings.

    The percentiles allow for few models, as those of `bands.band`.
    """
    drawn = column_refits(table, x, settings=settings, space=space, models=models, zero=zero, draws=draws, seed=seed)
    bounds = np.full((4, len(drawn.n)), np.nan)
    for n in np.unique(drawn.n):
        some = drawn.n == n
        level = widened_confidence(CONFIDENCE, int(n), 1)
        for j, values in enumerate((drawn.slope, drawn.intercept)):
            bounds[2 * j : 2 * j + 2, some] = percentiles(values[:, some], confidence=level)
    return ColumnBands(*bounds)


def column_refits(
    table: Table,
    x: str,
    *,
    settings: Sequence[str] | None = None,
    space: str | Space = LOGIT,
    models: Iterable[str] | None = None,
    zero: Literal["clip", "drop"] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> LineFits:
    """Slope and intercept of every draw and setting, (draws, settings)."""
    names = tuple(table.settings if settings is None else settings)
    made = fit_inputs(table, x, names, space=space_of(space), models=models, zero=zero)
    return fit_lines(made.space_x, made.space_y, draw_counts(len(made.x), draws, seed=seed))


def fit_inputs(
    table: Table,
    x: str,
    settings: Sequence[str],
    *,
    space: Space,
    models: Iterable[str] | None,
    zero: str | None,
    cuts: Sequence[Cut] = (),
) -> FitInputs:
    """The scores a fit may use, with the zero policy applied and its cells counted."""
    chosen = table if models is None else table.of(models)
    for cut in cuts:
        chosen = chosen.where(np.sum([chosen.column(name) for name in cut.settings], axis=0) >= cut.least - 1e-12)
    column = {name: i for i, name in enumerate(chosen.settings)}
    x_values, x_counts = fractions(chosen.column(x), x), chosen.count(x)
    for name in settings:
        if name not in column:
            chosen.column(name)  # says which names are near
    index = [column[name] for name in settings]
    y_values, y_counts = fractions(chosen.values[:, index], "scores"), chosen.counts[:, index]
    edge_x, edge_y = on_edge(x_values, space), on_edge(y_values, space)
    at_edge = (edge_y | (edge_x[:, None] & np.isfinite(y_values))).sum(axis=0)
    if at_edge.any() and zero is None:
        worst = settings[int(at_edge.argmax())]
        raise Misuse(
            f"{int(at_edge.sum())} scores are exactly 0 or 1, infinite in {space} space, {int(at_edge.max())} of them "
            f"under `{worst}`",
            hint="choose a zero policy: drop or clip; piecewise is for one setting at a time",
        )
    if zero == "clip":
        if (x_counts[edge_x] == 0).any() or (y_counts[edge_y] == 0).any():
            raise Misuse("a score of exactly 0 or 1 has no count to clip by", hint="use the zero policy drop")
        x_values = np.where(edge_x, inside(x_values, x_counts), x_values)
        y_values = np.where(edge_y, inside(y_values, y_counts), y_values)
    elif zero == "drop" or zero is None:
        x_values, y_values = np.where(edge_x, np.nan, x_values), np.where(edge_y, np.nan, y_values)
    else:
        raise Misuse(f"`{zero}` is no policy for many settings at once", hint="drop or clip")
    y_values = np.where(np.isnan(x_values)[:, None], np.nan, y_values)
    return FitInputs(x_values, y_values, space.forward(x_values), space.forward(y_values), at_edge)


def _mean(values: Floats) -> Floats:
    present = np.isfinite(values)
    n = present.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(n > 0, np.where(present, values, 0).sum(axis=0) / np.maximum(n, 1), np.nan)


def _explained(target: Floats, expected: Floats) -> Floats:
    present = np.isfinite(target) & np.isfinite(expected)
    residual = np.where(present, target - expected, 0)
    about = np.where(present, target - _mean(np.where(present, target, np.nan)), 0)
    total = (about * about).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1 - (residual * residual).sum(axis=0) / total, np.nan)
