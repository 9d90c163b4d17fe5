"""The cells of a board in words: value, interval, and what is there of what it needs. Every view takes them here."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.core.json_text import attributes
from holdfast.core.rounding import Rounding, figures, shown
from holdfast.core.suites import Column
from holdfast.store.exporting import latex_table
from holdfast.store.scores import PER_HUNDRED

UNRELIABLE = "†"
KEYS = 2  # rank and model, which every block of text repeats
GAP = 1  # between columns
LONGEST_WORDS = 24  # of a column of words; longer ones are folded
LARGE = 100  # from here on a number that is no share has decimals, not figures


class NumberStyle(NamedTuple):
    """How numbers are written: decimals of a percentage, and whether the rest is rounded or cut off."""

    digits: int = 1
    rounding: Rounding = "round"


PLAIN = NumberStyle()


def number_in_unit(value: float, unit: str, style: NumberStyle = PLAIN) -> str:
    """`54.3` for a share; other numbers with two figures more than a share has decimals."""
    if unit in PER_HUNDRED:
        return shown(100 * value, style.digits, rounding=style.rounding)
    if unit == "rank":
        return shown(value, 0)
    if style.rounding == "truncate" or abs(value) >= LARGE:
        return shown(value, style.digits, rounding=style.rounding)
    return figures(value, style.digits + 2)


def bounds_text(cell: BoardCell, unit: str, style: NumberStyle = PLAIN) -> str:
    """`[52.1, 56.4]`; nothing where the number of samples is not known."""
    if cell.score is None or not cell.score.n or math.isnan(cell.score.low):
        return ""
    return f"[{number_in_unit(cell.score.low, unit, style)}, {number_in_unit(cell.score.high, unit, style)}]"


def cell_text(cell: BoardCell, unit: str, style: NumberStyle = PLAIN) -> str:
    """`54.3 [52.1, 56.4]`, or `12 of 80` where results are missing; `(published 56.9)` where sources disagree."""
    if cell.score is None:
        return missing_text(cell)
    value, part = number_in_unit(cell.score.value, unit, style), f"n {cell.score.n:,}" if cell.is_partial else ""
    return " ".join(filter(None, [value, bounds_text(cell, unit, style), part, disagreement(cell, unit, style)]))


def disagreement(cell: BoardCell, unit: str, style: NumberStyle = PLAIN) -> str:
    """`(published 56.9)`: what other sources say, where that is more than rounding away and shows in these digits."""
    own = "" if cell.score is None else number_in_unit(cell.score.value, unit, style)
    others = [(other.origin, number_in_unit(other.score.value, unit, style)) for other in cell.disagreeing]
    origins_by_value: dict[str, list[str]] = {}
    for origin, value in dict.fromkeys(others):
        if value != own:
            origins_by_value.setdefault(value, []).append(origin)
    parts = [f"{', '.join(origins)} {value}" for value, origins in origins_by_value.items()]
    return f"({'; '.join(parts)})" if parts else ""


def missing_text(cell: BoardCell) -> str:
    return f"{cell.have} of {cell.of}" if cell.of and not cell.note else "—"


class BoardTable(NamedTuple):
    """A board as a table of texts: headings, rows, the headings of numbers, and the footnotes that rows point to."""

    columns: list[str]
    rows: list[list[str]]
    right: list[str]
    notes: list[str]


def board_table(
    board: Board, columns: Sequence[Column] | None = None, style: NumberStyle = PLAIN, *, with_missing: bool = True
) -> BoardTable:
    """The board in texts, with these columns, by default all that are no details."""
    chosen = board.columns if columns is None else columns
    marks = _Marks()
    titles = [" ".join([column.title or column.name, *marks.of_column(column)]) for column in chosen]
    by = next((column for column in board.every_column if column.name == board.sort), None)
    marks.ranks_of(by)
    rows = [
        [
            "" if entry.rank is None else str(entry.rank),
            " ".join([entry.model, *marks.of(entry)]),
            *(cell_text(entry.cell(column.name), column.unit, style) for column in chosen),
            ", ".join(entry.every_origin),
            *([entry.missing] if with_missing else []),
        ]
        for entry in board.entries
    ]
    headings = ["", "model", *titles, "from", *(["missing"] if with_missing else [])]
    return BoardTable(headings, rows, ["", *titles], marks.notes)


def board_latex(board: Board) -> str:
    """The whole board as a LaTeX table, its footnotes as comments below."""
    table = board_table(board)
    notes = "".join(f"% {note}\n" for note in table.notes)
    return latex_table(table.columns, table.rows, right=table.right) + notes


class TextBlock(NamedTuple):
    """Some columns of a table as lines of text."""

    heading: list[str]
    body: list[str]


def text_blocks(table: BoardTable, width: int) -> list[TextBlock]:
    """The table cut between columns into blocks that fit the width; each begins with rank and model."""
    widths = _widths(table, width)
    room_of_block = width - sum(widths[:KEYS]) - KEYS * GAP
    groups: list[list[int]] = [[]]
    room = room_of_block
    for i in range(KEYS, len(table.columns)):
        if groups[-1] and widths[i] > room:
            groups.append([])
            room = room_of_block
        groups[-1].append(i)
        room -= widths[i] + GAP
    return [_text_block(table, [*range(KEYS), *group], widths) for group in groups]


def _widths(table: BoardTable, width: int) -> list[int]:
    """How wide each column is: numbers are folded only where one alone would not fit, headings and words before."""
    widths: list[int] = []
    for i, heading in enumerate(table.columns):
        cells = max((len(row[i]) for row in table.rows), default=0)
        room = width - sum(widths[:KEYS]) - KEYS * GAP
        words = width // 2 - 8 if i < KEYS else min(room, max(LONGEST_WORDS, width // 4))
        most = room if heading in table.right and i >= KEYS else words
        widths.append(min(max(min(cells, most), max(map(len, heading.split()), default=0)), max(most, 1)))
    return widths


def _text_block(table: BoardTable, index: Sequence[int], widths: Sequence[int]) -> TextBlock:
    sides = [str.rjust if table.columns[i] in table.right else str.ljust for i in index]
    lines: list[list[str]] = []
    for n, row in enumerate([table.columns, *table.rows]):
        folded = [_folded(row[i], widths[i]) for i in index]
        tall = max(map(len, folded))
        # a heading ends where its column begins
        padded = [[""] * (tall - len(cell)) + cell if n == 0 else cell + [""] * (tall - len(cell)) for cell in folded]
        lines.append(
            [
                " ".join(side(cell[k], widths[i]) for side, cell, i in zip(sides, padded, index, strict=True)).rstrip()
                for k in range(tall)
            ]
        )
    return TextBlock(lines[0], [line for row in lines[1:] for line in row])


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False) or [""] if len(text) > width else [text]


@dataclass(slots=True)
class _Marks:
    """Footnotes of a table, each once, numbered as they come."""

    numbers: dict[str, int] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)
    of_ranks: str = ""
    has_unreliable: bool = False

    def of_column(self, column: Column) -> list[str]:
        """Marks of what keeps the numbers of a column from being like for like, by letters."""
        return [f"({self.letters.setdefault(text, _letter(len(self.letters)))})" for text in column.caveats]

    def ranks_of(self, column: Column | None) -> None:
        """Says beside the footnotes which of them the ranks rest on."""
        marks = self.of_column(column) if column is not None else []
        self.of_ranks = f"ranks rest on {' '.join(marks)}" if marks else ""

    def of(self, entry: BoardEntry) -> list[str]:
        self.has_unreliable |= entry.is_unreliable
        number = self.numbers.setdefault(entry.footnote, len(self.numbers) + 1) if entry.footnote else 0
        return [*([UNRELIABLE] if entry.is_unreliable else []), *([f"[{number}]"] if number else [])]

    @property
    def notes(self) -> list[str]:
        first = [f"{UNRELIABLE} potentially unreliable, says the list that it is on"] if self.has_unreliable else []
        caveats = [f"({letter}) {text}" for text, letter in self.letters.items()]
        footnotes = [f"[{number}] {text}" for text, number in self.numbers.items()]
        return [*first, *caveats, *filter(None, [self.of_ranks]), *footnotes]


def _letter(number: int) -> str:
    """a, b, … z, aa, ab, …"""
    before = _letter(number // 26 - 1) if number >= 26 else ""
    return before + chr(ord("a") + number % 26)


def records(board: Board, style: NumberStyle = PLAIN) -> list[dict[str, object]]:
    """One record per score, for programs: fractions, with interval, n, counts and source; details where begun.

    `shown` is the value as every table writes it.
    """
    return [
        _record(entry, column, cell, style)
        for entry in board.entries
        for column in board.every_column
        for cell in (entry.cell(column.name),)
        if not column.detail or cell.have or cell.score is not None
    ]


def _record(entry: BoardEntry, column: Column, cell: BoardCell, style: NumberStyle) -> dict[str, object]:
    score = cell.score
    known = score if score is not None and score.n > 0 else None
    return {
        "rank": entry.rank,
        "model": entry.model,
        "origin": ", ".join(entry.every_origin),
        "score": column.name,
        "unit": column.unit,
        "value": None if score is None else score.value,
        **{part: getattr(known, part, None) for part in ("low", "high", "n")},
        "shown": "" if score is None else number_in_unit(score.value, column.unit, style),
        **attributes(cell, "have", "of"),
        "complete": entry.is_complete,
        "detail": column.detail,
        "from": cell.origin,
        **attributes(cell, "source", "note"),
        "caveats": list(column.caveats),
        "others": [
            {"from": o.origin, "value": o.score.value, "source": o.source, "agrees": o.agrees} for o in cell.others
        ],
        "unreliable": entry.is_unreliable,
        "footnote": entry.footnote,
        "also": list(entry.also),
    }
