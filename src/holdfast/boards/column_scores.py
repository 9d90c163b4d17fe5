"""What a column of a board is made of besides means: metrics of rows, ratios over sweeps, distance from a line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.boards.line_intervals import StatedLine, interval_above
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.core.values import split
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.mean_over_radii import SWEEP, over_radii, radii_survived
from holdfast.metrics.means import SampledValues, correlation_of_means, mean_of, mean_over
from holdfast.metrics.multi_attack import (
    CLEAN,
    Battery,
    Strength,
    battery,
    knowledge,
    trained_strengths,
)
from holdfast.metrics.radius_curves import stands
from holdfast.metrics.scopes import OfBattery, OfRuns, is_over_models, metric_of
from holdfast.metrics.summary import Line
from holdfast.store import Rows, Store
from holdfast.store.files import Unusable
from holdfast.store.published import benchmarks, published
from holdfast.trends.spaces import Space, on_edge, space_of

BEST = "acc*"
ABOVE = "effective-robustness"
OVER_RADII = "mean-over-radii"
STAYS = "prediction-agreement"
LOWEST = "lowest"
ABSENT_BEST = f"{BEST} of these attacks is not known: import a table with a row `{BEST}`"

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats, Floats]  # values, low, high
Samples = Callable[[], list[SampledValues]]


RATIOS = (
    *("cr-ind-avg", "cr-ind-worst", "stability-constant", "attacks-seen"),
    *("cr-exp", "cr-max", "single-cr", "cr-in", "cr-out", "uar"),
)


def is_ratio(score: str) -> bool:
    """Whether it is a score over a battery of attacks; a name may come with arguments: `uar:attack=StAdvAttack`."""
    return bool(score) and parse_ref(score).name in RATIOS


class ColumnScore(NamedTuple):
    """A score, or what there is of it: `have` of the `of` results it needs; `note` says what else is in the way."""

    score: Score | None
    have: int
    of: int
    source: str = "measured here"
    note: str = ""


@dataclass(slots=True)
class StoredRuns:
    """The finished runs of one model by scenario; rows are read only for scores that look into them.

    `samples` are those behind the columns that are means over samples, to be read when asked for.
    """

    store: Store
    lines: dict[str, Line] = field(default_factory=dict)
    read: dict[str, Rows] = field(default_factory=dict)
    samples: dict[str, Samples] = field(default_factory=dict)

    def rows(self, scenario: str) -> Rows:
        if scenario not in self.read:
            self.read[scenario] = self.store.read(self.lines[scenario].footer.key)
        return self.read[scenario]

    def correlation(self, column: Column) -> float:
        """How the first column that a column is of varies with the second; 0 where their samples are not known."""
        known = [self.samples[name]() for name in column.of if name in self.samples]
        return correlation_of_means(*known) if len(known) == len(column.of) == 2 else 0.0

    @property
    def threats(self) -> tuple[str, ...]:
        return next(iter(self.lines.values())).footer.card.threats


def column_score(column: Column, runs: StoredRuns, best: Table | None) -> ColumnScore:
    """The score that a model's runs give a column that is not made of others, or what is there of it."""
    if is_ratio(column.score):
        return _ratio(column, runs, best)
    terms = [list(term) for term in column.scenarios]
    reference = column.reference or None
    needed = column.every_scenario + ([reference] if reference else [])
    have = sum(name in runs.lines for name in needed)
    if not terms or have < len(needed):
        return ColumnScore(None, have, len(needed))
    try:
        metric = metric_of(column.score) if column.score and column.score != OVER_RADII else None
        if isinstance(metric, OfRuns):
            return ColumnScore(metric.of_runs(runs, column.every_scenario, reference), have, have)
        if metric is not None and is_over_models(column.score, column.reference):  # made later, of all models together
            return ColumnScore(None, have, have)
        score = _mean_of_terms(column, terms, runs, reference)
    except Unusable:
        raise
    except HoldfastError as error:
        return ColumnScore(None, have, have, note=error.problem)
    return ColumnScore(score, have, have)


def mean_of_columns(column: Column, scores: Sequence[Score], runs: StoredRuns) -> Score:
    """The mean of the columns that a column is of, with an interval where the samples behind all of them are known."""
    known = [runs.samples[name] for name in column.of if name in runs.samples]
    if len(known) < len(column.of):
        return mean_of(scores)

    def samples() -> list[SampledValues]:
        parts = [each() for each in known]
        totals = [sum(cell.weight for cell in cells) for cells in parts]
        return [
            cell._replace(weight=cell.weight / total)
            for cells, total in zip(parts, totals, strict=True)
            for cell in cells
        ]

    runs.samples[column.name] = samples
    return mean_over(samples())


