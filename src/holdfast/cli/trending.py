"""Trends: models against the line through them, and how well scores explain each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, get_args

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

if TYPE_CHECKING:
    from holdfast.core.table import Table
    from holdfast.store import Store
    from holdfast.store.scores import Scores
    from holdfast.trends.fits import ZeroPolicy

TESTBED = "imagenet-testbed"


class Tables(NamedTuple):
    """The table that is fitted on, the same with one's own models, and what the scores are."""

    scores: Scores
    fitted: Table
    placed: Table


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
    from holdfast.trends.selecting import fit_set

    kept = open_store(store)
    if table is not None:
        _testbed_table(kept, table, how)
        return
    ys, xs = _needed(y, "--y"), _needed(x, "--x")
    tables = _tables(kept, benchmark, [*ys, *xs, *([beyond] if beyond else [])])
    tables = _cut(tables, facts, cut or (), xs)
    known = {fact for facts in tables.placed.facts.values() for fact, value in facts.items() if value}
    if by and by not in known:
        raise unknown("fact of these models", by, known, otherwise="give facts of your own with --facts FILE")
    names = views.settings_matching(tables.fitted.settings, ys)
    _check_shares(tables, [*(names if len(names) == 1 or matrix else ()), *xs])
    apart = [*(leave_out or ()), *(held_out or ())]
    chosen = fit_set(tables.fitted, fit or (), apart, benchmark=benchmark)
    for note in chosen.notes:
        warn(note)
    if matrix is not None:
        from holdfast.cli.matrix_views import MatrixRequest, show_matrix

        show_matrix(MatrixRequest(tables.fitted, xs, names, matrix, space or "linear", chosen, threshold or ()), how)
        return
    if threshold:
        raise Misuse("--threshold goes with --matrix r2", hint='one line takes a cut: --fit "a+b>=110%"')
    policy, scale = zero_policy(zero), space or "logit"
    chooses = (fit or (), leave_out or (), held_out or ())
    several = multi_id_views.SeveralInputs(names, xs, scale, policy, by or "", *chooses, benchmark)
    if len(names) > 1 and len(xs) > 1:
        _check_shares(tables, names)
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


def _testbed_table(store: Store, number: int, how: Output) -> None:
    from holdfast.boards.benchmark_tables import benchmark_scores
    from holdfast.cli.matrix_views import show_testbed_table

    if number not in (1, 2):
        raise Misuse(f"--table is 1 or 2, got {number}")
    scores = benchmark_scores(TESTBED, store, needs=["val"])
    if "val" not in scores.table.settings:
        raise Misuse(
            "the tables of the ImageNet testbed are made from its public results, which are not in this store",
            hint=f"`holdfast import {TESTBED} FOLDER` brings them; `holdfast board {TESTBED}` shows what is printed",
        )
    show_testbed_table(scores.table, number, how)


def _needed(texts: list[str] | None, option: str) -> list[str]:
    if not texts:
        raise Misuse(f"`holdfast trend` needs {option}", hint="such as --y imagenetv2 --x val, or --table 1")
    return texts


def _tables(store: Store, benchmark: str, needs: Sequence[str]) -> Tables:
    from holdfast.boards.benchmark_tables import benchmark_scores, joined_tables, own_models
    from holdfast.trends.testbed import AVERAGE_CORRUPTION, AVERAGE_PGD, PGD, RENDERED, with_averages

    derived = (AVERAGE_CORRUPTION, AVERAGE_PGD)
    plain = [name for name in needs if name not in derived and not any(sign in name for sign in "*?[")]
    scores = benchmark_scores(benchmark, store, needs=plain)
    table = scores.table
    if benchmark == TESTBED and {*PGD, *RENDERED} <= set(table.settings):
        table = with_averages(table)
    return Tables(scores, table, joined_tables(table, own_models(benchmark, store)))


def _cut(tables: Tables, facts: str | None, cuts: Sequence[str], xs: Sequence[str]) -> Tables:
    """The tables with facts of one's own, without the models that fail a cut."""
    from dataclasses import replace

    from holdfast.store.model_facts import facts_in
    from holdfast.trends.selecting import selector

    fitted, placed = tables.fitted, tables.placed
    if facts is not None:
        more = facts_in(facts)
        if not set(more) & set(placed.models):
            raise Misuse(f"{facts} names none of the models", hint=f"such as `{next(iter(placed.models), '')}`")
        merged = {model: {**placed.facts.get(model, {}), **more.get(model, {})} for model in placed.models}
        fitted, placed = replace(fitted, facts=merged), replace(placed, facts=merged)
    for text in cuts:
        made = selector(fitted, text)
        if made.kind != "cut":
            raise Misuse(f"`{text}` is no cut", hint=f'write a setting and a bound: --cut "{xs[0]}>=5%"')
        fitted, placed = fitted.where(made.holds), placed.where(selector(placed, text).holds)
        if not fitted.models:
            raise Misuse(f"no model passes the cut `{text}`")
    return tables._replace(fitted=fitted, placed=placed)


def _check_shares(tables: Tables, settings: Sequence[str]) -> None:
    for setting in settings:
        if setting not in tables.placed.settings:
            raise unknown("setting", setting, tables.placed.settings)
        unit = tables.scores.unit(setting)
        if unit not in ("percent", "fraction"):
            raise Misuse(f"`{setting}` is no share but in {unit}", hint="a trend relates accuracies")


def zero_policy(zero: str | None) -> ZeroPolicy | None:
    """What --zero says."""
    from holdfast.trends.fits import ZeroPolicy

    policies: dict[str | None, ZeroPolicy | None] = {None: None, **{each: each for each in get_args(ZeroPolicy)}}
    if zero not in policies:
        raise Misuse(f"--zero is piecewise, clip or drop, got `{zero}`")
    return policies[zero]
