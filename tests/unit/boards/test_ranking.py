"""A model's place on a board, and the places its interval allows."""

from __future__ import annotations

import math

import pytest

from holdfast.boards.column_means import ColumnMean, column_mean, mean_row
from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.boards.ranking import RankInterval, rank_interval, ranked
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


def test_bounds_of_no_samples_allow_no_other_place() -> None:
    assert rank_interval(board(own=Score(0.45, 0.1, 0.9, 0)), "mine") == RankInterval(3, 5, 3, 3, 4)


def test_the_mean_of_a_column_is_over_the_entries_that_have_it() -> None:
    """0.2, 0.4, 0.5, 0.6 and 0.3: mean 0.4, squared distances 0.04 + 0 + 0.01 + 0.04 + 0.01 over four."""
    made = board(own=Score(0.3, 0.2, 0.4, 10))
    mean = column_mean(made, made.columns[0])
    assert (mean.mean, mean.deviation, mean.n) == (pytest.approx(0.4), pytest.approx(math.sqrt(0.1 / 4)), 5)
    assert mean.column is made.columns[0]
    assert mean_row([mean], width=5) == ["", "mean over entries", "40.0 ± 15.8, n 5", "", ""]
    one = Board("s", "S", made.columns, "right", made.entries[:1])
    alone = column_mean(one, made.columns[0])
    assert (alone.mean, math.isnan(alone.deviation), alone.n) == (0.2, True, 1)
    assert mean_row([alone], width=3)[2] == "20.0, n 1"
    nothing = column_mean(Board("s", "S", made.columns, "right", ()), made.columns[0])
    assert mean_row([nothing], width=3)[2] == "—"
    assert nothing.record() == {"score": "right", "unit": made.columns[0].unit, "mean": None, "deviation": None, "n": 0}
    assert isinstance(nothing, ColumnMean)


def test_ranks_are_by_score_then_by_name_and_those_without_come_last() -> None:
    made = board(own=Score(0.5, 0.4, 0.6, 10))
    assert [(entry.model, entry.rank) for entry in ranked(made.entries, "right", "higher")] == [
        *(("m3", 1), ("m2", 2), ("mine", 3), ("m1", 4), ("m0", 5), ("gap", None))
    ]
    assert [entry.model for entry in ranked(made.entries, "right", "lower")] == ["m0", "m1", "m2", "mine", "m3", "gap"]


def test_equal_scores_share_the_better_place() -> None:
    assert rank_interval(board(own=Score(0.5, 0.5, 0.5, 10)), "mine") == RankInterval(2, 5, 2, 2, 4)


def test_without_the_score_there_is_no_place() -> None:
    assert rank_interval(board(own=None), "mine") is None
    assert rank_interval(board(own=None), "nobody") is None
