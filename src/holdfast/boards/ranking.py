"""The ranks of a board, and the ranks that the interval of a model's score allows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from holdfast.boards.entries import Board, BoardEntry


def ranked(entries: Iterable[BoardEntry], by: str, better: str) -> list[BoardEntry]:
    """Best first, ranks 1, 2, 3 …; of equal scores the name decides. Those without the score come last, unranked."""
    sign = 1 if better == "lower" else -1
    kept = sorted(entries, key=lambda entry: entry.model)
    scored = [(cell.score.value, entry) for entry in kept if (cell := entry.cells[by]).score is not None]
    scored.sort(key=lambda pair: sign * pair[0])
    ordered = [replace(entry, rank=rank) for rank, (_, entry) in enumerate(scored, start=1)]
    return ordered + [entry for entry in kept if entry.cells[by].score is None]


class RankInterval(NamedTuple):
    """A rank among the entries that have the score; `low` to `high` are the ranks its interval allows."""

    rank: int
    of: int
    low: int
    high: int
    published: int


def rank_interval(board: Board, model: str) -> RankInterval | None:
    """The rank of a measured model by the board's score; None where it lacks that score.

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

    def rank_of(value: float) -> int:
        return 1 + sum(other > value for other, _ in others)

    published = sum(origin != "measured" for _, origin in others)
    rank = own.rank or rank_of(sign * score.value)  # of equal scores the board has one first
    return RankInterval(rank, 1 + len(others), min(rank, rank_of(best)), max(rank, rank_of(worst)), published)
