"""Trends: models against the line through them, and how well scores explain each other."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.output import (
    STORE,
    BaselineOption,
    LeaveOutOption,
    Output,
    StoreOption,
    ZeroOption,
    err,
    open_store,
    warn,
)
from holdfast.core.errors import Misuse, unknown

TESTBED = "imagenet-testbed"


def trend_command(
    *,
    y: Annotated[
        list[str] | None,
        typer.Option(help="The setting to explain; several, or a pattern such as `*`, make a table of lines."),
    ] = None,
    x: Annotated[list[str] | None, typer.Option(help="The setting that explains it; several make a plane.")] = None,
    benchmark: Annotated[
        str, typer.Option(help="Whose table: a published or imported one, or `store` for your own runs.")
    ] = TESTBED,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            help="Fit only these models: a name, a pattern (*resnet*), a fact (type=STANDARD), a cut "
            "(id-accuracy+id-robustness>=110%), or `published` for the paper's own choice.",
        ),
    ] = None,
    leave_out: LeaveOutOption = None,
    space: Annotated[str | None, typer.Option(help="logit (default), linear or probit.")] = None,
    zero: ZeroOption = None,
    model: Annotated[list[str] | None, typer.Option(help="Show only these models.")] = None,
    by: Annotated[
        str | None,
        typer.Option("--group", "--by", help="Mean distance from the line per value of this fact, such as type."),
    ] = None,
    cut: Annotated[
        list[str] | None, typer.Option(help='Only models that pass, for the fit and against it: "imagenet>=5%".')
    ] = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="Not fitted; how far these models lie from a fit without and with them.")
    ] = None,
    facts: Annotated[
        str | None, typer.Option(help="A CSV file of facts: a column `model`, and one for each, as group.")
    ] = None,
    baseline: BaselineOption = None,
    beyond: Annotated[
        str | None, typer.Option(help="A printed effective robustness: give back the line behind it.")
    ] = None,
    matrix: Annotated[str | None, typer.Option(help="r2 or pearson of every --y with every --x, over models.")] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(help="With --matrix r2: again for models whose two --x sum to this much or more."),
    ] = None,
    table: Annotated[
        int | None, typer.Option(help="Table 1 or 2 of the ImageNet testbed, from its public results.")
    ] = None,
    store: StoreOption = STORE,
    how: Output,
) -> None:
    """The line of one setting on another over all models, and how far each model lies above it.

    The line is that of the benchmark; models of the store that have its scores are placed against it.
    """
    from holdfast.cli import multi_id_views
    from holdfast.cli import trend_views as views
    from holdfast.cli.matrix_views import MatrixRequest, show_matrix, show_testbed_table
    from holdfast.trends.selecting import fit_set

    kept = open_store(store)
    if table is not None:
        show_testbed_table(kept, table, how)
        return
    ys, xs = y or [], x or []
    for option, texts in (("--y", ys), ("--x", xs)):
        if not texts:
            raise Misuse(f"`holdfast trend` needs {option}", hint="such as --y imagenetv2 --x val, or --table 1")
    tables = views.tables_of_trend(kept, benchmark, [*ys, *xs, *([beyond] if beyond else [])])
    tables = views.cut_tables(tables, facts, cut or (), xs)
    known = {fact for facts in tables.placed.facts.values() for fact, value in facts.items() if value}
    if by and by not in known:
        raise unknown("fact of these models", by, known, otherwise="give facts of your own with --facts FILE")
    names = views.settings_matching(tables.fitted.settings, ys)
    views.check_shares(tables, [*(names if len(names) == 1 or matrix else ()), *xs])
    apart = [*(leave_out or ()), *(held_out or ())]
    chosen = fit_set(tables.fitted, fit or (), apart, benchmark=benchmark)
    for note in chosen.notes:
        warn(note)
    if matrix is not None:
        show_matrix(MatrixRequest(tables.fitted, xs, names, matrix, space or "linear", chosen, threshold or ()), how)
        return
    if threshold:
        raise Misuse("--threshold goes with --matrix r2", hint='one line takes a cut: --fit "a+b>=110%"')
    policy, scale = views.zero_policy(zero), space or "logit"
    chooses = (fit or (), leave_out or (), held_out or ())
    several = multi_id_views.SeveralInputs(names, xs, scale, policy, by or "", *chooses, benchmark)
    if len(names) > 1 and len(xs) > 1:
        views.check_shares(tables, names)
        multi_id_views.show_multi_id(tables.fitted, tables.placed, several, how)
        return
    if held_out and len(xs) < 2:
        raise Misuse("--held-out compares fits over several --x", hint="a line alone takes --leave-out")
    request = views.TrendRequest(names[0], xs, scale, policy, chosen, benchmark, model or (), by, baseline, beyond)
    if len(names) > 1:
        views.show_lines(tables.scores, tables.fitted, names, request, how)
        return
    more = several if len(xs) > 1 and beyond is None and policy != "piecewise" else None
    views.show_line(tables.fitted, tables.placed, request, how, several=more)
    if not how.json:
        err.print(f"source: {views.sources(tables.placed, names[0])}", markup=False)
