"""What `holdfast trend` shows: a line with the models against it, or many lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple, get_args

import numpy as np

from holdfast.boards.benchmark_tables import benchmark_scores, joined_tables, own_models
from holdfast.cli.multi_id_views import SeveralInputs, add_several
from holdfast.cli.output import Output, err, out, warn
from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.json_text import attributes
from holdfast.core.rounding import percent, shown
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.scopes import written
from holdfast.store import Store
from holdfast.store.model_facts import facts_in
from holdfast.store.scores import Scores
from holdfast.trends.bands import conversion_rate_score, effective_robustness_scores, upper_limit_score
from holdfast.trends.column_fits import column_bands, fit_columns
from holdfast.trends.fits import Fit, ZeroPolicy, cautions, fit
from holdfast.trends.piecewise import Piecewise, Trend, fit_trend
from holdfast.trends.placing import Placement, mean_absolute_error, placements
from holdfast.trends.robustness import by_group, effective_robustness, printed_line, relative_robustness, same_ranking
from holdfast.trends.selecting import FitSet, selector
from holdfast.trends.testbed import AVERAGE_CORRUPTION, AVERAGE_PGD, PGD, RENDERED, with_averages

SHARES = ("percent", "fraction")
TESTBED = "imagenet-testbed"


@dataclass(frozen=True, slots=True)
class TrendRequest:
    """The line that was asked for, the models it goes through and those to show, and what to say beside it."""

    y: str
    x: Sequence[str]
    space: str
    zero: ZeroPolicy | None
    chosen: FitSet
    benchmark: str
    models: Sequence[str] = ()
    by: str | None = None
    baseline: str | None = None
    beyond: str | None = None


def settings_matching(settings: Sequence[str], names: Sequence[str]) -> list[str]:
    """The settings that names and patterns stand for, in order; an unknown name is kept, for its error."""
    matches: list[str] = []
    for text in names:
        if text in settings or not any(sign in text for sign in "*?["):
            matches.append(text)
            continue
        fitting = [name for name in settings if fnmatchcase(name, text)]
        if not fitting:
            raise unknown("setting", text, settings)
        matches += fitting
    return list(dict.fromkeys(matches))


# what lines are fitted on


class Tables(NamedTuple):
    """The table that is fitted on, the same with one's own models, and what the scores are."""

    scores: Scores
    fitted: Table
    placed: Table


def tables_of_trend(store: Store, benchmark: str, needs: Sequence[str]) -> Tables:
    """A benchmark with the averages of the testbed where it has them, and one's own models beside it."""
    derived = (AVERAGE_CORRUPTION, AVERAGE_PGD)
    plain = [name for name in needs if name not in derived and not any(sign in name for sign in "*?[")]
    scores = benchmark_scores(benchmark, store, needs=plain)
    table = scores.table
    if benchmark == TESTBED and {*PGD, *RENDERED} <= set(table.settings):
        table = with_averages(table)
    return Tables(scores, table, joined_tables(table, own_models(benchmark, store)))


def cut_tables(tables: Tables, facts: str | None, cuts: Sequence[str], xs: Sequence[str]) -> Tables:
    """The tables with facts of one's own, without the models that fail a cut."""
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


def check_shares(tables: Tables, settings: Sequence[str]) -> None:
    """An error where a setting is unknown or no accuracy."""
    for setting in settings:
        if setting not in tables.placed.settings:
            raise unknown("setting", setting, tables.placed.settings)
        unit = tables.scores.unit(setting)
        if unit not in SHARES:
            raise Misuse(f"`{setting}` is no share but in {unit}", hint="a trend relates accuracies")


def zero_policy(zero: str | None) -> ZeroPolicy | None:
    """What --zero says."""
    policies: dict[str | None, ZeroPolicy | None] = {None: None, **{each: each for each in get_args(ZeroPolicy)}}
    if zero not in policies:
        raise Misuse(f"--zero is piecewise, clip or drop, got `{zero}`")
    return policies[zero]


# one line