def _mean_of_terms(column: Column, terms: Sequence[Sequence[str]], runs: StoredRuns, reference: str | None) -> Score:
    """The mean over terms of means over scenarios; rows are read where a mean over samples is to have an interval."""
    value_of = PER_SAMPLE.get(column.score)
    if value_of is None or (reference is None and column.score == STAYS):
        return mean_of([mean_of([_score(column.score, runs, name, reference) for name in term]) for term in terms])

    def samples() -> list[SampledValues]:
        before = runs.rows(reference) if reference else None
        weighed = [(runs.rows(name), 1 / len(term)) for term in terms for name in term]
        return [SampledValues(np.asarray(rows.ids), value_of(rows, before), weight) for rows, weight in weighed]

    runs.samples[column.name] = samples
    if not column.score and len(terms) == 1 == len(terms[0]):
        return runs.lines[terms[0][0]].accuracy
    return mean_over(samples())


def above_line(
    column: Column, shifted: Bounds, standard: Sequence[Bounds], correlation: float | Floats = 0.0
) -> Bounds:
    """How far shifted accuracies lie above what the column's line makes of the standard ones.

    NaN where a standard one has no place on its scale: 0 and 1 of logit and probit. The interval is that of
    `line_intervals`, of two shares that vary together by `correlation`; the line counts as known. Over several standard
    accuracies and for lines without a scale: that of a difference (Newcombe 1998, method 10).
    """
    space = space_of(column.space)

    def expected(part: int) -> Floats:
        below = _on_line(column.weights, column.intercept, standard, part, space)
        if column.pivot is None:
            return below
        above = _on_line(column.weights_above, column.intercept_above, standard, part, space)
        return np.where(standard[0][0] <= column.pivot, below, above)

    line, least, most = (expected(part) for part in range(3))
    known = np.logical_and.reduce([np.isfinite(bounds[0]) & ~on_edge(bounds[0], space) for bounds in standard])
    value = np.where(known, shifted[0] - line, np.nan)
    together = correlation * np.sign(sum(column.weights))
    low = value - _apart(shifted[0] - shifted[1], most - line, together)
    high = value + _apart(shifted[2] - shifted[0], line - least, together)
    if len(standard) > 1 or not space.has_edges:
        return value, low, high
    for weights, intercept, chosen in (
        (column.weights, column.intercept, column.pivot is None or standard[0][0] <= column.pivot),
        (column.weights_above, column.intercept_above, column.pivot is not None and standard[0][0] > column.pivot),
    ):
        if np.any(chosen) and weights[0]:
            ends = interval_above(StatedLine(weights[0], intercept, space), shifted, standard[0], correlation)
            low, high = np.where(chosen, ends[0], low), np.where(chosen, ends[1], high)
    return value, np.minimum(low, value), np.maximum(high, value)


def _on_line(weights: Sequence[float], intercept: float, standard: Sequence[Bounds], part: int, space: Space) -> Floats:
    """What a line makes of the standard accuracies, or of those of their bounds that give its own bound."""
    with np.errstate(divide="ignore", invalid="ignore"):
        made = np.full_like(standard[0][0], intercept)
        for weight, bounds in zip(weights, standard, strict=True):
            made = made + weight * space.forward(bounds[part if weight >= 0 or not part else 3 - part])
        return np.asarray(space.inverse(made))


def _apart(one: Floats, other: Floats, correlation: float | Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(one * one - 2 * correlation * one * other + other * other, 0.0)))


def ratio_of(name: str, cells: Battery, trained: Mapping[str, float]) -> Score:
    """A score over a battery of attacks by its name: a competitiveness ratio, the stability constant, what was seen."""
    metric = metric_of(name)
    assert isinstance(metric, OfBattery), f"`{name}` is no score over attacks"
    return metric.of_battery(cells, trained)


def best_known(suite: Suite, store: Store | None) -> Table | None:
    """The best known accuracies under each attack: those of the store, else those that come with holdfast."""
    for name in dict.fromkeys((*suite.published, suite.board_name)):
        for scores in store.scores(name) if store is not None else ():
            if BEST in scores.table.models:
                return scores.table
    for name in suite.published:
        if name in benchmarks() and BEST in (table := published(name).table).models:
            return table
    return None


def strengths_of(table: Table, model: str, attacks: Sequence[str]) -> dict[Strength, float]:
    """The accuracies of a model under settings `Attack/strength` of these attacks, and without one."""
    row = table.models.index(model)
    values = table.values[row].tolist()
    strengths = _attack_strengths(table.settings, tuple(attacks))
    return {strength: values[j] for j, strength in strengths if not math.isnan(values[j])}


@lru_cache(maxsize=256)
def _attack_strengths(settings: tuple[str, ...], attacks: tuple[str, ...]) -> tuple[tuple[int, Strength], ...]:
    """The settings of these attacks by their place, and the strength of each."""
    parts = [(j, *setting.partition("/")) for j, setting in enumerate(settings)]
    return tuple(
        (j, Strength(attack, float(strength)) if strength else CLEAN)
        for j, attack, _, strength in parts
        if attack in attacks
    )


