"""Which plots a board has."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.boards.entries import Board
from holdfast.core.suites import Suite
from holdfast.site.plots.agreement_curves import agreement_plot
from holdfast.site.plots.attacks import attacks_plot
from holdfast.site.plots.degradation import degradation_plot
from holdfast.site.plots.plot import Plot
from holdfast.site.plots.points import points_of
from holdfast.site.plots.scatter import plane_plot, scatter_plot
from holdfast.store.store import Store


def plots_of(suite: Suite, shown: Board, store: Store, *, spelled: Callable[[str], str] = str) -> list[Plot]:
    """The plots that the scores of a suite allow, in reading order.

    `spelled` turns the scenarios of the suite into the texts that rows carry, as for the board itself.
    """
    points = points_of(suite, shown, store, spelled)
    drawn = scatter_plot(points, suite, shown.sort)
    made = [attacks_plot(points, suite, shown, store, spelled), drawn]
    if drawn is not None:  # these share its points
        made += [plane_plot(points, suite, shown.sort), degradation_plot(points, suite, store, spelled)]
    made.append(agreement_plot(points, suite, store, spelled))
    return [plot for plot in made if plot is not None]
