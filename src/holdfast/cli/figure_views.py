"""What the commands of `holdfast figure` print and draw."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.boards.benchmark_tables import is_own
from holdfast.boards.over_models import rows_by_model
from holdfast.cli.output import Output, err, out
from holdfast.cli.trend_views import record_number, settings_matching
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_text import attributes
from holdfast.core.rounding import percent, shown
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.site.drawings import (
    BarRow,
    ScatterPanel,
    ScatterPoint,
    bar_drawing,
    heat_map,
    scatter_drawing,
)
from holdfast.store.store import Store
from holdfast.store.stored_names import stored_model, stored_scenarios
from holdfast.trends.agreement_line import agreement_rates
from holdfast.trends.derived_axes import (
    derived_axis,
    is_derived,
    is_reference_setting,
    reference_setting,
    with_axes,
)
from holdfast.trends.fits import Fit, ZeroPolicy, correlation, pearson
from holdfast.trends.piecewise import Piecewise, Trend, fit_trend
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.selecting import FitSet
from holdfast.trends.shared_predictions import side_by_side
from holdfast.trends.spaces import SPACES, Floats, Space, inside

ACROSS = 60  # places along a line that is drawn
PLAIN = 400  # cells of a grid that are still worth a table for people


class FigureInputs(NamedTuple):
    """The models of a board, those that lines go through, those that are shown, and the scale of lines."""

    benchmark: str
    table: Table
    shares: frozenset[str]
    chosen: FitSet
    shown: Sequence[str]
    space: str
    zero: ZeroPolicy | None

    def fitted(self, *settings: str) -> list[str]:
        """The models that a line over these settings goes through.

        Those of others where three of them have the scores, so that one's own are placed and not explained away; else
        all that were chosen.
        """
        known = np.asarray(np.isfinite(np.stack([self.table.column(name) for name in settings])).all(axis=0))
        have = {name for name, has in zip(self.table.models, known, strict=True) if has}
        every = [name for name in self.chosen.models if name in have]
        others = [name for name in every if not is_own(self.table, name)]
        return others if len(others) >= 3 else every


# models as points


def scatter_view(
    inputs: FigureInputs, x: str | None, y: Sequence[str], baseline: str | None, by: str, how: Output
) -> ET.Element:
    """A panel per y: the models, their line, and where each lies against it."""
    names = settings_named(inputs, y)
    panels, records = [], []
    for name in names:
        panel, about = _panel(inputs, x, name, baseline, by)
        panels.append(panel)
        records.append(about)
    if not how.data([each for about in records for each in _models(about)], whole=records):
        _print_panels(records, baseline, how)
    return scatter_drawing(panels)


def settings_named(inputs: FigureInputs, texts: Sequence[str]) -> list[str]:
    """Settings by name, accuracies under a shift by pattern, and derived axes as they are written."""
    settings = inputs.table.settings
    shifted = [name for name in settings if name in inputs.shares and not is_reference_setting(name)]
    matched: list[str] = []
    for text in texts:
        if text in settings or is_derived(text):
            matched.append(text)
        elif any(sign in text for sign in "*?["):
            matched += settings_matching(shifted, [text])
        else:
            raise unknown("setting", text, settings)
    return list(dict.fromkeys(matched))


def _panel(
    inputs: FigureInputs, x: str | None, y: str, baseline: str | None, by: str
) -> tuple[ScatterPanel, dict[str, object]]:
    table = inputs.table
    given = x or reference_setting(y, table.settings)
    if given not in table.settings and not is_derived(given):
        raise unknown("setting", given, table.settings)
    axes = [derived_axis(text, table.settings, baseline=baseline) for text in (given, y) if is_derived(text)]
    has_line = {given, y} <= inputs.shares
    table, behind = with_axes(table, axes, fitted_on=inputs.fitted, space=inputs.space, zero=inputs.zero)
    fitted = inputs.fitted(given, y) if has_line else []
    table = table.of(inputs.shown)
    xs, ys = table.column(given), table.column(y)
    about: dict[str, object] = {"x": given, "y": y, "space": inputs.space, "fitted": len(fitted)}
    lines: list[tuple[Floats, Floats]] = []
    columns: dict[str, Floats] = {}
    if not has_line:
        both = int((np.isfinite(xs) & np.isfinite(ys)).sum())
        r = pearson(xs, ys) if both >= 3 else math.nan
        score = correlation(r, both) if both >= 3 else Score(math.nan, math.nan, math.nan, both)
        about |= {"pearson": score.value, **attributes(score, "low", "high"), "n": both}
        about["lines"] = {text: line.record() for text, line in behind.items()}
        note = f"r {shown(r, 2)}, {both} models"
    else:
        line = fit_trend(inputs.table, y, given, space=inputs.space, models=fitted, zero=inputs.zero)
        lines, note = _drawn(line, xs), _note(line)
        about["fit"] = line.record()
        columns["effective"] = effective_robustness(line, table)
    base = None
    if baseline is not None and not is_derived(y):
        base = float(inputs.table.of([baseline]).column(y)[0])
        columns["relative"] = ys - base
    in_fit, kept = set(fitted), np.flatnonzero(np.isfinite(xs) & np.isfinite(ys)).tolist()
    points = [
        ScatterPoint(name, float(xs[i]), float(ys[i]), table.fact(name, by), name in in_fit)
        for i, name in ((i, table.models[i]) for i in kept)
    ]
    about["models"] = [
        {"y": y, "x": given, "model": each.name, "score": each.y, "reference": each.x}
        | {name: float(values[i]) for name, values in columns.items()}
        | {"was_fitted": each.is_fitted, by: each.group}
        for i, each in zip(kept, points, strict=True)
    ]
    space = inputs.space if has_line else "linear"
    return ScatterPanel(y, given, y, points, lines, note, space, base), about


def _drawn(line: Trend, xs: Floats) -> list[tuple[Floats, Floats]]:
    """The line over the range of the models shown; a piecewise one in two runs."""
    known = xs[np.isfinite(xs)]
    if not len(known):
        return []
    space = line.space
    if space.has_edges:
        known = np.clip(known, 1e-4, 1 - 1e-4)
    at = _along(known, space)
    sides = [at] if isinstance(line, Fit) else [at[at <= line.pivot], at[at > line.pivot]]
    return [(side, line.expected(side[:, None] if isinstance(line, Fit) else side)) for side in sides if len(side) > 1]


def _along(values: Floats, space: Space) -> Floats:
    """Places from the lowest value to the highest, evenly spaced on the scale."""
    first, last = space.forward(np.array([values.min(), values.max()])).tolist()
    return space.inverse(np.linspace(first, last, ACROSS))


def _note(line: Trend) -> str:
    if isinstance(line, Piecewise):
        return f"R² {shown(line.left.r2, 2)} and {shown(line.right.r2, 2)} about {percent(line.pivot)}, {line.n} models"
    if line.space.name == "linear":
        return f"R² {shown(line.r2, 2)}, {shown(line.slope, 2)}x {line.intercept * 100:+.1f}, {line.n} models"
    return f"R² {shown(line.r2, 2)}, {line.n} models"


def _models(about: Mapping[str, object]) -> list[Mapping[str, object]]:
    records = about["models"]
    assert isinstance(records, list), "made above"
    return records


def _print_panels(records: Sequence[Mapping[str, object]], baseline: str | None, how: Output) -> None:
    for about in records:
        models = _models(about)
        if not how.latex:
            out.print(f"{about['y']} on {about['x']}: {_line_words(about)}", markup=False)
        titles = {"effective": "above the line, points", "relative": f"against {baseline}, points"}
        more = [name for name in titles if models and name in models[0]]
        columns = ["model", str(about["x"]), str(about["y"]), *(titles[name] for name in more), ""]
        rows = [
            [
                str(each["model"]),
                *(percent(record_number(each, name), 1) for name in ("reference", "score")),
                *(percent(record_number(each, name), 2, signed=True) for name in more),
                "fitted on" if each["was_fitted"] else "",
            ]
            for each in sorted(models, key=lambda one: -record_number(one, more[0] if more else "score"))
        ]
        how.table(columns, rows, right=columns[1:-1])


def _line_words(about: Mapping[str, object]) -> str:
    if "pearson" in about:
        low, high = record_number(about, "low"), record_number(about, "high")
        r = shown(record_number(about, "pearson"), 2)
        return f"r {r} [{shown(low, 2)}, {shown(high, 2)}] over {about['n']} models"
    record = about["fit"]
    assert isinstance(record, dict), "made above"
    if "pivot" in record:
        left, right = record["left"], record["right"]
        return (
            f"R² {shown(left['r2'], 3)} up to {percent(record['pivot'])} % ({left['n']} models), "
            f"{shown(right['r2'], 3)} above ({right['n']} models)"
        )
    return f"R² {shown(record['r2'], 3)} over {record['n']} models"


# models x settings


def grid_view(inputs: FigureInputs, y: Sequence[str], sort: str | None, how: Output) -> ET.Element:
    """Every score of the models shown."""
    table = inputs.table.of(inputs.shown)
    names = settings_matching(table.settings, y) if y else _once(table)
    for name in (*names, *([sort] if sort else [])):
        if name not in table.settings:
            raise unknown("setting", name, table.settings)
    if sort:
        order = np.argsort(-np.where(np.isfinite(table.column(sort)), table.column(sort), -np.inf), kind="stable")
        table = table.of([table.models[i] for i in order])
    values = np.stack([table.column(name) for name in names], axis=1)
    records = [
        {"model": model, "setting": name, "score": float(values[i, j])}
        for i, model in enumerate(table.models)
        for j, name in enumerate(names)
        if math.isfinite(values[i, j])
    ]
    if not how.data(records):
        if values.size <= PLAIN or how.latex:
            how.table(["model", *names], _percent_rows(table.models, values), right=names)
        err.print(
            f"{len(table.models)} models x {len(names)} settings, {len(records):,} of {values.size:,} scores known",
            markup=False,
        )
    return heat_map(values, table.models, names, f"Scores, {inputs.benchmark}")


def _once(table: Table) -> list[str]:
    """The settings that are scores, each once: a column of a board may stand for a setting of the same numbers."""
    kept: dict[bytes, str] = {}
    for name in table.settings:
        if "effective" not in name:
            kept.setdefault(table.column(name).round(9).tobytes(), name)
    return list(kept.values())


def bars_view(inputs: FigureInputs, y: Sequence[str], how: Output) -> ET.Element:
    """The scores of each model, a block per score."""
    table = inputs.table.of(inputs.shown)
    names = list(y) or [name for name in table.settings if not is_reference_setting(name)]
    values = np.stack([table.column(name) for name in names], axis=1)
    by_model = dict(zip(table.models, values.tolist(), strict=True))
    records = [{"model": model, **dict(zip(names, scores, strict=True))} for model, scores in by_model.items()]
    how.show(records, ["model", *names], _percent_rows(table.models, values), right=names)
    rows = [
        BarRow(model, [None if math.isnan(score) else (score, math.nan, math.nan) for score in scores])
        for model, scores in by_model.items()
    ]
    return bar_drawing(rows, names, inputs.benchmark)


def _percent_rows(models: Sequence[str], values: Floats) -> list[list[str]]:
    return [
        [model, *("" if math.isnan(value) else percent(value) for value in row)]
        for model, row in zip(models, values, strict=True)
    ]


# agreement of pairs


def pairs_view(store: Store, x: str, y: str, models: Sequence[str], space: str, how: Output) -> ET.Element:
    """Agreement of every pair without a shift and under it, with the line over pairs."""
    if space not in SPACES:
        raise unknown("space", space, SPACES)
    names = stored_scenarios(store, [x, y])
    chosen = [stored_model(store, text) for text in models]
    before, after = (rows_by_model(store, names[text], chosen) for text in (x, y))
    both = [name for name in before if name in after]
    if len(both) < 3:
        raise HoldfastError(
            f"{len(both)} models were measured under both `{names[x]}` and `{names[y]}`, pairs take three models",
            hint="see `holdfast scores`",
        )
    one, other = (side_by_side({name: rows[name] for name in both}) for rows in (before, after))
    first, second = np.triu_indices(len(both), k=1)
    rates = [inside(agreement_rates(each.predictions), each.predictions.shape[1]) for each in (one, other)]
    xs, ys = (rate[first, second] for rate in rates)
    scale = SPACES[space]
    slope, intercept = np.polyfit(scale.forward(xs), scale.forward(ys), 1)
    r2 = pearson(scale.forward(xs), scale.forward(ys)) ** 2
    records = [
        {"one": both[i], "other": both[j], "without": float(a), "under": float(b)}
        for i, j, a, b in zip(first, second, xs, ys, strict=True)
    ]
    line = {"slope": float(slope), "intercept": float(intercept), "r2": float(r2), "pairs": len(xs), "space": space}
    columns = ["pair", "agree without the shift", "under it"]
    texts = [
        [f"{each['one']} and {each['other']}", *(percent(record_number(each, name)) for name in ("without", "under"))]
        for each in records
    ]
    whole = {"x": names[x], "y": names[y], "line": line, "pairs": records}
    if how.show(records, columns, texts, right=columns[1:], whole=whole):
        err.print(f"R² {shown(r2, 3)} over {len(xs)} pairs in {space} space", markup=False)
    points = [
        ScatterPoint(f"{each['one']}, {each['other']}", float(a), float(b), "", True)
        for each, a, b in zip(records, xs, ys, strict=True)
    ]
    at = _along(xs, scale)
    drawn = [(at, scale.inverse(slope * scale.forward(at) + intercept))]
    title = f"R² {shown(r2, 2)}, {len(xs)} pairs of {len(both)} models"
    return scatter_drawing([ScatterPanel("agreement of pairs", names[x], names[y], points, drawn, title, space)])


# the models of a fit


def models_view(inputs: FigureInputs, how: Output) -> None:
    """The models that a line goes through, with what is known of each."""
    chosen = inputs.chosen
    facts = list(dict.fromkeys(name for model in chosen.models for name in inputs.table.facts.get(model, {})))
    records: list[dict[str, object]] = [
        {"model": model, **{name: inputs.table.fact(model, name) for name in facts}} for model in chosen.models
    ]
    rule = [*(f"--fit {text}" for text in chosen.rule.fit), *(f"--leave-out {text}" for text in chosen.rule.leave_out)]
    if how.show(records, ["model", *facts], [[str(value) for value in each.values()] for each in records]):
        err.print(f"{len(records)} of {len(inputs.table.models)} models: {' '.join(rule) or 'all'}", markup=False)
