"""A score averaged over all entries of a board: how models do under an attack or a shift as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.boards.board_text import PLAIN, NumberStyle, number_in_unit
from holdfast.boards.entries import Board
from holdfast.core.suites import Column


class ColumnMean(NamedTuple):
    """The mean of a score over the `n` entries that have it, and their standard deviation (that of a sample)."""

    column: Column
    mean: float
    deviation: float
    n: int

    def record(self) -> dict[str, object]:
        """For programs; shares are fractions."""
        values = [None if math.isnan(value) else value for value in (self.mean, self.deviation)]
        return {
            "score": self.column.name,
            "unit": self.column.unit,
            "mean": values[0],
            "deviation": values[1],
            "n": self.n,
        }


def column_mean(board: Board, column: Column) -> ColumnMean:
    """Over the entries that have the score, whether or not they have others."""
    scores = [cell.score.value for entry in board.entries if (cell := entry.cell(column.name)).score is not None]
    mean = float(np.mean(scores)) if scores else math.nan
    return ColumnMean(column, mean, float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan, len(scores))


def mean_row(means: Sequence[ColumnMean], style: NumberStyle = PLAIN, *, width: int) -> list[str]:
    """The last row of a board's table: `51.2 ± 9.1, n 20` for each score."""
    texts = [_text(each, style) for each in means]
    return ["", "mean over entries", *texts, *[""] * (width - 2 - len(texts))]


def _text(each: ColumnMean, style: NumberStyle) -> str:
    if not each.n:
        return "—"
    around = "" if math.isnan(each.deviation) else f" ± {number_in_unit(each.deviation, each.column.unit, style)}"
    return f"{number_in_unit(each.mean, each.column.unit, style)}{around}, n {each.n}"
