"""Distances above a line, with the ends of their intervals found by another road, and what boards merge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, logit, ndtr, ndtri

from holdfast.boards.column_scores import above_line
from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.boards.line_intervals import counts_of
from holdfast.boards.merging import SourceEntries, _decimals, merged_entries
from holdfast.boards.ranking import RankInterval, rank_interval, ranked
from holdfast.core.intervals import printed_score, wilson
from holdfast.core.suites import Column
from holdfast.core.types import Score

Z = 1.959963984540054
Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]


def bounds(value: float, low: float, high: float) -> Bounds:
    return np.array([value]), np.array([low]), np.array([high])


def of_counts(right: int, n: int) -> Bounds:
    score = wilson(right, n)
    return bounds(score.value, score.low, score.high)


@given(n=st.integers(2, 5000), share=st.floats(0.01, 0.99))
def test_the_count_behind_wilsons_bounds_is_found_again(n: int, share: float) -> None:
    right = round(share * n)
    found = float(counts_of(of_counts(right, n))[0])
    if 0 < right < n:
        assert found == pytest.approx(n, rel=1e-6)
    assert math.isnan(float(counts_of(bounds(0.5, math.nan, math.nan))[0]))


@pytest.mark.parametrize("weight", [0.8, -0.8])
@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.3])
def test_on_a_linear_scale_the_interval_is_newcombes(weight: float, correlation: float) -> None:
    """Method 10: each end is the root of the squares of the two shares' own distances, less what they share."""
    column = Column("y", of=("y", "x"), weights=(weight,), intercept=0.15 if weight > 0 else 0.75, space="linear")
    value, low, high = above_line(column, bounds(0.6, 0.5, 0.65), [bounds(0.4, 0.32, 0.52)], correlation)
    assert value[0] == pytest.approx(0.6 - (weight * 0.4 + column.intercept))
    # what the line makes of x rises to `up` and falls to `down`
    up, down = (0.8 * 0.12, 0.8 * 0.08) if weight > 0 else (0.8 * 0.08, 0.8 * 0.12)
    together = correlation if weight > 0 else -correlation
    assert low[0] == pytest.approx(value[0] - math.sqrt(0.1**2 - 2 * together * 0.1 * up + up**2))
    assert high[0] == pytest.approx(value[0] + math.sqrt(0.05**2 - 2 * together * 0.05 * down + down**2))


def test_over_two_standard_scores_each_weight_takes_its_own_bound() -> None:
    column = Column("y", weights=(0.9, -0.2), intercept=-0.4)
    shifted, first, second = bounds(0.6, 0.5, 0.65), bounds(0.7, 0.6, 0.8), bounds(0.4, 0.3, 0.55)

    def line(one: float, other: float) -> float:
        return float(expit(0.9 * logit(one) - 0.2 * logit(other) - 0.4))

    value, low, high = above_line(column, shifted, [first, second])
    middle, least, most = line(0.7, 0.4), line(0.6, 0.55), line(0.8, 0.3)
    assert value[0] == pytest.approx(0.6 - middle)
    assert low[0] == pytest.approx(value[0] - math.hypot(0.1, most - middle))
    assert high[0] == pytest.approx(value[0] + math.hypot(0.05, middle - least))


@pytest.mark.parametrize("space", ["logit", "probit"])
@pytest.mark.parametrize(("weight", "intercept"), [(0.9, -0.5), (1.6, 0.2), (-0.7, 0.3)])
@pytest.mark.parametrize("counts", [(30, 50, 45, 60), (12, 200, 20, 40)])
@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_the_score_test_begins_to_reject_at_the_ends(
    space: str, weight: float, intercept: float, counts: tuple[int, int, int, int], correlation: float
) -> None:
    """The likeliest pair of shares at each end, by a search, is off by Pearson's χ² of 1.96²."""
    forward, inverse = (logit, expit) if space == "logit" else (ndtri, ndtr)
    k, n, j, m = counts
    y, x = k / n, j / m
    column = Column("y", of=("y", "x"), weights=(weight,), intercept=intercept, space=space)
    value, low, high = above_line(column, of_counts(k, n), [of_counts(j, m)], correlation)
    assert value[0] == pytest.approx(y - inverse(weight * forward(x) + intercept))
    assert low[0] < value[0] < high[0]

    def line(q: float) -> float:
        return float(inverse(weight * forward(q) + intercept))

    for end in (float(low[0]), float(high[0])):

        def unlikely(q: float, end: float = end) -> float:
            p = line(q) + end
            if not 0 < p < 1:
                return 1e9
            return -(
                n * (y * math.log(p) + (1 - y) * math.log(1 - p)) + m * (x * math.log(q) + (1 - x) * math.log(1 - q))
            )

        grid = np.linspace(0.001, 0.999, 999)
        start = grid[int(np.argmin([unlikely(q) for q in grid]))]
        q = optimize.minimize_scalar(
            unlikely, bounds=(start - 0.002, start + 0.002), method="bounded", options={"xatol": 1e-10}
        ).x
        p = line(q) + end
        slope = (line(q + 1e-6) - line(q - 1e-6)) / 2e-6
        if not correlation:
            assert n * (y - p) ** 2 / (p * (1 - p)) + m * (x - q) ** 2 / (q * (1 - q)) == pytest.approx(Z * Z, rel=2e-3)
        own, its = math.sqrt(p * (1 - p) / n), slope * math.sqrt(q * (1 - q) / m)
        gap = y - p - slope * (x - q)
        variance = own * own - 2 * correlation * own * its + its * its
        assert gap * gap / variance == pytest.approx(Z * Z, rel=2e-3)


