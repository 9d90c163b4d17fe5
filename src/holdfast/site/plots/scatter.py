"""A score against another: every model a point, the line through them, and its band."""

from __future__ import annotations

from holdfast.site.plots.plot import Plot, PlotInputs, board_plot
from holdfast.site.plots.trend_lines import (
    fitted_models,
    levels,
    line_record,
    pairs,
    plane_record,
    triples,
    weak,
)

SCATTER = "scatter"


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
