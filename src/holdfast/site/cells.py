"""The cells of a board in words: value, interval, and what is there of what it needs."""

from __future__ import annotations

import math
from collections.abc import Callable

from holdfast.metrics.board import Board, Cell
from holdfast.store.exporting import latex_table
from holdfast.store.scores import PER_HUNDRED

Written = Callable[[float, str], str]


def number(value: float, unit: str) -> str:
    """`54.3` for a share, three figures or one decimal for other numbers."""
    if unit in PER_HUNDRED:
        return f"{100 * value:.1f}"
    if unit == "rank":
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def bounds(cell: Cell, unit: str, written: Written = number) -> str:
    """`[52.1, 56.4]`; nothing where nobody said how many samples the score rests on."""
    if cell.score is None or not cell.score.n or math.isnan(cell.score.low):
        return ""
    return f"[{written(cell.score.low, unit)}, {written(cell.score.high, unit)}]"


def text(cell: Cell, unit: str, written: Written = number) -> str:
    """`54.3 [52.1, 56.4]`, or `12 of 80` where results are missing."""
    if cell.score is None:
        return lack(cell)
    part = f"n {cell.score.n:,}" if cell.is_partial else ""
    return " ".join(filter(None, [written(cell.score.value, unit), bounds(cell, unit, written), part]))


def lack(cell: Cell) -> str:
    return f"{cell.have} of {cell.of}" if cell.of and not cell.note else "—"


def latex(shown: Board) -> str:
    """The whole board as a LaTeX table."""
    titles = [column.title or column.name for column in shown.columns]
    rows = [
        [
            "" if entry.rank is None else str(entry.rank),
            entry.model,
            *(text(entry.cells[column.name], column.unit) for column in shown.columns),
            entry.origin,
            entry.missing,
        ]
        for entry in shown.entries
    ]
    return latex_table(["", "model", *titles, "from", "missing"], rows, right=["", *titles])