def test_a_pivot_chooses_the_line_of_the_interval_too() -> None:
    two = Column(
        "y", of=("y", "x"), weights=(1.0,), intercept=-1.0, pivot=0.75, weights_above=(2.0,), intercept_above=0.5
    )
    lower = Column("y", of=("y", "x"), weights=(1.0,), intercept=-1.0)
    upper = Column("y", of=("y", "x"), weights=(2.0,), intercept=0.5)
    for right, same in ((30, lower), (45, lower), (46, upper)):
        made = above_line(two, of_counts(40, 90), [of_counts(right, 60)])
        other = above_line(same, of_counts(40, 90), [of_counts(right, 60)])
        assert [float(part[0]) for part in made] == pytest.approx([float(part[0]) for part in other])
    nothing = above_line(lower, of_counts(40, 90), [bounds(1.0, 0.9, 1.0)])
    assert all(math.isnan(float(part[0])) for part in nothing)


# what boards merge


def known(value: float, low: float = math.nan, high: float = math.nan, n: int = 0) -> BoardCell:
    return BoardCell(Score(value, low, high, n), 1, 1, "")


def listing(origin: str, *cells: BoardCell, name: str = "c", date: str = "", **facts: str) -> SourceEntries:
    entries = [BoardEntry(f"m{i}", origin, {name: cell}, facts) for i, cell in enumerate(cells)]
    return SourceEntries(origin, entries, date)


@pytest.mark.parametrize(
    ("value", "agrees"), [(0.52, True), (0.48, True), (0.5201, False), (0.4799, False), (0.5, True)]
)
@pytest.mark.parametrize("unit", ["percent", "number"])
def test_a_printed_number_agrees_with_a_measured_one_inside_its_interval_ends_included(
    value: float, agrees: bool, unit: str
) -> None:
    measured, printed = listing("measured", known(0.5, 0.48, 0.52, 100)), listing("published", known(value))
    for order in ((measured, printed), (printed, measured)):
        (entry,) = merged_entries(order, [Column("c", unit=unit)], {})
        (other,) = entry.cells["c"].others
        assert (entry.cells["c"].origin, other.origin, other.agrees) == ("measured", "published", agrees)
    lowest = Column("c", score="lowest", of=("c",), unit=unit)
    cell = merged_entries([measured, listing("published", known(value - 0.1))], [lowest], {})[0].cells["c"]
    assert (cell.origin, cell.others[0].agrees) == ("published", abs(value - 0.1 - 0.5) <= 0.02)


def test_without_counts_numbers_agree_to_the_digits_of_the_coarser_source() -> None:
    """0.5 percent points are one digit of a column in percent, and two of one that is a plain number."""
    for unit, fine, coarse, agrees in (
        ("percent", 0.5049, 0.505, True),
        ("percent", 0.5044, 0.505, False),
        ("number", 0.5049, 0.505, True),
        ("number", 0.5039, 0.505, False),
    ):
        one, other = listing("imported", known(fine)), listing("published", known(coarse))
        (entry,) = merged_entries([one, other], [Column("c", unit=unit)], {})
        assert entry.cells["c"].others[0].agrees == agrees


