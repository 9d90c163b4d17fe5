"""A score against another, or two: every model a point, the line or plane through them, and its band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.boards.entries import MEASURED
from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.suites import Suite
from holdfast.core.table import Table
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_number, json_numbers
from holdfast.site.plots.points import BEYOND, BOARD, BoardPoints, ScoreAxis
from holdfast.trends.bands import band
from holdfast.trends.bootstrap import widened_confidence
from holdfast.trends.fits import Fit, fit, near_zero
from holdfast.trends.selecting import fit_set
from holdfast.trends.spaces import SPACES, Space
from holdfast.trends.testbed import NATURAL

SCATTER = "scatter"
ACROSS = 33  # places along a line at which its band is known
EXACT = 8  # digits of a coefficient
PAIRS = 16  # lines with bands that are made ahead; the page makes the others itself


class AxisPair(NamedTuple):
    """Axes to draw against each other, by place."""

    x: int
    y: int


class AxisTriple(NamedTuple):
    """A score against two references, by place."""

    x: tuple[int, int]
    y: int


def has_scatter(inputs: PlotInputs) -> bool:
    """Whether two scores can be compared: other plots read the points of this one."""
    return bool(len(inputs.points) and pairs(inputs.points, inputs.suite, inputs.board.sort))


@board_plot(order=2)
def scatter_plot(inputs: PlotInputs) -> Plot | None:
    """Any score against any other; None where no two can be compared."""
    suite, shown, points, *_ = inputs
    if not has_scatter(inputs):
        return None
    fitted = fitted_models(points, suite)
    data: dict[str, object] = {
        **points.record(),
        "fitted": [int(one) for one in fitted],
        "levels": levels(len(points)),
        "weak": weak(len(points), 1),
        "space": suite.space,
        "lines": [line_record(points, pair, fitted) for pair in pairs(points, suite, shown.sort)],
    }
    return Plot(
        SCATTER,
        "scatter",
        "One score against another",
        "Each point is a model. The line says what a score lets one expect of another; what lies above it is effective "
        "robustness. The band is where the line could lie with other models (95 %). Models measured here are placed "
        "against the line, not fitted on.",
        data,
    )


@board_plot(order=3)
def plane_plot(inputs: PlotInputs) -> Plot | None:
    """A score against two references at once; None without two references or with too few models."""
    suite, shown, points, *_ = inputs
    if not has_scatter(inputs):
        return None
    fitted = fitted_models(points, suite)
    made = [plane_record(points, triple, fitted) for triple in triples(points, suite, shown.sort)]
    kept = [one for one in made if len(one) > 2]
    if not kept:
        return None
    return Plot(
        "plane",
        "plane",
        "A score against two references",
        "With two references models lie near a plane. One that looks robust against a single reference may lie in the "
        "plane once both are accounted for (multi-ID effective robustness, arXiv:2302.01381). Drag to turn it.",
        {"points": SCATTER, "space": "logit", "weak": weak(len(points), 2), "planes": kept},
    )


def fitted_models(points: BoardPoints, suite: Suite) -> NDArray[np.bool_]:
    """The models that a line goes through: those of others, so that one's own are placed and not fitted.

    The suite's `fit` and `leave_out` choose among them. With fewer than three models of others, all are fitted on; so
    are all that have two scores which fewer than three of these have.
    """
    every = np.ones(len(points), dtype=bool)
    others = np.array([set(entry.every_origin) != {MEASURED} for entry in points.entries], dtype=bool)
    if suite.fit or suite.leave_out:
        axes = {name: axis for axis in reversed(points.axes) for name in axis.names}
        values = np.array([axis.values for axis in axes.values()]).reshape(len(axes), len(points)).T
        facts = {entry.model: entry.facts for entry in points.entries}
        table = Table(tuple(facts), tuple(axes), values, np.zeros(values.shape, dtype=np.int64), facts)
        try:
            chosen = set(fit_set(table, suite.fit, suite.leave_out).models)
        except HoldfastError:  # nothing on the board says who they are
            return every
        others &= np.array([entry.model in chosen for entry in points.entries], dtype=bool)
    return others if others.sum() >= 3 else every


def pairs(points: BoardPoints, suite: Suite, sort: str) -> list[AxisPair]:
    """The pairs worth a look, the one to open with first: every shifted score on its reference."""
    axis_pairs = [AxisPair(x[0], y) for x, y in _beyond(points, suite) if len(x) == 1]
    named = [(points.axis_of(pair.x), points.axis_of(pair.y)) for pair in NATURAL.values()]
    axis_pairs += [AxisPair(x, y) for x, y in named if x is not None and y is not None]
    own = [i for i, axis in enumerate(points.axes) if axis.group == BOARD and not axis.is_reference]
    own.sort(key=lambda i: sort not in points.axes[i].names)
    axis_pairs += [AxisPair(x, y) for y in own if (x := reference_of(points, y)) is not None]
    if not axis_pairs and len(points.axes) > 1:
        axis_pairs = [AxisPair(0, 1)]
    return list(dict.fromkeys(axis_pairs))[:PAIRS]


def triples(points: BoardPoints, suite: Suite, sort: str) -> list[AxisTriple]:
    """Shifted scores on two references each: as the suite has them, else the first pair with one reference more."""
    axis_triples = [AxisTriple((x[0], x[1]), y) for x, y in _beyond(points, suite) if len(x) > 1]
    references = [i for i, axis in enumerate(points.axes) if axis.is_reference]
    for pair in pairs(points, suite, sort):
        others = [i for i in references if i not in pair]
        if others and pair.x in references and pair.y not in references:
            axis_triples.append(AxisTriple((pair.x, max(others, key=lambda i: points.axes[i].n)), pair.y))
    return list(dict.fromkeys(axis_triples))[:PAIRS]


def _beyond(points: BoardPoints, suite: Suite) -> Iterator[tuple[list[int], int]]:
    """Inputs and output of every effective robustness on the board."""
    for column in suite.board:
        if column.score == BEYOND:
            y, *x = (points.axis_of(name) for name in column.of)
            inputs = [i for i in x if i is not None]
            if y is not None and len(inputs) == len(x):
                yield inputs, y


def reference_of(points: BoardPoints, y: int) -> int | None:
    """The undisturbed score of the same kind: `id-robustness` for `ood-d-robustness`; else the first there is."""
    references = [i for i, axis in enumerate(points.axes) if axis.is_reference and axis.group == BOARD]
    kinds = {name.rpartition("-")[2] for name in points.axes[y].names}
    alike = [i for i in references if kinds & {name.rpartition("-")[2] for name in points.axes[i].names}]
    return next(iter(alike or references), None)


def line_record(points: BoardPoints, pair: AxisPair, fitted: NDArray[np.bool_]) -> dict[str, object]:
    """The line of a pair in every space, with its band over models; a space without a line is left out."""
    made: dict[str, object] = {"x": pair.x, "y": pair.y}
    through_all = not fitted.all() and is_through_all([points.axes[pair.x], points.axes[pair.y]], fitted)
    for name, space in SPACES.items():
        line = _fit([points.axes[pair.x]], points.axes[pair.y], fitted, space)
        if line is not None:
            made[name] = _line(line) | ({"all": True} if through_all else {})
    return made


def plane_record(points: BoardPoints, triple: AxisTriple, fitted: NDArray[np.bool_]) -> dict[str, object]:
    """The plane of a score on two others in every space."""
    made: dict[str, object] = {"x": list(triple.x), "y": triple.y}
    for name, space in SPACES.items():
        plane = _fit([points.axes[i] for i in triple.x], points.axes[triple.y], fitted, space)
        if plane is not None:
            weights, mae = json_numbers(plane.weights, EXACT), json_number(plane.mae)
            made[name] = {"weights": weights, **_about_fit(plane), "mae": mae}
    return made


def levels(models: int) -> list[float | None]:
    """The confidence at which percentiles of refits over n models are taken, for n from 0 on."""
    return json_numbers([widened_confidence(CONFIDENCE, n, 1) for n in range(models + 1)], 6)


def weak(models: int, k: int) -> list[float | None]:
    """The R² below which a line (k = 1) or plane over n models is near 0, for n from 0 on."""
    return json_numbers([near_zero(n, k) for n in range(models + 1)], 4)


def _fit(x: Sequence[ScoreAxis], y: ScoreAxis, fitted: NDArray[np.bool_], space: Space) -> Fit | None:
    every = (*x, y)
    if is_through_all(every, fitted):
        fitted = np.ones_like(fitted)
    values = np.stack([axis.values[fitted] for axis in every], axis=1)
    values = np.where((values < 0) | (values > 1), np.nan, values)
    names = tuple(map(str, range(len(every))))
    counts = np.stack([axis.counts[fitted] for axis in every], axis=1)
    table = Table(tuple(map(str, range(len(values)))), names, values, counts)
    try:
        made = fit(table, names[-1], names[:-1], space=space, zero="drop")
    except HoldfastError:
        return None
    return made if made.n >= len(every) + 1 else None  # through fewer points any line is exact


def is_through_all(axes: Sequence[ScoreAxis], fitted: NDArray[np.bool_]) -> bool:
    """Whether fewer than three of the models to fit on have the scores, so that a line goes through all that do."""
    known = np.isfinite(np.stack([axis.values for axis in axes])).all(axis=0)
    return int((known & fitted).sum()) < 3


def _line(line: Fit) -> dict[str, object]:
    first, last = line.space.forward(np.array([line.points.x.min(), line.points.x.max()])).tolist()
    at = line.space.inverse(np.linspace(first, last, ACROSS))
    made = band(line, at)
    bounds = {"low": json_numbers(made.low), "high": json_numbers(made.high)}
    return {"slope": json_number(line.slope, EXACT), **_about_fit(line), "at": json_numbers(at), **bounds}


def _about_fit(made: Fit) -> dict[str, object]:
    about = {"intercept": json_number(made.intercept, EXACT), "n": made.n, "r2": json_number(made.r2)}
    return about | {"cautions": list(made.cautions)}
