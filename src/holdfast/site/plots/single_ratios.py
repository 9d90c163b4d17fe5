"""Every attack alone, over all models: which attacks defences are far from, and which they are close to."""

from __future__ import annotations

from holdfast.boards.column_means import column_mean
from holdfast.core.refs import parse_ref
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_number, json_numbers

SINGLE = "single-cr"


@board_plot(order=11)
def single_ratios_plot(inputs: PlotInputs) -> Plot | None:
    """Bars of the ratio of each attack alone, the mean over all entries; None for boards without such scores."""
    board = inputs.board
    columns = [one for one in board.every_column if one.score and parse_ref(one.score).name == SINGLE]
    means = [mean for mean in (column_mean(board, column) for column in columns) if mean.n]
    if not means:
        return None
    values = {mean.column.name: [entry.cell(mean.column.name).score for entry in board.entries] for mean in means}
    return Plot(
        "single-ratios",
        "single",
        "Each attack alone, over all models",
        "The competitiveness ratio over the strengths of one attack and no attack: the mean over all entries that have "
        "it, with their standard deviation; a point is a model. An attack with a low bar is one that defences are far "
        "from.",
        {
            "attacks": [
                {
                    "title": (mean.column.title or mean.column.name).removeprefix("single-CR, "),
                    "mean": json_number(mean.mean),
                    "deviation": json_number(mean.deviation),
                    "n": mean.n,
                    "values": json_numbers(
                        [float("nan") if score is None else score.value for score in values[mean.column.name]]
                    ),
                }
                for mean in means
            ],
            "models": [entry.model for entry in board.entries],
        },
    )
