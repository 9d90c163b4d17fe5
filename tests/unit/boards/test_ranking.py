"""A model's place on a board, and the places its interval allows."""

from __future__ import annotations

import math

import pytest

from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.boards.ranking import RankInterval, rank_interval
from holdfast.core.suites import Column
from holdfast.core.types import Score


def board(*, better: str = "higher", own: Score | None) -> Board:
    def entry(name: str, score: Score | None, origin: str = "published") -> BoardEntry:
        return BoardEntry(name, origin, {"right": BoardCell(score, 1, 1, "")}, {})

    printed = [entry(f"m{i}", Score(value, math.nan, math.nan, 0)) for i, value in enumerate((0.2, 0.4, 0.5, 0.6))]
    mine = entry("mine", own, "measured")
    return Board("s", "S", (Column("right", better=better),), "right", (*printed, entry("gap", None), mine))


@pytest.mark.parametrize(
    ("better", "expected"), [("higher", RankInterval(3, 5, 2, 4, 4)), ("lower", RankInterval(3, 5, 2, 4, 4))]
)
def test_a_place_with_its_interval(better: str, expected: RankInterval) -> None:
    assert rank_interval(board(better=better, own=Score(0.45, 0.39, 0.55, 100)), "mine") == expected


def test_without_an_interval_there_is_one_place() -> None:
    assert rank_interval(board(own=Score(0.45, math.nan, math.nan, 0)), "mine") == RankInterval(3, 5, 3, 3, 4)


def test_equal_scores_share_the_better_place() -> None:
    assert rank_interval(board(own=Score(0.5, 0.5, 0.5, 10)), "mine") == RankInterval(2, 5, 2, 2, 4)


def test_without_the_score_there_is_no_place() -> None:
    assert rank_interval(board(own=None), "mine") is None
    assert rank_interval(board(own=None), "nobody") is None
