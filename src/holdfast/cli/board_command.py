"""Boards: models beside each other, as many columns as fit the screen, the rest below, footnotes at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from holdfast.cli.completing import board_names
from holdfast.cli.output import (
    STORE,
    Output,
    StoreOption,
    err,
    open_store,
    out,
    print_json,
    print_table,
    tell_failures,
    warn,
)
from holdfast.core.errors import unknown
from holdfast.core.json_text import attributes

if TYPE_CHECKING:
    from holdfast.boards.board_text import NumberStyle
    from holdfast.boards.column_means import ColumnMean
    from holdfast.boards.entries import Board
    from holdfast.core.suites import Column, Suite
    from holdfast.store import Store

WIDTH = 80  # where the width of the screen is not known


class RoundingChoice(StrEnum):
    """How decimals are cut."""

    round = "round"
    truncate = "truncate"


def board(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="BOARD",
            help="A suite, a list or a table with a board; none lists them.",
            autocompletion=board_names,
        ),
    ] = None,
    store: StoreOption = STORE,
    sort: Annotated[str | None, typer.Option("--sort", "--by", help="The score to rank by.")] = None,
    rounding: Annotated[
        RoundingChoice, typer.Option(help="truncate is what Table 1 of OODRobustBench does.")
    ] = RoundingChoice.round,
    digits: Annotated[int, typer.Option(min=0, max=9, help="Decimals.")] = 1,
    complete: Annotated[bool, typer.Option("--complete", help="Leave incomplete entries out.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Also show the board's details.")] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", help="Show only these scores, details included, by name or pattern (cr-*); may be repeated."
        ),
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Also the mean of each score over all entries.")] = False,
    dataset: Annotated[str | None, typer.Option(help="Dataset instead of the suite's own.")] = None,
    stronger: Annotated[
        bool, typer.Option("--stronger", help="Measured with our stronger attacks, not those of the published code.")
    ] = False,
    how: Output,
) -> None:
    """Models beside each other, best first: what papers print, what was imported, what was measured here."""
    from holdfast.boards.benchmark_tables import store_board
    from holdfast.boards.board_list import named_board
    from holdfast.boards.board_text import NumberStyle, records
    from holdfast.boards.column_means import column_mean
    from holdfast.core.suite_parameters import STRONGER

    kept = open_store(store)
    if name is None:
        _list_boards(kept, how.json)
        return
    style = NumberStyle(digits, rounding.value)
    suite = named_board(name, kept, dataset=dataset, parameters=STRONGER if stronger else None)
    shown = store_board(suite, kept, sort=sort)
    scores = _chosen_columns(shown, columns or (), details=details)
    incomplete = [entry for entry in shown.entries if not entry.is_complete]
    every = len(shown.entries)
    tell_failures(kept, {entry.model for entry in shown.entries if entry.is_measured})
    if complete:
        shown = shown.complete()
    means = [column_mean(shown, column) for column in scores] if mean else []
    if how.json or how.csv:
        of_means, listed = [each.record() for each in means], records(shown, style)
        about = {"suite": shown.suite, "title": shown.title, "sort": shown.sort, "scores": listed}
        how.data(of_means if mean else listed, whole=about | ({"means": of_means} if mean else {}))
        return
    _show_board(shown, suite, scores, style, means=means, how=how, is_fitted=details)
    if incomplete:
        err.print(
            f"{len(incomplete)} of {every} entries are incomplete and {'left out' if complete else 'marked'}; "
            "no average is taken over missing results"
        )


def _list_boards(store: Store, json: bool) -> None:
    """Every board with its entries; those without any below, each with the command that fills it."""
    from holdfast.boards.benchmark_tables import store_board
    from holdfast.boards.board_list import BrokenSuite, board_suites, filled_by

    records: list[dict[str, object]] = []
    filled, empty = [], []
    for suite in board_suites(store):
        if isinstance(suite, BrokenSuite):
            warn(f"{suite.name}: {suite.problem}")
            continue
        entries = store_board(suite, store).entries
        measured = sum(entry.is_measured for entry in entries)
        about = {"suite": suite.name, **attributes(suite, "dataset", "title", "source")}
        records.append(about | {"entries": len(entries), "measured": measured, "filled_by": filled_by(suite)})
        if entries:
            filled.append([f"{suite.name}{suite.options}", suite.title, str(len(entries)), str(measured)])
        else:
            empty.append([suite.name, filled_by(suite)])
    if json:
        print_json(records)
        return
    numbers = ["entries", "measured here"]
    print_table(["board", "what it ranks", *numbers], filled, right=numbers)
    if empty:
        out.print(f"\n{len(empty)} have no entries yet:")
        print_table(["board", "filled by"], empty)


def _chosen_columns(board: Board, names: Sequence[str], *, details: bool) -> list[Column]:
    """The columns to show, by their names; without any, all that are no details, or with `details` all."""
    known = {column.name: column for column in board.every_column}
    chosen: dict[str, Column] = {}
    for name in names:
        fitting = [name] if name in known else [each for each in known if fnmatchcase(each, name)]
        if not fitting:
            raise unknown(f"score of the board `{board.suite}`", name, known)
        chosen |= {each: known[each] for each in fitting}
    if names:
        return list(chosen.values())
    return list(board.every_column if details else board.columns)


def _show_board(
    board: Board,
    suite: Suite,
    columns: Sequence[Column],
    style: NumberStyle,
    *,
    means: Sequence[ColumnMean],
    how: Output,
    is_fitted: bool,
) -> None:
    """The board as a table, or in LaTeX; fitted to the screen, or to 80 columns with `is_fitted`."""
    from holdfast.boards.board_list import filled_by
    from holdfast.boards.board_text import board_table, text_blocks
    from holdfast.boards.column_means import mean_row

    table = board_table(board, columns, style, with_missing=any(not entry.is_complete for entry in board.entries))
    if means:
        table.rows.append(mean_row(means, style, width=len(table.columns)))
    width = WIDTH if is_fitted else None  # without one, as wide as the table
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        width = out.width
    if how.latex or width is None:
        how.table(table.columns, table.rows, right=table.right)
    else:
        for block in text_blocks(table, width):
            for line in block.heading:
                out.print(Text(line, style="bold"))
            # rich takes a minute for what this writes in a second
            sys.stdout.write("".join(f"{line}\n" for line in block.body))
    for note in table.notes:
        sys.stdout.write(f"% {note}\n") if how.latex else out.print(note, markup=False, soft_wrap=width is None)
    if not board.entries:
        err.print(f"no entries yet: {filled_by(suite)}", markup=False, soft_wrap=True)