def published_training(facts: Mapping[str, str]) -> dict[str, float]:
    """Attacks and strengths of training, from what was published of a model."""
    return {name: float(strength) for name, strength in json.loads(facts.get("attacks_used", "{}")).items()}


def _stays(rows: Rows, before: Rows | None) -> Floats:
    assert before is not None, "checked by the caller"
    return np.asarray(aligned(before, rows.ids).predictions == rows.predictions, dtype=np.float64)


def _score(name: str, runs: StoredRuns, scenario: str, reference: str | None) -> Score:
    if not name:
        return runs.lines[scenario].accuracy
    if name == OVER_RADII:
        return over_radii(runs.rows(scenario))
    metric = metric_of(name)
    if not callable(metric):
        raise HoldfastError(f"`{name}` is no score of one run", hint="`holdfast show` says what it is a score of")
    made: Score | None = metric(runs.rows(scenario), runs.rows(reference) if reference else None)
    if made is None:
        raise HoldfastError(f"`{name}` has no value for `{scenario}`", hint="it may need a `reference`")
    return made


class _BatterySource(NamedTuple):
    """An entry of a battery: the scenario it is read from, as rows spell it, and its attack as we call it."""

    scenario: str
    attack: str


def _ratio(column: Column, runs: StoredRuns, best: Table | None) -> ColumnScore:
    """A score over all strengths of the column's sweeps, under their published names."""
    needed = _cells(column)
    names = {cell.attack: entry.attack for entry, cell in needed.items()}
    own: dict[Strength, SampledValues] = {}
    for scenario in dict.fromkeys(cell.scenario for cell in needed.values()):
        if scenario in runs.lines:
            own |= _outcomes(scenario, [entry for entry, cell in needed.items() if cell.scenario == scenario], runs)
    have = len(own)
    try:
        trained = {names[mine]: radius for mine, radius in trained_strengths(runs.threats, names).items()}
        if column.score == "attacks-seen":
            return ColumnScore(Score(knowledge(needed, trained).share, math.nan, math.nan, 0), have, len(needed))
        if have < len(needed):
            return ColumnScore(None, have, len(needed))
        if best is None:
            return ColumnScore(None, have, have, note=ABSENT_BEST)
        known = strengths_of(best, BEST, [entry.attack or "NoAttack" for entry in needed])
        n = min(runs.lines[cell.scenario].accuracy.n for cell in needed.values())
        accuracies = {entry: float(np.asarray(cell.values).mean()) for entry, cell in own.items()}
        cells = battery(accuracies, {entry: known.get(entry, math.nan) for entry in needed}, n=n, outcomes=own)
        score = ratio_of(column.score, cells, trained)
    except HoldfastError as error:  # of the numbers: rows were read above
        return ColumnScore(None, have, len(needed), note=error.problem)
    return ColumnScore(score, have, have, f"measured here; {BEST}: {best.source or best.source_of(BEST, 'NoAttack')}")


def _cells(column: Column) -> dict[Strength, _BatterySource]:
    """Every entry of a battery, from the sweeps that a column lists and the published name of each."""
    texts, names = column.every_scenario, column.every_setting
    if len(texts) != len(names):
        raise HoldfastError(
            f"`{column.name}` has {len(texts)} scenarios and {len(names)} settings",
            hint="name the published setting of every scenario, in their order",
        )
    sources: dict[Strength, _BatterySource] = {}
    for text, name in zip(texts, names, strict=True):
        last = parse_ref(split(text, "+")[-1])
        if last.name != SWEEP:
            sources[CLEAN] = _BatterySource(text, "")
            continue
        radii, attack = last.keywords["radii"], parse_ref(str(last.keywords["attack"])).name
        for radius in radii if isinstance(radii, tuple) else (radii,):
            assert isinstance(radius, int | float), "a sweep has numbers for radii"
            sources[Strength(name, float(radius))] = _BatterySource(text, attack)
    return sources


def _outcomes(scenario: str, entries: Sequence[Strength], runs: StoredRuns) -> dict[Strength, SampledValues]:
    """Which samples stay right without an attack, or at each strength of a sweep."""
    rows = runs.rows(scenario)
    ids = np.asarray(rows.ids)
    if CLEAN in entries:
        return {CLEAN: SampledValues(ids, rows.correct)}
    return {entry: SampledValues(ids, stands(rows, entry.strength)) for entry in entries}


PER_SAMPLE: dict[str, Callable[[Rows, Rows | None], Floats]] = {
    "": lambda rows, _: rows.correct.astype(np.float64),
    OVER_RADII: lambda rows, _: radii_survived(rows),
    STAYS: _stays,
}
