"""The figures of the papers: their numbers as a table, and a drawing with --out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import (
    STORE,
    BaselineOption,
    LeaveOutOption,
    ModelsOption,
    Output,
    StoreOption,
    ZeroOption,
    err,
    open_store,
    parse_share,
    warn,
    with_options,
)

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from holdfast.cli.figure_views import FigureInputs

TESTBED = "imagenet-testbed"
OODROBUSTBENCH = "oodrobustbench-cifar10-linf"

app = typer.Typer(
    help="The figures of the papers, over the models of a board: numbers as a table, and a drawing with --out.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class FigureRequest(Output):
    """The options that figures share: each command takes those that it names, the others keep their defaults."""

    y: Annotated[
        list[str] | None, typer.Option(help="Scores under shifts: names or patterns such as `*-robustness`.")
    ] = None
    benchmark: Annotated[
        str, typer.Option(help="Whose models: a suite, list or table with a board, or `store` for the runs.")
    ] = TESTBED
    dataset: Annotated[str | None, typer.Option(help="The suite's board on this dataset instead of its own.")] = None
    fit: Annotated[
        list[str] | None,
        typer.Option(help="Fit only these models, written as for `holdfast trend`; the paper's choice by default."),
    ] = None
    leave_out: LeaveOutOption = None
    model: Annotated[
        list[str] | None,
        typer.Option(help="Show only these models: names, patterns, facts and cuts, written as for --fit."),
    ] = None
    space: Annotated[str | None, typer.Option(help="logit, linear or probit; the benchmark's own by default.")] = None
    zero: ZeroOption = None
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also draw it into this SVG file.")] = None
    store: StoreOption = STORE

    def inputs(self, *, space: str | None = None) -> FigureInputs:
        from holdfast.boards.benchmark_tables import figure_table
        from holdfast.cli.figure_views import FigureInputs
        from holdfast.cli.trend_views import zero_policy
        from holdfast.trends.selecting import Rule, fit_set

        table, shares, suite = figure_table(self.benchmark, open_store(self.store), dataset=self.dataset)
        rule = Rule(tuple(self.fit or ()), tuple(self.leave_out or ()))
        if suite is not None and rule == Rule():
            rule = Rule(suite.fit, suite.leave_out)
        chosen = fit_set(table, rule.fit, rule.leave_out, benchmark=self.benchmark)
        for note in chosen.notes if self.fit or self.leave_out else ():
            warn(note)
        seen = fit_set(table, self.model).models if self.model else table.models
        own_space = "logit" if suite is None else suite.space
        scale = space or self.space or own_space
        return FigureInputs(self.benchmark, table, shares, chosen, seen, scale, zero_policy(self.zero))

    def draw(self, drawing: ET.Element) -> None:
        """Writes the drawing where --out names a file."""
        if self.out is None:
            return
        from holdfast.site.drawings import write_drawing

        write_drawing(drawing, self.out)
        err.print(f"wrote {self.out}", markup=False, soft_wrap=True)


Figure = Callable[..., None]


def figure(name: str, options: str, *, benchmark: str = TESTBED) -> Callable[[Figure], Figure]:
    """A function of a `FigureRequest` and options of its own as a command.

    `options`: both kinds in the order of --help; where and how to print follow. `benchmark`: whose models by default.
    """

    def add(make: Figure) -> Figure:
        names = [*options.split(), "store", "csv", "latex", "json"]
        app.command(name)(with_options(make, names, benchmark=benchmark))
        return make

    return add


@figure("scatter", "y x benchmark dataset fit leave_out model space zero baseline by out")
def scatter_figure(
    request: FigureRequest,
    *,
    y: Annotated[
        list[str],
        typer.Option(help="The score to explain: a panel each. Also `effective:`, `relative:` or `drop:` and a score."),
    ],
    x: Annotated[
        str | None, typer.Option(help="The score that explains it; each one's own reference by default.")
    ] = None,
    baseline: BaselineOption = None,
    by: Annotated[str, typer.Option(help="Colour by this fact.")] = "type",
) -> None:
    """Models as points, the line through those of the fit with its R², and each model's distance from it."""
    from holdfast.cli.figure_views import scatter_view

    request.draw(scatter_view(request.inputs(), x, y, baseline, by, request))


@figure("matrix", "y x kind threshold benchmark dataset fit leave_out space out", benchmark=OODROBUSTBENCH)
def matrix_figure(
    request: FigureRequest,
    *,
    x: Annotated[
        list[str] | None, typer.Option(help="The undisturbed scores; accuracy and robustness by default.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Acc-Acc, Rob-Rob, Acc-Rob or Rob-Acc; all by default.")
    ] = None,
    threshold: Annotated[
        list[str] | None, typer.Option(help="A row for models whose two --x sum to this much or more; may be repeated.")
    ] = None,
) -> None:
    """R² of the line of every shifted score on accuracy and robustness, for all models or those above a threshold."""
    from holdfast.cli.shift_views import matrix_view

    inputs = request.inputs()
    levels = [parse_share(text, "--threshold") or 0.0 for text in threshold or ()]
    request.draw(matrix_view(inputs, x or (), request.y or (), kind or (), levels, request))


@figure("boxes", "y benchmark dataset model out", benchmark=OODROBUSTBENCH)
def boxes_figure(request: FigureRequest) -> None:
    """What each shift costs over models: quartiles, whiskers and the models beyond; catastrophic drops are flagged."""
    from holdfast.cli.shift_views import boxes_view

    request.draw(boxes_view(request.inputs(), request.y or (), request))


@figure("limits", "y benchmark dataset fit leave_out out", benchmark=OODROBUSTBENCH)
def limits_figure(request: FigureRequest) -> None:
    """The best score under each shift that a model perfect without it would have by the line, and the line's slope."""
    from holdfast.cli.shift_views import limits_view

    request.draw(limits_view(request.inputs(space="linear"), request.y or (), request))


@figure("grid", "y model benchmark dataset sort out")
def grid_figure(
    request: FigureRequest,
    *,
    sort: Annotated[str | None, typer.Option(help="Order models by this score, best first.")] = None,
) -> None:
    """Models x settings as a heat map: every score that there is."""
    from holdfast.cli.figure_views import grid_view

    request.draw(grid_view(request.inputs(), request.y or (), sort, request))


@figure("bars", "y model benchmark dataset out", benchmark="oodrobustbench-training")
def bars_figure(request: FigureRequest) -> None:
    """The scores of each model as bars, a block per score."""
    from holdfast.cli.figure_views import bars_view

    request.draw(bars_view(request.inputs(), request.y or (), request))


@figure("pairs", "x y model space out")
def pairs_figure(
    request: FigureRequest,
    *,
    x: Annotated[str, typer.Option(help="The scenario without the shift.")],
    y: Annotated[str, typer.Option(help="The scenario under the shift.")],
    model: ModelsOption = None,
    space: Annotated[str, typer.Option(help="probit, linear or logit.")] = "linear",
) -> None:
    """How often each pair of models gives the same answer, without a shift and under it; no labels are used."""
    from holdfast.cli.figure_views import pairs_view

    request.draw(pairs_view(open_store(request.store), x, y, model or (), space, request))


@figure("models", "benchmark dataset fit leave_out")
def models_figure(request: FigureRequest) -> None:
    """The models that lines go through by the paper's choice, or by --fit and --leave-out, with their facts."""
    from holdfast.cli.figure_views import models_view

    models_view(request.inputs(), request)
