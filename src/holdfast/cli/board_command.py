"""Boards: models beside each other."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.output import (
    STORE,
    CsvOption,
    JsonOption,
    LatexOption,
    StoreOption,
    err,
    open_store,
    print_csv,
    print_json,
    tell_failures,
)


def board(
    name: Annotated[
        str | None, typer.Argument(metavar="BOARD", help="A suite, a list or a table with a board; none lists them.")
    ] = None,
    store: StoreOption = STORE,
    sort: Annotated[str | None, typer.Option("--sort", help="The score to sort by.")] = None,
    rounding: Annotated[
        str, typer.Option("--rounding", help="round, or truncate as Table 1 of OODRobustBench does.")
    ] = "round",
    digits: Annotated[int, typer.Option("--digits", min=0, max=9, help="Decimals.")] = 1,
    complete: Annotated[bool, typer.Option("--complete", help="Leave incomplete entries out.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Also show the board's details.")] = False,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Show only these scores, details included; may be repeated.")
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Dataset instead of the suite's own.")] = None,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """Models beside each other, best first: what papers print, what was imported, what was measured here."""
    from holdfast.boards.board_list import named_board
    from holdfast.boards.board_text import NumberStyle, records
    from holdfast.cli.board_view import chosen, list_boards, show_board
    from holdfast.cli.tables import store_board
    from holdfast.core.errors import Misuse

    kept = open_store(store)
    if name is None:
        list_boards(kept, json)
        return
    if rounding not in ("round", "truncate"):
        raise Misuse(f"--rounding is round or truncate, got `{rounding}`")
    style = NumberStyle(digits, "truncate" if rounding == "truncate" else "round")
    suite = named_board(name, kept, dataset=dataset)
    shown = store_board(suite, kept, sort=sort)
    scores = chosen(shown, columns or (), details=details)
    left_out = [entry for entry in shown.entries if not entry.is_complete]
    tell_failures(kept, {entry.model for entry in shown.entries if entry.is_measured})
    if complete:
        shown = shown.complete()
    if json:
        print_json({"suite": shown.suite, "title": shown.title, "sort": shown.sort, "scores": records(shown, style)})
        return
    if csv:
        print_csv(records(shown, style))
        return
    show_board(shown, suite, scores, style, with_missing=not complete, latex=latex, is_fitted=details)
    if left_out:
        every = len(left_out) + sum(entry.is_complete for entry in shown.entries)
        err.print(
            f"{len(left_out)} of {every} entries are incomplete and {'left out' if complete else 'marked'}; "
            "no average is taken over missing results"
        )
