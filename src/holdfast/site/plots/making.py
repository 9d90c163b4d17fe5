"""Which plots a board has."""

from __future__ import annotations

from holdfast.boards.entries import Board
from holdfast.boards.provenance import with_stored_names
from holdfast.core.suites import Suite
from holdfast.site.plots.agreement_curves import agreement_plot
from holdfast.site.plots.attacks import attacks_plot
from holdfast.site.plots.degradation import degradation_plot
from holdfast.site.plots.plot import Plot
from holdfast.site.plots.points import points_of
from holdfast.site.plots.scatter import plane_plot, scatter_plot
from holdfast.store.store import Store


def plots_of(suite: Suite, shown: Board, store: Store) -> list[Plot]:
    """The plots that the scores of a suite allow, in reading order."""
    suite = with_stored_names(suite, store)
    points = points_of(suite, shown, store)
    drawn = scatter_plot(points, suite, shown.sort)
    made = [attacks_plot(points, suite, shown, store), drawn]
    if drawn is not None:  # these share its points
        made += [plane_plot(points, suite, shown.sort), degradation_plot(points, suite, store)]
    made.append(agreement_plot(points, suite, store))
    return [plot for plot in made if plot is not None]
