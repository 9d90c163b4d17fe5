"""What a column of a board is made of besides means: metrics of rows, ratios over sweeps, distance from a line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.core.values import split
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.averages import mean_of
from holdfast.metrics.mean_over_radii import SWEEP, over_radii, radii_survived
from holdfast.metrics.means import SampledValues, correlation_of_means, mean_over
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
from holdfast.store.files import Unusable
from holdfast.store.rows import Rows
from holdfast.store.store import Store

BEST = "acc*"
ABOVE = "effective-robustness"
OVER_RADII = "mean-over-radii"
STAYS = "prediction-agreement"
LOWEST = "lowest"
ABSENT_BEST = f"{BEST} is not in this store: `holdfast import multirobustbench FOLDER` brings it"

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats, Floats]  # values, low, high
Samples = Callable[[], list[SampledValues]]


class _Ratios(Iterable[str], Container[object]):
    """The names of the scores over a battery of attacks; a name may come with arguments: `uar:attack=StAdvAttack`."""

    def __iter__(self) -> Iterator[str]:
        return iter(("cr-ind-avg", "cr-ind-worst", "stability-constant", "attacks-seen", *MORE_RATIOS))

    def __contains__(self, score: object) -> bool:
        return isinstance(score, str) and bool(score) and parse_ref(score).name in set(self)


MORE_RATIOS = ("cr-exp", "cr-max", "single-cr", "cr-in", "cr-out", "uar")
RATIOS = _Ratios()


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
    if column.score in RATIOS:
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
    """How far shifted accuracies lie above what the column's line makes of the standard ones; NaN at 0 and 1.

    The interval is that of a difference (Newcombe 1998, method 10) of two shares that vary together by `correlation`;
    the line counts as known.
    """

    def expected(part: int) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            made = np.full_like(shifted[0], column.intercept)
            for weight, bounds in zip(column.weights, standard, strict=True):
                share = bounds[part if weight >= 0 or not part else 3 - part]
                made = made + weight * np.log(share / (1 - share))
        return np.asarray(1 / (1 + np.exp(-made)))

    line, least, most = (expected(part) for part in range(3))
    known = np.logical_and.reduce([(bounds[0] > 0) & (bounds[0] < 1) for bounds in (shifted, *standard)])
    value = np.where(known, shifted[0] - line, np.nan)
    together = correlation * np.sign(sum(column.weights))
    low = value - _apart(shifted[0] - shifted[1], most - line, together)
    return value, low, value + _apart(shifted[2] - shifted[0], line - least, together)


def _apart(one: Floats, other: Floats, correlation: float | Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(one * one - 2 * correlation * one * other + other * other, 0.0)))


def ratio_of(name: str, cells: Battery, trained: Mapping[str, float]) -> Score:
    """A score over a battery of attacks by its name: a competitiveness ratio, the stability constant, what was seen."""
    metric = metric_of(name)
    assert isinstance(metric, OfBattery), f"`{name}` is no score over attacks"
    return metric.of_battery(cells, trained)


def strengths_of(table: Table, model: str, attacks: Sequence[str]) -> dict[Strength, float]:
    """The accuracies of a model under settings `Attack/strength` of these attacks, and without one."""
    row = table.models.index(model)
    accuracies: dict[Strength, float] = {}
    for j, setting in enumerate(table.settings):
        attack, _, strength = setting.partition("/")
        value = float(table.values[row, j])
        if attack in attacks and not math.isnan(value):
            accuracies[Strength(attack, float(strength)) if strength else CLEAN] = value
    return accuracies


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
    return ColumnScore(score, have, have, f"measured here; {BEST}: {best.source}")


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
    STAYS: lambda rows, before: _stays(rows, before),
}