def show_line(
    fitted: Table, placed: Table, request: TrendRequest, how: Output, *, several: SeveralInputs | None = None
) -> None:
    """One line or plane, and every model against it; `several`: also beside fits on each input alone."""
    line = _line(fitted, request)
    rows = sorted(placements(line, placed, models=request.models or None), key=lambda each: -each.beyond)
    if request.beyond is not None:  # a line given back from print has no scatter of models about it
        none = (math.nan, math.nan)
        known = [Score(each.expected.value, *none, each.expected.n) for each in rows]
        rows = [each._replace(expected=one, is_unusual=False) for each, one in zip(rows, known, strict=True)]
    more = _more(line, fitted, placed, rows, request)
    if several is not None:
        add_several(more, several, fitted, placed)
    if (how.csv or how.latex) and not how.json:
        for text in line.cautions:
            warn(text)
    records = [_record(each, more) for each in rows]
    about = {"benchmark": request.benchmark, "fit": line.record(), "selection": request.chosen.record()}
    if how.data(records, whole={**about, **more.record, "models": records}):
        return
    if not how.latex:
        for text in (*_line_texts(line), *line.cautions, *more.texts):
            out.print(text, markup=False)
        out.print("")
    columns = ["model", request.y, "expected", "above the line, points", *more.columns, ""]
    how.table(columns, [_placed_row(each, more) for each in rows], right=columns[1:-1])
    err.print(f"{len(rows)} models placed, {line.n} fitted on", markup=False)


class LineExtras(NamedTuple):
    """What is said beside a line: texts, what programs read, and intervals and columns by model."""

    texts: list[str]
    record: dict[str, object]
    beyond: Mapping[str, Score]
    relative: Mapping[str, float]
    columns: list[str]


def _line(table: Table, request: TrendRequest) -> Trend:
    models = request.chosen.models
    if request.beyond is None:
        return fit_trend(table, request.y, request.x, space=request.space, models=models, zero=request.zero)
    if len(request.x) != 1:
        raise Misuse("--beyond gives back a line on one --x")
    for setting in (request.y, request.x[0], request.beyond):
        table.column(setting)  # says which names are near
    return printed_line(table.of(models), y=request.y, x=request.x[0], beyond=request.beyond)


def _more(line: Trend, fitted: Table, placed: Table, rows: Sequence[Placement], request: TrendRequest) -> LineExtras:
    relative: Mapping[str, float] = {}
    if request.baseline:
        relative = relative_robustness(placed, request.y, {each.model: request.baseline for each in rows})
    made = LineExtras([], {}, _intervals(line, placed, rows, request), relative, [])
    if isinstance(line, Fit) and line.space.name == "linear" and len(line.x) == 1:
        limit, rate = upper_limit_score(line), conversion_rate_score(line)
        if request.beyond is not None:
            limit, rate = (Score(score.value, math.nan, math.nan, score.n) for score in (limit, rate))
        for name, score in (("upper_limit", limit), ("conversion_rate", rate)):
            made.record[name] = attributes(score, "value", "low", "high", "n")
        made.texts.append(
            f"upper limit (the line at 100 %) {written(limit, 'percent')}, conversion rate {written(rate, 'number')}"
        )
    others = [each for each in rows if not each.was_fitted]
    error = mean_absolute_error(others)
    made.record["not_fitted"] = {"models": len(others), "mae": error}
    if others:
        made.texts.append(f"{len(others)} models not fitted on lie {percent(error, 2)} points from it on average")
    if len(request.x) > 1 and isinstance(line, Fit):
        _add_rankings(made, line, fitted, placed, request)
    if request.by:
        _add_groups(made, line, placed, request.by)
    if request.baseline:
        made.columns.append(f"against {request.baseline}, points")
    return made


def _intervals(line: Trend, placed: Table, rows: Sequence[Placement], request: TrendRequest) -> dict[str, Score]:
    """Effective robustness with its interval, where one line over models makes it."""
    if not isinstance(line, Fit) or request.beyond is not None:
        return {}
    made = effective_robustness_scores(line, placed.of([each.model for each in rows]))
    return {model: score for model, score in made.items() if np.isfinite(score.low) and np.isfinite(score.high)}


def _add_rankings(made: LineExtras, line: Fit, fitted: Table, placed: Table, request: TrendRequest) -> None:
    """Kendall's τ of effective robustness in the plane with that on each input alone."""
    whole = effective_robustness(line, placed)
    matches: dict[str, float | None] = {}
    for name in request.x:
        try:
            alone = fit(fitted, request.y, name, space=line.space, models=line.points.models)
            matches[name] = same_ranking(whole, effective_robustness(alone, placed))
        except HoldfastError:  # a score of 0 or 1 that the plane's policy dealt with
            matches[name] = None
    made.record["same_ranking"] = matches
    texts = ", ".join(f"{name} {shown(value, 2)}" for name, value in matches.items() if value is not None)
    if texts:
        made.texts.append(f"Kendall's τ with effective robustness on one input alone: {texts}")


def _add_groups(made: LineExtras, line: Trend, placed: Table, fact: str) -> None:
    groups = by_group(effective_robustness(line, placed), [placed.fact(model, fact) or "?" for model in placed.models])
    made.record["groups"] = [group._asdict() for group in groups]
    made.texts.extend(
        f"{fact} {group.name}: {percent(group.mean, 2, signed=True)} ± {percent(group.deviation, 2)} points, "
        f"{group.n} models"
        for group in groups
    )


