"""A board on a terminal: as many columns beside each other as fit, the rest below, and footnotes at the end."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from holdfast.cli.output import err, out, print_json, print_table, show_table
from holdfast.core.errors import unknown

if TYPE_CHECKING:
    from holdfast.boards.board_text import BoardTable, NumberStyle
    from holdfast.boards.entries import Board
    from holdfast.core.suites import Column, Suite
    from holdfast.store import Store

WIDTH = 80  # where nobody says how wide the screen is
KEYS = 2  # rank and model, which every block repeats
GAP = 1  # between columns
LONGEST_WORDS = 24  # of a column of words; longer ones are folded


def list_boards(store: Store, json: bool) -> None:
    """Every board with its entries; those without any below, each with the command that fills it."""
    from holdfast.boards.board_list import BrokenSuite, board_suites, filled_by
    from holdfast.cli.tables import store_board

    made: list[tuple[Suite, Board]] = []
    for suite in board_suites(store):
        if isinstance(suite, BrokenSuite):
            err.print(f"warning: {suite.name}: {suite.problem}", markup=False, soft_wrap=True)
        else:
            made.append((suite, store_board(suite, store)))
    if json:
        print_json([_listed(suite, board) | {"filled_by": filled_by(suite)} for suite, board in made])
        return
    filled = [(suite, board) for suite, board in made if board.entries]
    print_table(
        ["board", "what it ranks", "entries", "measured here"],
        [
            [f"{suite.name}{suite.options}", suite.title, str(len(board.entries)), str(_measured(board))]
            for suite, board in filled
        ],
        right=["entries", "measured here"],
    )
    empty = [suite for suite, board in made if not board.entries]
    if empty:
        out.print(f"\n{len(empty)} have no entries yet:")
        print_table(["board", "filled by"], [[suite.name, filled_by(suite)] for suite in empty])


def _listed(suite: Suite, board: Board) -> dict[str, object]:
    return {
        "suite": suite.name,
        "dataset": suite.dataset,
        "title": suite.title,
        "source": suite.source,
        "entries": len(board.entries),
        "measured": _measured(board),
    }


def _measured(board: Board) -> int:
    return sum(entry.is_measured for entry in board.entries)


def chosen(board: Board, names: Sequence[str], *, details: bool) -> list[Column]:
    """The columns to show, by their names; without any, all that are no details, or with `details` all."""
    known = {column.name: column for column in board.every_column}
    for name in names:
        if name not in known:
            raise unknown(f"score of the board `{board.suite}`", name, known)
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    return list(board.every_column if details else board.columns)


def show_board(
    board: Board, suite: Suite, columns: Sequence[Column], style: NumberStyle, *, with_missing: bool, latex: bool,
    is_fitted: bool,
) -> None:  # fmt: skip
    """The board as a table, or in LaTeX; fitted to the screen, or to 80 columns with `is_fitted`."""
    from holdfast.boards.board_list import filled_by
    from holdfast.boards.board_text import board_table

    made = board_table(
        board, columns, style, with_missing=with_missing and any(not e.is_complete for e in board.entries)
    )
    width = screen_width(is_fitted)
    if latex or width is None:
        show_table(made.columns, made.rows, right=made.right, latex=latex)
    else:
        for block in blocks(made, width):
            _print_block(block, width)
    for note in made.notes:
        sys.stdout.write(f"% {note}\n") if latex else out.print(note, markup=False, soft_wrap=width is None)
    if not board.entries:
        err.print(f"no entries yet: {filled_by(suite)}", markup=False, soft_wrap=True)


def screen_width(is_fitted: bool) -> int | None:
    """How many letters a line may have; None where output is piped and nobody asked for a width."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return out.width
    return WIDTH if is_fitted else None


def blocks(table: BoardTable, width: int) -> list[BoardTable]:
    """The table cut between columns into tables that fit; each begins with rank and model."""
    widths = _widths(table, width)
    keys = sum(widths[:KEYS]) + KEYS * GAP
    groups: list[list[int]] = [[]]
    room = width - keys
    for i in range(KEYS, len(table.columns)):
        if groups[-1] and widths[i] > room:
            groups.append([])
            room = width - keys
        groups[-1].append(i)
        room -= widths[i] + GAP
    return [_part(table, [*range(KEYS), *group]) for group in groups]


def _part(table: BoardTable, places: Sequence[int]) -> BoardTable:
    rows = [[row[i] for i in places] for row in table.rows]
    return table._replace(columns=[table.columns[i] for i in places], rows=rows)


def _widths(table: BoardTable, width: int) -> list[int]:
    """How wide each column is: numbers are folded only where one alone would not fit, headings and words before."""
    found: list[int] = []
    for i, heading in enumerate(table.columns):
        cells = max((len(row[i]) for row in table.rows), default=0)
        room = width - sum(found[:KEYS]) - KEYS * GAP
        words = width // 2 - 8 if i < KEYS else min(room, max(LONGEST_WORDS, width // 4))
        most = room if heading in table.right and i >= KEYS else words
        found.append(min(max(min(cells, most), max(map(len, heading.split()), default=0)), max(most, 1)))
    return found


def _print_block(table: BoardTable, width: int) -> None:
    """Lines of text: rich takes a minute for what this writes in a second."""
    widths = _widths(table, width)
    sides = [str.rjust if heading in table.right else str.ljust for heading in table.columns]
    for n, row in enumerate([table.columns, *table.rows]):
        folded = [_folded(cell, most) for cell, most in zip(row, widths, strict=True)]
        tall = max(map(len, folded))
        for i in range(tall):
            # a heading ends where its column begins
            at = [i - (tall - len(lines)) * (n == 0) for lines in folded]
            cells = [lines[k] if 0 <= k < len(lines) else "" for lines, k in zip(folded, at, strict=True)]
            line = " ".join(side(cell, most) for side, cell, most in zip(sides, cells, widths, strict=True))
            if n:
                sys.stdout.write(f"{line.rstrip()}\n")
            else:
                out.print(Text(line.rstrip(), style="bold"))


def _folded(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False) or [""]
