"""One entry per model: which source a cell shows, what the others say, and how ranks run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.boards.board_text import cell_text
from holdfast.boards.entries import BoardCell, BoardEntry
from holdfast.boards.merging import SourceEntries, merged_entries
from holdfast.boards.ranking import ranked
from holdfast.core.suites import Column
from holdfast.core.types import Score

COLUMN = Column("right")
LOWEST = Column("best", score="lowest", of=("right",))


def score(value: float, n: int = 0) -> Score:
    half = 0.02 if n else math.nan
    return Score(value, value - half, value + half, n)


def listing(
    origin: str,
    values: dict[str, float | None],
    *,
    n: int = 0,
    date: str = "",
    partial: bool = False,
    name: str = "right",
) -> SourceEntries:
    cells = {
        model: BoardCell(
            None if value is None else score(value, n), int(value is not None), 1, f"{origin} source", partial
        )
        for model, value in values.items()
    }
    return SourceEntries(
        origin, [BoardEntry(model, origin, {name: cell}, {"by": origin}) for model, cell in cells.items()], date
    )


def one(*listings: SourceEntries, column: Column = COLUMN, names: dict[str, str] | None = None) -> BoardCell:
    (entry,) = merged_entries(listings, [column], names or {})
    return entry.cells[column.name]


def test_a_model_of_three_sources_is_one_entry_with_all_of_them() -> None:
    every = [
        listing(origin, {"m": 0.5}, n=100 * (origin == "measured")) for origin in ("published", "imported", "measured")
    ]
    (entry,) = merged_entries(every, [COLUMN], {})
    assert (entry.origin, entry.every_origin) == ("measured", ("measured", "imported", "published"))
    cell = entry.cells["right"]
    assert (cell.origin, cell.source) == ("measured", "measured source")
    assert [(other.origin, other.source) for other in cell.others] == [
        ("imported", "imported source"),
        ("published", "published source"),
    ]
    assert cell_text(cell, "percent") == "50.0 [48.0, 52.0]"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_alias_is_the_same_model_whichever_source_comes_first(order: tuple[int, int]) -> None:
    both = [listing("published", {"short": 0.5}), listing("imported", {"Long": 0.5})]
    (entry,) = merged_entries([both[i] for i in order], [COLUMN], {"short": "Long"})
    assert (entry.model, entry.also, entry.names) == ("Long", ("short",), ("Long", "short"))


def test_a_part_measured_here_does_not_replace_what_is_published_of_the_whole() -> None:
    part = listing("measured", {"m": 0.5}, n=20, partial=True)
    cell = one(listing("published", {"m": 0.7}), part)
    assert cell.origin == "published"
    assert cell_text(cell, "percent") == "70.0 (measured 50.0)"
    whole = listing("measured", {"m": 0.5}, n=20)
    assert one(listing("published", {"m": 0.7}), whole).origin == "measured"


def test_of_two_imported_files_the_later_counts() -> None:
    files = [listing("imported", {"m": 0.5}, date="2024-01-01"), listing("imported", {"m": 0.6}, date="2025-01-01")]
    for order in (files, files[::-1]):
        cell = one(*order)
        assert cell.score is not None
        assert cell.score.value == 0.6
        assert cell_text(cell, "percent") == "60.0 (imported 50.0)"


def test_the_lowest_of_all_sources_is_the_best_known() -> None:
    sources = [
        listing("measured", {"m": 0.6}, n=100, name="best"),
        listing("imported", {"m": 0.5}, name="best"),
        listing("published", {"m": 0.55}, name="best"),
    ]
    cell = one(*sources, column=LOWEST)
    assert cell.score is not None
    assert (cell.score.value, cell.origin) == (0.5, "imported")


@pytest.mark.parametrize(
    ("printed", "public", "agree"),
    [
        (0.707, 0.7069, True),  # rounded
        (0.760, 0.7605, True),  # cut off
        (0.647, 0.6520, False),
        (0.5, 0.501, False),
    ],
)
def test_sources_agree_where_the_coarser_says_the_same(printed: float, public: float, agree: bool) -> None:
    paper = listing("published", {"m": printed, "finest": 0.123})
    file = listing("imported", {"m": public, "finest": 0.1234})
    entry = next(entry for entry in merged_entries([paper, file], [COLUMN], {}) if entry.model == "m")
    assert [other.agrees for other in entry.cells["right"].others] == [agree]


def test_a_count_that_an_agreeing_source_knows_gives_the_interval() -> None:
    cell = one(listing("published", {"m": 0.5}, n=10_000), listing("imported", {"m": 0.5}))
    assert cell.score is not None
    assert (cell.origin, cell.score.n) == ("imported", 10_000)
    assert cell.score.low < 0.5 < cell.score.high
    other = one(listing("published", {"m": 0.7}, n=10_000), listing("imported", {"m": 0.5}))
    assert other.score is not None
    assert other.score.n == 0, "another number, another count"


def test_what_is_missing_everywhere_is_told_by_the_source_that_has_most_of_it() -> None:
    begun = SourceEntries("measured", [BoardEntry("m", "measured", {"right": BoardCell(None, 3, 5, "")}, {})])
    cell = one(listing("published", {"m": None}), begun)
    assert (cell.score, cell.have, cell.of) == (None, 3, 5)


shares = some.dictionaries(some.text("abcdef", min_size=1, max_size=3), some.integers(0, 20), max_size=12)


@given(
    some.lists(some.tuples(some.sampled_from(["published", "imported", "measured"]), shares), max_size=5),
    some.booleans(),
)
def test_every_model_is_ranked_once_and_no_rank_is_missing_or_double(
    sources: Sequence[tuple[str, dict[str, int]]], lower: bool
) -> None:
    lists = [listing(origin, {m: v / 20 for m, v in values.items()}, n=50) for origin, values in sources]
    better = "lower" if lower else "higher"
    made = ranked(merged_entries(lists, [COLUMN], {}), "right", better)
    names = [entry.model for entry in made]
    assert sorted(names) == sorted({model for _, values in sources for model in values})
    assert [entry.rank for entry in made] == list(range(1, len(made) + 1))
    values = [entry.cells["right"].score.value for entry in made if entry.cells["right"].score is not None]
    assert values == sorted(values, reverse=not lower)
    for entry in made:
        told = sum(entry.model in values for _, values in sources)
        assert len(entry.cells["right"].others) == told - 1, "no source is lost"
