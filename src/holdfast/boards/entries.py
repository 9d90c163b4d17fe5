"""What a board is made of: columns, entries, and cells that say where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.core.suites import Column
from holdfast.core.types import Score

MEASURED, IMPORTED, PUBLISHED = "measured", "imported", "published"
ORIGINS = (MEASURED, IMPORTED, PUBLISHED)


class OtherSource(NamedTuple):
    """The same score from another source. `agrees` where it differs by rounding only, or lies in the interval."""

    origin: str
    score: Score
    source: str
    agrees: bool


class BoardCell(NamedTuple):
    """One score of an entry. Without a `score`, `have` of the `of` results that it needs are there.

    The interval and n of a score are NaN and 0 where its number of samples is not known. `note` says what else
    than missing results is in the way of a score. `others` are what further sources say.
    """

    score: Score | None
    have: int
    of: int
    source: str
    is_partial: bool = False
    note: str = ""
    origin: str = ""
    others: tuple[OtherSource, ...] = ()

    @property
    def disagreeing(self) -> tuple[OtherSource, ...]:
        return tuple(other for other in self.others if not other.agrees)


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """A model on a board, once; `rank` is None without a score to sort by.

    `origin` is `measured` where it was measured here, else `imported`, else `published`; `origins` are all of them.
    `also` are its names in other sources. `details` are cells that an entry may lack and still be complete.
    """

    model: str
    origin: str
    cells: Mapping[str, BoardCell]
    facts: Mapping[str, str]
    rank: int | None = None
    details: Mapping[str, BoardCell] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def cell(self, name: str) -> BoardCell:
        return self.cells[name] if name in self.cells else self.details[name]

    @property
    def every_origin(self) -> tuple[str, ...]:
        return self.origins or (self.origin,)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.model, *self.also)

    @property
    def is_measured(self) -> bool:
        return MEASURED in self.every_origin

    @property
    def has_rows(self) -> bool:
        """Whether the store may hold rows of it: measured here, or predictions that were imported."""
        return self.is_measured or IMPORTED in self.every_origin

    @property
    def is_complete(self) -> bool:
        return all(cell.score is not None for cell in self.cells.values())

    @property
    def is_unreliable(self) -> bool:
        """Whether the list that it is on says that its robust accuracy is potentially unreliable."""
        return self.facts.get("unreliable", "") == "yes"

    @property
    def footnote(self) -> str:
        return self.facts.get("footnote", "")

    @property
    def missing(self) -> str:
        """What an incomplete entry lacks, in words: `ood-d-robustness 12 of 79, ood-robustness`."""
        return ", ".join(_lack(name, cell) for name, cell in self.cells.items() if cell.score is None)


@dataclass(frozen=True, slots=True)
class Board:
    """The entries of a suite, best first; those without the score to sort by come last."""

    suite: str
    title: str
    columns: tuple[Column, ...]
    sort: str
    entries: tuple[BoardEntry, ...]
    details: tuple[Column, ...] = ()

    def complete(self) -> Board:
        """Without the entries that lack a score."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.is_complete))

    @property
    def every_column(self) -> tuple[Column, ...]:
        return (*self.columns, *self.details)


def _lack(name: str, cell: BoardCell) -> str:
    if cell.note:
        return f"{name} ({cell.note})"
    return f"{name} {cell.have} of {cell.of}" if cell.of else name
