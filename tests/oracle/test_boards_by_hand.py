"""Distances above a line, with the ends of their intervals found by another road, and what boards merge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, logit, ndtr, ndtri

from holdfast.boards.column_means import column_mean
from holdfast.boards.column_scores import ColumnScore, StoredRuns, above_line, column_score, mean_of_columns
from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.boards.line_intervals import counts_of
from holdfast.boards.merging import SourceEntries, _decimals, merged_entries
from holdfast.boards.multi_run_scores import multi_run_scores
from holdfast.boards.ranking import RankInterval, rank_interval, ranked
from holdfast.core.errors import Misuse
from holdfast.core.intervals import printed_score, wilson
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.summary import Line
from holdfast.store import Footer, Rows, Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.scores import Scores

Z = 1.959963984540054
Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]


def bounds(value: float, low: float, high: float) -> Bounds:
    return np.array([value]), np.array([low]), np.array([high])


def of_counts(right: int, n: int) -> Bounds:
    score = wilson(right, n)
    return bounds(score.value, score.low, score.high)


@given(n=st.integers(2, 5000), share=st.floats(0, 1))
def test_the_count_behind_wilsons_bounds_is_found_again(n: int, share: float) -> None:
    assert float(counts_of(of_counts(round(share * n), n))[0]) == pytest.approx(n, rel=1e-6)


def test_of_bounds_of_two_counts_the_fewer_stand_behind_both() -> None:
    few, many = wilson(20, 40), wilson(50, 100)
    assert float(counts_of(bounds(0.5, few.low, many.high))[0]) == pytest.approx(40)
    assert float(counts_of(bounds(0.5, many.low, few.high))[0]) == pytest.approx(40)
    assert float(counts_of(bounds(0.5, 0.5, 0.5))[0]) == 1e18, "a share without an interval is sure"
    for low, high in ((math.nan, 0.6), (0.4, math.nan)):
        assert math.isnan(float(counts_of(bounds(0.5, low, high))[0]))


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


def test_sources_come_as_measured_whole_imported_printed_measured_in_part_in_whatever_order() -> None:
    part = listing("measured", BoardCell(Score(0.4, 0.2, 0.6, 5), 1, 1, "", is_partial=True))
    rest = [listing("published", known(0.5)), listing("imported", known(0.6))]
    whole = listing("measured", known(0.7, 0.6, 0.8, 50))
    for order in ([part, *rest], [*rest, part], [*rest[::-1], part]):
        cell = merged_entries(order, [Column("c")], {})[0].cells["c"]
        assert [cell.origin, *(other.origin for other in cell.others)] == ["imported", "published", "measured"]
        cell = merged_entries([*order, whole], [Column("c")], {})[0].cells["c"]
        assert [other.origin for other in cell.others] == ["imported", "published", "measured"]
        assert cell.score == Score(0.7, 0.6, 0.8, 50)


def test_of_what_is_missing_most_results_count_then_words_then_what_is_needed() -> None:
    def told(*cells: BoardCell) -> BoardCell:
        return merged_entries([listing("published", cell) for cell in cells], [Column("c")], {})[0].cells["c"]

    some, note, more = BoardCell(None, 1, 2, ""), BoardCell(None, 0, 2, "", note="why"), BoardCell(None, 0, 9, "")
    assert told(more, note, some) == some
    assert told(more, note) == note
    assert told(BoardCell(None, 0, 3, ""), more) == more


@pytest.mark.parametrize(
    ("better", "expected"), [("higher", RankInterval(4, 6, 3, 4, 4)), ("lower", RankInterval(3, 6, 2, 3, 4))]
)
def test_a_place_counts_only_those_that_are_better(better: str, expected: RankInterval) -> None:
    """Own 0.5 in [0.4, 0.6]; others at both ends, two above and one below: an equal score is not better."""
    values = {"a": 0.6, "b": 0.61, "c": 0.4, "d": 0.39, "e": 0.62}
    others = [
        BoardEntry(name, "measured" if name == "a" else "published", {"c": known(value)}, {})
        for name, value in values.items()
    ]
    mine = BoardEntry("mine", "imported", {"c": known(0.5, 0.4, 0.6, 1)}, {}, origins=("measured",), also=("me",))
    board = Board("s", "S", (Column("x"), Column("c", better=better)), "c", (*others, mine))
    assert rank_interval(board, "mine") == rank_interval(board, "me") == expected
    assert rank_interval(board, "b") is None, "not measured here"
    ordered = ranked(board.entries, "c", better)
    assert rank_interval(Board("s", "S", board.columns, "c", tuple(ordered)), "mine") == expected
    assert [entry.rank for entry in ordered] == [1, 2, 3, 4, 5, 6]
    for score in (known(0.5, math.nan, math.nan, 50), known(0.5, 0.4, 0.6, 0)):
        unbounded = BoardEntry("mine", "measured", {"c": score}, {})
        found = rank_interval(Board("s", "S", board.columns, "c", (*others, unbounded)), "mine")
        assert found == expected._replace(low=expected.rank, high=expected.rank)


def test_a_rank_needs_one_setting_and_is_each_model_s_own_a_line_needs_two_and_is_of_all(tmp_path: Path) -> None:
    values = np.array([[0.9, 0.5], [0.8, 0.6], [0.7, 0.3]])
    made = Scores("b", Table(tuple("abc"), ("x", "y"), values, np.full((3, 2), 1000)))
    store = Store(str(tmp_path))
    ranks = multi_run_scores(store, "rank", scenarios=["y"], table=made)
    assert {each.model: each.score and each.score.value for each in ranks} == {"a": 2, "b": 1, "c": 3}
    (only,) = multi_run_scores(store, "rank", scenarios=["y"], table=made, models=["b"])
    assert (only.model, only.of, only.reference) == ("b", "y", "")
    (limit,) = multi_run_scores(store, "upper-limit", scenarios=["y"], reference="x", table=made)
    slope, intercept = np.polyfit(values[:, 0], values[:, 1], 1)
    assert limit.score is not None
    assert (limit.model, limit.score.value) == ("", pytest.approx(slope + intercept))
    with pytest.raises(Misuse, match="needs to know of which settings"):
        multi_run_scores(store, "upper-limit", scenarios=["y"], table=made)
    with pytest.raises(Misuse, match="needs to know of which settings"):
        multi_run_scores(store, "rank", table=made)


# columns of runs


@pytest.fixture
def runs(rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], tmp_path: Path) -> StoredRuns:
    """Ten samples: 9 right without a change, 4 and 6 under two changes, and a sweep over two radii."""
    sweep = (ChangeRecord("attack", "sweep", 2, "sweep", {"attack": "pgd-linf", "radii": [0.1, 0.2]}),)
    radii = np.array([0.0, 0.1, 0.1, 0.2, 0.2, np.inf, np.inf, np.inf, 0.0, 0.2], np.float32)
    read = {
        **{name: rows_for([i < right for i in range(10)]) for name, right in (("d", 9), ("d+a", 4), ("d+b", 6))},
        "d+s": rows_for([True] * 10, radii=radii, footer=footer_for(changes=sweep)),
    }
    lines = {name: Line(rows.footer, wilson(int(rows.correct.sum()), 10), None, 0) for name, rows in read.items()}
    return StoredRuns(Store(str(tmp_path)), lines, read)


def test_columns_are_means_over_terms_of_means_over_scenarios(runs: StoredRuns) -> None:
    plain = column_score(Column("c", scenarios=(("d",),)), runs, None)
    assert plain == ColumnScore(wilson(9, 10), 1, 1)
    both = column_score(Column("c", scenarios=(("d",), ("d+a", "d+b"))), runs, None)
    assert both.score is not None
    assert (both.score.value, both.have, both.of) == (pytest.approx((0.9 + 0.5) / 2), 3, 3)
    assert both.score.low < both.score.value < both.score.high
    missing = column_score(Column("c", scenarios=(("d", "e"),), reference="f", score=STAYS), runs, None)
    assert missing == ColumnScore(None, 1, 3)
    assert column_score(Column("c"), runs, None).score is None


STAYS = "prediction-agreement"


def test_scores_of_rows_make_columns(runs: StoredRuns) -> None:
    # of the nine that are right without the change four stay right under it; the tenth has the same wrong answer
    stays = column_score(Column("c", scenarios=(("d+a",),), score=STAYS, reference="d"), runs, None)
    assert stays.score is not None
    assert (stays.score.value, stays.have) == (pytest.approx((4 + 1) / 10), 2)
    alone = column_score(Column("c", scenarios=(("d+a",),), score=STAYS), runs, None)
    assert alone.score is None
    assert "has no value" in alone.note
    # radii 0.1 and 0.2: samples broken at 0 and 0.1 stand at neither, at 0.2 they stand at one, and five in all at both
    swept = column_score(Column("c", scenarios=(("d+s",),), score="mean-over-radii"), runs, None)
    assert swept.score is not None
    assert swept.score.value == pytest.approx((2 * 3 + 1 * 3) / 20)
    sure = column_score(Column("c", scenarios=(("d", "d+a"),), score="brier"), runs, None)
    assert sure.score is not None
    by_hand = []
    for name in ("d", "d+a"):
        logits = runs.read[name].logits
        assert logits is not None
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        by_hand.append(((shares - np.eye(10)) ** 2).sum(axis=1).mean())
    assert sure.score.value == pytest.approx(np.mean(by_hand), rel=1e-3)
    assert column_score(Column("c", scenarios=(("d",),), score="rank"), runs, None) == ColumnScore(None, 1, 1)


def test_a_column_of_columns_weighs_each_alike(runs: StoredRuns) -> None:
    columns = [Column("one", scenarios=(("d",),)), Column("two", scenarios=(("d+a", "d+b"),))]
    scores = [column_score(column, runs, None).score for column in columns]
    made = mean_of_columns(Column("m", of=("one", "two")), [score for score in scores if score is not None], runs)
    assert made.value == pytest.approx((0.9 + 0.5) / 2)
    assert made.has_interval
    again = mean_of_columns(Column("mm", of=("m", "one")), [made, wilson(9, 10)], runs)
    assert again.value == pytest.approx((0.7 + 0.9) / 2)
    unknown = mean_of_columns(Column("x", of=("one", "nobody")), [wilson(9, 10), Score(0.1, 0, 1, 0)], runs)
    assert unknown.value == pytest.approx(0.5)


def test_the_record_of_a_mean_names_mean_and_deviation() -> None:
    entries = [BoardEntry(f"m{i}", "published", {"c": known(value)}, {}) for i, value in enumerate((0.2, 0.6))]
    column = Column("c")
    record = column_mean(Board("s", "S", (column,), "c", tuple(entries)), column).record()
    assert (record["mean"], record["deviation"], record["n"]) == (
        pytest.approx(0.4),
        pytest.approx(math.sqrt(2 * 0.04)),
        2,
    )