def test_a_source_writes_a_column_as_finely_as_its_finest_number() -> None:
    column, number = Column("c"), Column("c", unit="number")
    assert listing("published", known(0.5), known(0.501), known(0.5012)).decimals(column) == 2
    assert listing("published", known(0.5), known(0.5012)).decimals(number) == 4
    assert listing("published", known(0.5), known(0.51)).decimals(column) == 0
    assert listing("published", BoardCell(None, 0, 1, "")).decimals(column) == 0
    assert listing("published", known(1 / 3)).decimals(column) == 4


def test_a_distance_from_a_line_is_one_decimal_coarser_than_what_it_is_made_of() -> None:
    def source(x: float, y: float, above: float) -> SourceEntries:
        cells = {"x": known(x), "y": known(y), "e": known(above)}
        return SourceEntries("published", [BoardEntry("m", "published", cells, {})])

    columns = [Column("x"), Column("y"), Column("e", score="effective-robustness", of=("y", "x"))]
    assert _decimals(source(0.701, 0.5012, 1 / 3), columns) == {"x": 1, "y": 2, "e": 0}
    assert _decimals(source(0.7012, 0.5012, 1 / 3), columns) == {"x": 2, "y": 2, "e": 1}
    assert _decimals(source(0.7, 0.5, 1 / 3), columns) == {"x": 0, "y": 0, "e": 0}
    assert _decimals(source(0.7012, 0.5012, 0.011), columns)["e"] == 1, "a printed distance is as fine as it is printed"


def test_facts_of_files_come_before_those_of_print_and_those_before_our_own() -> None:
    sources = [
        listing("measured", known(0.5), a="measured", b="measured", c="measured"),
        listing("published", known(0.5), a="published", b="published"),
        listing("imported", known(0.5), a="imported"),
    ]
    for order in (sources, sources[::-1]):
        (entry,) = merged_entries(order, [Column("c")], {})
        assert entry.facts == {"a": "imported", "b": "published", "c": "measured"}


def test_a_count_is_taken_over_from_a_source_that_agrees_and_never_by_what_was_measured() -> None:
    printed = listing("published", known(0.5, 0.49, 0.51, 10_000))
    cell = merged_entries([listing("imported", known(0.5)), printed], [Column("c")], {})[0].cells["c"]
    assert cell.score == printed_score(0.5, 10_000, "percent")
    cell = merged_entries([listing("measured", known(0.5)), printed], [Column("c")], {})[0].cells["c"]
    assert cell.score is not None
    assert (cell.origin, cell.score.n) == ("measured", 0)
    counted = listing("imported", known(0.5, 0.3, 0.7, 20))
    cell = merged_entries([counted, printed], [Column("c")], {})[0].cells["c"]
    assert cell.score is not None
    assert cell.score.n == 20


def test_of_what_is_missing_most_results_count_then_words_then_what_is_needed() -> None:
    def told(*cells: BoardCell) -> BoardCell:
        return merged_entries([listing("published", cell) for cell in cells], [Column("c")], {})[0].cells["c"]

    some, note, more = BoardCell(None, 1, 2, ""), BoardCell(None, 0, 2, "", note="why"), BoardCell(None, 0, 9, "")
    assert told(more, note, some) == some
    assert told(more, note) == note
    assert told(BoardCell(None, 0, 3, ""), more) == more


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_place_counts_only_those_that_are_better(better: str) -> None:
    """Own 0.5 in [0.4, 0.6]; others at both ends and beyond."""
    values = {"a": 0.6, "b": 0.61, "c": 0.4, "d": 0.39}
    others = [
        BoardEntry(name, "measured" if name == "a" else "published", {"c": known(value)}, {})
        for name, value in values.items()
    ]
    mine = BoardEntry(
        "mine", "imported", {"c": known(0.5, 0.4, 0.6, 50)}, {}, origins=("imported", "measured"), also=("me",)
    )
    board = Board("s", "S", (Column("x"), Column("c", better=better)), "c", (*others, mine))
    # an equal score is not better: at the best end one stands before, at the worst end two do
    expected = RankInterval(3, 5, 2, 3, 3)
    assert rank_interval(board, "mine") == rank_interval(board, "me") == expected
    assert rank_interval(board, "b") is None, "not measured here"
    ordered = ranked(board.entries, "c", better)
    placed = Board("s", "S", board.columns, "c", tuple(ordered))
    assert rank_interval(placed, "mine") == expected
    assert [entry.rank for entry in ordered] == [1, 2, 3, 4, 5]
    unbounded = BoardEntry("mine", "measured", {"c": known(0.5, math.nan, math.nan, 50)}, {})
    assert rank_interval(Board("s", "S", board.columns, "c", (*others, unbounded)), "mine") == RankInterval(
        3, 5, 3, 3, 3
    )
