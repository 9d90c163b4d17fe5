"""Where a model stands on a board, and between which places its interval leaves it."""

from __future__ import annotations

import math
from typing import NamedTuple

from holdfast.boards.entries import Board


class Standing(NamedTuple):
    """A place among entries that have the score; `low` to `high` are the places its interval allows."""

    rank: int
    of: int
    low: int
    high: int
    published: int


def standing(board: Board, model: str) -> Standing | None:
    """The place of a measured model by the board's score; None where it lacks that score.

    The others count as they are printed: most papers give no interval.
    """
    column = next(column for column in board.columns if column.name == board.sort)
    sign = -1 if column.better == "lower" else 1
    own = next((entry for entry in board.entries if model in entry.names and entry.is_measured), None)
    score = own.cells[board.sort].score if own is not None else None
    if own is None or score is None:
        return None
    others = [
        (sign * cell.score.value, entry.origin)
        for entry in board.entries
        if entry is not own and (cell := entry.cells[board.sort]).score is not None
    ]
    known = score.n > 0 and not math.isnan(score.low)
    bounds = (score.low, score.high) if known else (score.value, score.value)
    worst, best = sorted(sign * bound for bound in bounds)

    def place(value: float) -> int:
        return 1 + sum(other > value for other, _ in others)

    published = sum(origin != "measured" for _, origin in others)
    rank = own.rank or place(sign * score.value)  # of equal scores the board has one first
    return Standing(rank, 1 + len(others), min(rank, place(best)), max(rank, place(worst)), published)
