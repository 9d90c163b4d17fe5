"""The interactive plots of a board: which there are for a suite, and the numbers in them."""

from __future__ import annotations

from holdfast.boards.entries import Board
from holdfast.boards.provenance import with_stored_names
from holdfast.core.suites import Suite
from holdfast.site.plots.plot import Plot, PlotInputs, board_plots
from holdfast.store.store import Store

__all__ = ["Plot", "plots_of"]


def plots_of(suite: Suite, shown: Board, store: Store) -> list[Plot]:
    """The plots that the scores of a suite allow, in reading order."""
    from holdfast.site.plots.points import points_of

    suite = with_stored_names(suite, store)
    inputs = PlotInputs(suite, shown, points_of(suite, shown, store), store)
    return [made for plot in board_plots() if (made := plot(inputs)) is not None]
