"""One entry per model: what is printed, imported and measured of it, with all sources, and ranks without doubles.

Of several sources a cell shows the first that has the score: measured here on the whole set, imported (the latest file
first), printed, measured on a part. Of a column that is the lowest of others it shows the lowest of all sources. The
others stay with the cell, and whether they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.boards.column_scores import ABOVE, LOWEST
from holdfast.boards.entries import IMPORTED, MEASURED, ORIGINS, PUBLISHED, BoardCell, BoardEntry, OtherSource
from holdfast.core.intervals import printed_score
from holdfast.core.rounding import Rounding, shown
from holdfast.core.suites import Column
from holdfast.store.scores import PER_HUNDRED

MOST_DECIMALS = 4  # that anyone prints
ROUNDINGS: tuple[Rounding, ...] = ("round", "truncate")  # tables in print are made in both ways


class SourceEntries(NamedTuple):
    """The entries of one source: a printed table, an imported file (with its date), or the runs of a store."""

    origin: str
    entries: Sequence[BoardEntry]
    date: str = ""

    def decimals(self, column: Column) -> int:
        """How finely a source writes a column."""
        scale = 100 if column.unit in PER_HUNDRED else 1
        scores = [entry.cells[column.name].score for entry in self.entries]
        texts = [f"{scale * score.value:.{MOST_DECIMALS}f}".rstrip("0") for score in scores if score is not None]
        return max((len(text.partition(".")[2]) for text in texts), default=0)


class _Candidate(NamedTuple):
    origin: str
    date: str
    decimals: Mapping[str, int]
    entry: BoardEntry


def merged_entries(
    listings: Iterable[SourceEntries], columns: Sequence[Column], names: Mapping[str, str]
) -> list[BoardEntry]:
    """Entries of the same model as one; `names` gives the name on the board of a model that has another elsewhere."""
    by_name: dict[str, list[_Candidate]] = {}
    for listing in listings:
        decimals = _decimals(listing, columns)
        for entry in listing.entries:
            name = names.get(entry.model, entry.model)
            by_name.setdefault(name, []).append(_Candidate(listing.origin, listing.date, decimals, entry))
    return [_one(name, candidates, columns) for name, candidates in by_name.items()]


def _decimals(listing: SourceEntries, columns: Sequence[Column]) -> dict[str, int]:
    """How finely a source writes each column; a distance from a line is one decimal coarser than what it is made of."""
    decimals: dict[str, int] = {}
    for column in columns:
        own = listing.decimals(column)
        is_placed = column.score == ABOVE and own == MOST_DECIMALS
        decimals[column.name] = max(0, min(decimals[name] for name in column.of) - 1) if is_placed else own
    return decimals


def _one(name: str, candidates: Sequence[_Candidate], columns: Sequence[Column]) -> BoardEntry:
    met = {candidate.origin for candidate in candidates}
    origins = tuple(origin for origin in ORIGINS if origin in met)
    also = dict.fromkeys(each.entry.model for each in candidates if each.entry.model != name)
    facts: dict[str, str] = {}
    for each in sorted(candidates, key=lambda one: (IMPORTED, PUBLISHED, MEASURED).index(one.origin)):
        facts = {**each.entry.facts, **facts}
    cells = {column.name: _cell(column, candidates) for column in columns}
    return BoardEntry(name, origins[0], cells, facts, origins=origins, also=tuple(also))


def _cell(column: Column, candidates: Sequence[_Candidate]) -> BoardCell:
    cells = [(each, each.entry.cells[column.name]) for each in candidates]
    known = [(each, cell) for each, cell in cells if cell.score is not None]
    if not known:
        return max((cell for _, cell in cells), key=lambda cell: (cell.have, bool(cell.note), cell.of))
    known.sort(key=lambda pair: pair[0].date, reverse=True)
    known.sort(key=lambda pair: _order(*pair))
    if column.score == LOWEST:
        known.sort(key=lambda pair: pair[1].score.value if pair[1].score is not None else 0)
    (first, shown_cell), *rest = known
    others = [
        OtherSource(
            cell.origin or each.origin, cell.score, cell.source, _agree((first, shown_cell), (each, cell), column)
        )
        for each, cell in rest
        if cell.score is not None
    ]
    counted = next((other.score.n for other in others if other.agrees and other.score.n), 0)
    score = shown_cell.score
    if score is not None and not score.n and first.origin != MEASURED and counted:
        score = printed_score(score.value, counted, column.unit)  # the same number, of as many samples
    return shown_cell._replace(score=score, origin=shown_cell.origin or first.origin, others=tuple(others))


def _order(candidate: _Candidate, cell: BoardCell) -> int:
    if candidate.origin == MEASURED:
        return 3 if cell.is_partial else 0
    return 1 if candidate.origin == IMPORTED else 2


def _agree(one: tuple[_Candidate, BoardCell], other: tuple[_Candidate, BoardCell], column: Column) -> bool:
    """Whether two sources say the same: as finely as the coarser writes it, or within what was measured."""
    values = [cell.score.value for _, cell in (one, other) if cell.score is not None]
    for (each, cell), value in zip((one, other), reversed(values), strict=True):
        if each.origin == MEASURED and cell.score is not None and cell.score.n:
            return cell.score.low <= value <= cell.score.high
    scale = 100 if column.unit in PER_HUNDRED else 1
    digits = min(each.decimals[column.name] for each, _ in (one, other))
    first, second = (scale * value for value in values)
    return any(shown(first, digits, rounding=way) == shown(second, digits, rounding=way) for way in ROUNDINGS)
