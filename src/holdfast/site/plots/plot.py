"""What a plot of the site is: words for the page, and data for the script that draws it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.boards.entries import Board
from holdfast.core.suites import Suite
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.site.plots.points import BoardPoints

DIGITS = 12  # enough that a value is written as the table writes it


@dataclass(frozen=True, slots=True)
class Plot:
    """One interactive plot. `kind` names what draws it; `data` goes into the page."""

    id: str
    kind: str
    title: str
    about: str
    data: dict[str, object]


class PlotInputs(NamedTuple):
    """What a plot is made from: a suite, its board, the board's models as points, and the store of their runs."""

    suite: Suite
    board: Board
    points: BoardPoints
    store: Store


BoardPlot = Callable[[PlotInputs], Plot | None]
_REGISTERED: dict[int, BoardPlot] = {}


def board_plot(*, order: int) -> Callable[[BoardPlot], BoardPlot]:
    """Registers a plot, which is None for a board without the scores it needs; pages show plots in this order."""

    def registered(plot: BoardPlot) -> BoardPlot:
        assert order not in _REGISTERED, f"two plots have the order {order}"
        _REGISTERED[order] = plot
        return plot

    return registered


def board_plots() -> list[BoardPlot]:
    """Every plot of this folder, in order: a module here that registers one needs no other edit."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return [_REGISTERED[order] for order in sorted(_REGISTERED)]


def json_numbers(values: Iterable[float] | NDArray[np.float64], digits: int = DIGITS) -> list[float | None]:
    """Numbers as JSON has them: rounded, None where there is none."""
    array = np.round(np.asarray(values, dtype=np.float64), digits)
    return [value if known else None for value, known in zip(array.tolist(), np.isfinite(array), strict=True)]


def json_number(value: float, digits: int = DIGITS) -> float | None:
    return json_numbers([value], digits)[0]
