"""The figures of the papers: their numbers as a table, and a drawing with --out."""

from __future__ import annotations

from pathlib import Path
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
    parse_share,
    warn,
)

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from holdfast.cli.figure_views import FigureInputs
    from holdfast.cli.trend_views import Output

app = typer.Typer(
    help="The figures of the papers, over the models of a board: numbers as a table, and a drawing with --out.",
    no_args_is_help=True,
)

BenchmarkOption = Annotated[
    str,
    typer.Option("--benchmark", help="Whose models: a suite, list or table with a board, or `store` for the runs."),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="The suite's board on this dataset instead of its own.")
]
FitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fit", help="Fit only these models, written as for `holdfast trend`; the paper's choice by default."
    ),
]
LeaveOutOption = Annotated[
    list[str] | None, typer.Option("--leave-out", help="Do not fit these models; written as for --fit.")
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="Show only these models: names, patterns, facts and cuts, written as for --fit."),
]
SpaceOption = Annotated[
    str | None, typer.Option("--space", help="logit, linear or probit; the benchmark's own by default.")
]
ZeroOption = Annotated[
    str | None, typer.Option("--zero", help="For scores of exactly 0 or 1: piecewise, clip or drop.")
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Also draw it into this SVG file.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--y", help="Scores under shifts: names or patterns such as `*-robustness`.")
]
TESTBED = "imagenet-testbed"


