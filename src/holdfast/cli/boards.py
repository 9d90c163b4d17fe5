"""Boards and trends: models beside each other, and against the line through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import (
    STORE,
    CsvOption,
    JsonOption,
    LatexOption,
    StoreOption,
    err,
    open_store,
    out,
    print_csv,
    print_json,
    print_table,
    show_table,
    tell_failures,
)

if TYPE_CHECKING:
    from holdfast.core.table import Table
    from holdfast.metrics.board import Cell
    from holdfast.trends.fits import ZeroPolicy
    from holdfast.trends.piecewise import Trend
    from holdfast.trends.placing import Placement

BenchmarkOption = Annotated[
    str, typer.Option("--benchmark", help="Whose table: a published or imported one, or `store` for your own runs.")
]


def board(
    suite: Annotated[str | None, typer.Argument(help="A suite with a board; none lists them.")] = None,
    store: StoreOption = STORE,
    sort: Annotated[str | None, typer.Option("--sort", help="The score to sort by.")] = None,
    rounding: Annotated[
        str, typer.Option("--rounding", help="round, or truncate as Table 1 of OODRobustBench does.")
    ] = "round",
    digits: Annotated[int, typer.Option("--digits", help="Decimals.")] = 1,
    complete: Annotated[bool, typer.Option("--complete", help="Leave incomplete entries out.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Also show the suite's details.")] = False,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Dataset instead of the suite's own.")] = None,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """Models beside each other, best first: what papers print, what was imported, what was measured here."""
    from holdfast.cli.tables import store_board
    from holdfast.core.errors import Misuse
    from holdfast.core.suites import load_suite

    if suite is None:
        _list_boards(json)
        return
    if rounding not in ("round", "truncate"):
        raise Misuse(f"--rounding is round or truncate, got `{rounding}`")
    kept = open_store(store)
    shown = store_board(load_suite(suite, dataset=dataset), kept, sort=sort)
    left_out = [entry for entry in shown.entries if not entry.is_complete]
    tell_failures(kept, {entry.model for entry in shown.entries})
    if complete:
        shown = shown.complete()
    if json:
        print_json({"suite": shown.suite, "title": shown.title, "sort": shown.sort, "scores": shown.records()})
        return
    if csv:
        print_csv(shown.records())
        return
    scores = (*shown.columns, *(shown.details if details else ()))
    titles = [column.title or column.name for column in scores]
    columns = ["", "model", *titles, "from", *(() if complete else ("missing",))]
    rows = [
        [
            "" if entry.rank is None else str(entry.rank),
            entry.model,
            *(cell_text(entry.cell(c.name), c.unit, digits, rounding) for c in scores),
            entry.origin,
            *(() if complete else (entry.missing,)),
        ]
        for entry in shown.entries
    ]
    show_table(columns, rows, right=["", *titles], latex=latex)
    if left_out:
        every = len(left_out) + sum(entry.is_complete for entry in shown.entries)
        err.print(
            f"{len(left_out)} of {every} entries are incomplete and {'left out' if complete else 'marked'}; "
            "no average is taken over missing results"
        )


def trend(
    y: Annotated[str, typer.Option("--y", help="The setting to explain.")],
    x: Annotated[list[str], typer.Option("--x", help="The setting that explains it; several make a plane.")],
    benchmark: BenchmarkOption = "imagenet-testbed",
    fit: Annotated[
        list[str] | None, typer.Option("--fit", help="Fit only models with this fact, such as type=STANDARD.")
    ] = None,
    space: Annotated[str, typer.Option("--space", help="logit, linear or probit.")] = "logit",
    zero: Annotated[
        str | None, typer.Option("--zero", help="For scores of exactly 0 or 1: piecewise, clip or drop.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Show only these models.")] = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """The line of one setting on another over all models, and how far each model lies above it.

    The line is that of the benchmark; models of the store that have its scores are placed against it.
    """
    from holdfast.cli.tables import benchmark_scores, joined, own_models
    from holdfast.core.errors import Misuse, unknown
    from holdfast.trends.piecewise import trend as fitted
    from holdfast.trends.placing import placements

    policies: dict[str | None, ZeroPolicy | None] = {
        None: None,
        "piecewise": "piecewise",
        "clip": "clip",
        "drop": "drop",
    }
    if zero not in policies:
        raise Misuse(f"--zero is piecewise, clip or drop, got `{zero}`")
    kept = open_store(store)
    scores = benchmark_scores(benchmark, kept, needs=[y, *x])
    own = own_models(benchmark, kept)
    table = joined(scores.table, own)
    for setting in (y, *x):
        if setting not in table.settings:
            raise unknown("setting", setting, table.settings)
        if scores.unit(setting) not in ("percent", "fraction"):
            raise Misuse(f"`{setting}` is no share but in {scores.unit(setting)}", hint="a trend relates accuracies")
    line = fitted(scores.table, y, x, space=space, models=_fit_set(scores.table, fit or ()), zero=policies[zero])
    placed = sorted(placements(line, table, models=model or None), key=lambda each: -each.beyond)
    if json:
        print_json({"benchmark": benchmark, "fit": line.record(), "models": [each.record() for each in placed]})
        return
    if csv:
        print_csv([each.record() for each in placed])
        return
    columns = ["model", y, "expected", "above the line, points", ""]
    rows = [_placed_row(each) for each in placed]
    if not latex:
        for text in _line_text(line):
            out.print(text, markup=False)
        out.print("")
    show_table(columns, rows, right=columns[1:4], latex=latex)
    err.print(f"{len(placed)} models placed, {line.n} fitted on; source: {_sources(table, y)}", markup=False)


def _list_boards(json: bool) -> None:
    from holdfast.core.suites import load_suite, suites

    made = [suite for name in suites() if (suite := load_suite(name)).board]
    if json:
        print_json([{"suite": suite.name, "title": suite.title, "source": suite.source} for suite in made])
        return
    print_table(["suite", "board", "source"], [[suite.name, suite.title, suite.source] for suite in made])


def cell_text(cell: Cell, unit: str, digits: int = 1, rounding: str = "round") -> str:
    """A cell as the site writes it, with as many digits as asked for."""
    from holdfast.metrics.averages import rounded
    from holdfast.site.cells import text
    from holdfast.store.scores import PER_HUNDRED

    digits += 2 if unit in ("nats", "fraction") else 0

    def written(value: float, unit: str) -> str:
        shown = 100 * value if unit in PER_HUNDRED else value
        return f"{rounded(shown, digits, rounding='truncate' if rounding == 'truncate' else 'round'):.{digits}f}"

    return text(cell, unit, written)


def _fit_set(table: Table, facts: Sequence[str]) -> list[str] | None:
    from holdfast.core.errors import Misuse

    if not facts:
        return None
    wanted = []
    for text in facts:
        name, sign, value = text.partition("=")
        if not sign:
            raise Misuse(f"--fit is a fact such as type=STANDARD, got `{text}`")
        wanted.append((name, value))
    chosen = [model for model in table.models if all(table.fact(model, name) == value for name, value in wanted)]
    if not chosen:
        raise Misuse(f"no model has {' and '.join(facts)}")
    return chosen


def _line_text(line: Trend) -> list[str]:
    from holdfast.trends.piecewise import Piecewise

    sides = (
        [("up to the pivot: ", line.left), ("above it: ", line.right)] if isinstance(line, Piecewise) else [("", line)]
    )
    return [
        f"{start}{side.space.name}({side.y}) = "
        + " + ".join(
            f"{weight:.4f}·{side.space.name}({name})" for weight, name in zip(side.weights, side.x, strict=True)
        )
        + f" {'+' if side.intercept >= 0 else '-'} {abs(side.intercept):.4f}"
        + f"   R² {side.r2:.3f}, mean error {100 * side.mae:.2f} points, {side.n} models"
        for start, side in sides
    ]


def _placed_row(each: Placement) -> list[str]:
    expected = each.expected
    note = ("unusual" if each.is_unusual else "") if not each.was_fitted else "fitted on"
    bounds = f"{100 * expected.value:.1f} [{100 * expected.low:.1f}, {100 * expected.high:.1f}]"
    return [each.model, f"{100 * each.score:.1f}", bounds, f"{100 * each.beyond:+.2f}", note]


def _sources(table: Table, setting: str) -> str:
    return "; ".join(sorted({table.source_of(model, setting) for model in table.models} - {""}))