def _record(each: Placement, more: LineExtras) -> dict[str, object]:
    score = more.beyond.get(each.model)
    bounds = {"beyond_low": None if score is None else score.low, "beyond_high": None if score is None else score.high}
    relative = {"relative": more.relative[each.model]} if each.model in more.relative else {}
    return each.record() | bounds | relative


def _line_texts(line: Trend) -> list[str]:
    sides = (
        [("up to the pivot: ", line.left), ("above it: ", line.right)] if isinstance(line, Piecewise) else [("", line)]
    )
    return [
        f"{start}{side.space.name}({side.y}) = "
        + " + ".join(
            f"{shown(weight, 4)}·{side.space.name}({name})" for weight, name in zip(side.weights, side.x, strict=True)
        )
        + f" {'+' if side.intercept >= 0 else '-'} {shown(abs(side.intercept), 4)}"
        + f"   R² {shown(side.r2, 3)}, mean error {percent(side.mae, 2)} points, {side.n} models"
        for start, side in sides
    ]


def _placed_row(each: Placement, more: LineExtras) -> list[str]:
    expected = each.expected
    note = ("unusual" if each.is_unusual else "") if not each.was_fitted else "fitted on"
    bounds = percent(expected.value)
    if not math.isnan(expected.low):
        bounds += f" [{percent(expected.low)}, {percent(expected.high)}]"
    score = more.beyond.get(each.model)
    around = "" if score is None else f" [{percent(score.low, 2, signed=True)}, {percent(score.high, 2, signed=True)}]"
    relative = [percent(more.relative[each.model], 2, signed=True)] if more.columns else []
    above = f"{percent(each.beyond, 2, signed=True)}{around}"
    return [each.model, percent(each.score), bounds, above, *relative, note]


# many lines


def show_lines(scores: Scores, table: Table, names: Sequence[str], request: TrendRequest, how: Output) -> None:
    """The line of every setting on one x: slope and intercept with bounds, R², and how many models."""
    x, space, zero, models = request.x, request.space, request.zero, request.chosen.models
    if len(x) != 1:
        raise Misuse("a table of lines takes one --x", hint="a plane is of one --y")
    if zero == "piecewise":
        raise Misuse("a piecewise fit is of one --y", hint="--zero drop or clip")
    kept = [name for name in names if scores.unit(name) in SHARES and name != x[0]]
    fits = fit_columns(table, x[0], settings=kept, space=space, models=models, zero=zero or "drop")
    bounds = column_bands(table, x[0], settings=kept, space=space, models=models, zero=zero or "drop")
    records: list[dict[str, object]] = []
    for j, name in enumerate(fits.settings):
        n, r2 = int(fits.n[j]), float(fits.r2[j])
        numbers = {
            f"{part}{end}": float(getattr(bounds if end else fits, f"{part}{end}")[j])
            for part in ("slope", "intercept")
            for end in ("", "_low", "_high")
        }
        about = {"mae": float(fits.mae[j]), "n": n, "left_out_at_0_or_1": int(fits.at_edge[j])}
        records.append({"y": name, "x": x[0], **numbers, "r2": r2, **about, "cautions": list(cautions(n, r2))})
    rows = [
        [
            str(each["y"]),
            *(_bounded(each, part) for part in ("slope", "intercept")),
            *(shown(record_number(each, "r2"), 3), str(each["n"]), "; ".join(words(each))),
        ]
        for each in records
    ]
    columns = ["y", "slope", "intercept", "R²", "models", "caution"]
    if how.show(records, columns, rows, right=columns[1:-1]):
        err.print(f"lines on {x[0]} in {space} space over {len(models)} models", markup=False)


def sources(table: Table, setting: str) -> str:
    """Where the numbers of a setting come from."""
    return "; ".join(sorted({table.source_of(model, setting) for model in table.models} - {""}))


def words(record: Mapping[str, object]) -> list[str]:
    """The cautions of a record."""
    texts = record["cautions"]
    return [str(text) for text in texts] if isinstance(texts, list) else []


def record_number(record: Mapping[str, object], name: str) -> float:
    """A number of a record; NaN where it has none."""
    value = record[name]
    return float(value) if isinstance(value, int | float) else math.nan


def with_cautions(cell: Mapping[str, object]) -> dict[str, object]:
    """A record of an R² with what to know before believing it."""
    return {**cell, "cautions": list(cautions(int(record_number(cell, "n")), record_number(cell, "r2")))}


def _bounded(record: Mapping[str, object], name: str) -> str:
    value, low, high = (shown(record_number(record, f"{name}{end}"), 3) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"