@app.command("scatter")
def scatter_figure(
    y: Annotated[
        list[str],
        typer.Option(
            "--y", help="The score to explain: a panel each. Also `effective:`, `relative:` or `drop:` and a score."
        ),
    ],
    x: Annotated[
        str | None, typer.Option("--x", help="The score that explains it; each one's own reference by default.")
    ] = None,
    benchmark: BenchmarkOption = TESTBED,
    dataset: DatasetOption = None,
    fit: FitOption = None,
    leave_out: LeaveOutOption = None,
    model: ModelOption = None,
    space: SpaceOption = None,
    zero: ZeroOption = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Also show relative robustness: the score minus this model's.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Colour by this fact.")] = "type",
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """Models as points, the line through those of the fit with its R², and each model's distance from it."""
    from holdfast.cli.figure_views import scatter_view

    inputs = _inputs(store, benchmark, dataset, fit, leave_out, model, space, zero)
    _finish(scatter_view(inputs, x, y, baseline, by, _how(csv, latex, json)), out)


@app.command("matrix")
def matrix_figure(
    y: SettingOption = None,
    x: Annotated[
        list[str] | None, typer.Option("--x", help="The undisturbed scores; accuracy and robustness by default.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Acc-Acc, Rob-Rob, Acc-Rob or Rob-Acc; all by default.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option("--threshold", help="A row for models whose two --x sum to this much or more; may be repeated."),
    ] = None,
    benchmark: BenchmarkOption = "oodrobustbench-cifar10-linf",
    dataset: DatasetOption = None,
    fit: FitOption = None,
    leave_out: LeaveOutOption = None,
    space: SpaceOption = None,
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """R² of the line of every shifted score on accuracy and robustness, for all models or those above a threshold."""
    from holdfast.cli.shift_views import matrix_view

    inputs = _inputs(store, benchmark, dataset, fit, leave_out, None, space, None)
    levels = [parse_share(text, "--threshold") or 0.0 for text in threshold or ()]
    _finish(matrix_view(inputs, x or (), y or (), kind or (), levels, _how(csv, latex, json)), out)


@app.command("boxes")
def boxes_figure(
    y: SettingOption = None,
    benchmark: BenchmarkOption = "oodrobustbench-cifar10-linf",
    dataset: DatasetOption = None,
    model: ModelOption = None,
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """What each shift costs over models: quartiles, whiskers and the models beyond; catastrophic drops are flagged."""
    from holdfast.cli.shift_views import boxes_view

    inputs = _inputs(store, benchmark, dataset, None, None, model, None, None)
    _finish(boxes_view(inputs, y or (), _how(csv, latex, json)), out)


@app.command("limits")
def limits_figure(
    y: SettingOption = None,
    benchmark: BenchmarkOption = "oodrobustbench-cifar10-linf",
    dataset: DatasetOption = None,
    fit: FitOption = None,
    leave_out: LeaveOutOption = None,
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """The best score under each shift that a model perfect without it would have by the line, and the line's slope."""
    from holdfast.cli.shift_views import limits_view

    inputs = _inputs(store, benchmark, dataset, fit, leave_out, None, "linear", None)
    _finish(limits_view(inputs, y or (), _how(csv, latex, json)), out)


@app.command("grid")
def grid_figure(
    y: SettingOption = None,
    model: ModelOption = None,
    benchmark: BenchmarkOption = TESTBED,
    dataset: DatasetOption = None,
    sort: Annotated[str | None, typer.Option("--sort", help="Order models by this score, best first.")] = None,
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """Models x settings as a heat map: every score that there is."""
    from holdfast.cli.figure_views import grid_view

    inputs = _inputs(store, benchmark, dataset, None, None, model, None, None)
    _finish(grid_view(inputs, y or (), sort, _how(csv, latex, json)), out)


@app.command("bars")
def bars_figure(
    y: SettingOption = None,
    model: ModelOption = None,
    benchmark: BenchmarkOption = "oodrobustbench-training",
    dataset: DatasetOption = None,
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """The scores of each model as bars, a block per score."""
    from holdfast.cli.figure_views import bars_view

    inputs = _inputs(store, benchmark, dataset, None, None, model, None, None)
    _finish(bars_view(inputs, y or (), _how(csv, latex, json)), out)


@app.command("pairs")
def pairs_figure(
    x: Annotated[str, typer.Option("--x", help="The scenario without the shift.")],
    y: Annotated[str, typer.Option("--y", help="The scenario under the shift.")],
    model: Annotated[list[str] | None, typer.Option("--model", help="Only these models.")] = None,
    space: Annotated[str, typer.Option("--space", help="probit, linear or logit.")] = "linear",
    out: OutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """How often each pair of models gives the same answer, without a shift and under it; no labels are used."""
    from holdfast.cli.figure_views import pairs_view

    _finish(pairs_view(open_store(store), x, y, model or (), space, _how(csv, latex, json)), out)


@app.command("models")
def models_figure(
    benchmark: BenchmarkOption = TESTBED,
    dataset: DatasetOption = None,
    fit: FitOption = None,
    leave_out: LeaveOutOption = None,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """The models that lines go through by the paper's choice, or by --fit and --leave-out, with their facts."""
    from holdfast.cli.figure_views import models_view

    models_view(_inputs(store, benchmark, dataset, fit, leave_out, None, None, None), _how(csv, latex, json))


def _how(csv: bool, latex: bool, json: bool) -> Output:
    from holdfast.cli.trend_views import Output

    return Output(csv=csv, latex=latex, json=json)


def _inputs(
    store: str,
    benchmark: str,
    dataset: str | None,
    fit: list[str] | None,
    leave_out: list[str] | None,
    model: list[str] | None,
    space: str | None,
    zero: str | None,
) -> FigureInputs:
    from holdfast.boards.board_tables import figure_table
    from holdfast.cli.figure_views import FigureInputs
    from holdfast.cli.trending import zero_policy
    from holdfast.trends.selecting import Rule, fit_set

    kept = open_store(store)
    table, shares, suite = figure_table(benchmark, kept, dataset=dataset)
    rule = Rule(tuple(fit or ()), tuple(leave_out or ()))
    if suite is not None and rule == Rule():
        rule = Rule(suite.fit, suite.leave_out)
    chosen = fit_set(table, rule.fit, rule.leave_out, benchmark=benchmark)
    for note in chosen.notes if fit or leave_out else ():
        warn(note)
    seen = fit_set(table, model).models if model else table.models
    own_space = "logit" if suite is None else suite.space
    return FigureInputs(benchmark, table, shares, chosen, seen, space or own_space, zero_policy(zero))


def _finish(drawn: ET.Element, out: Path | None) -> None:
    if out is None:
        return
    from holdfast.site.drawings import write_drawing

    write_drawing(drawn, out)
    err.print(f"wrote {out}", markup=False, soft_wrap=True)
