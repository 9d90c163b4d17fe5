"""What a column of a board is made of besides means: metrics of rows, ratios over sweeps, distance from a line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.core.values import split
from holdfast.metrics.averages import mean_of
from holdfast.metrics.multi_attack import (
    CLEAN,
    Battery,
    Strength,
    battery,
    competitiveness,
    knowledge,
    trained_strengths,
)
from holdfast.metrics.radius_curves import accuracies_at, smallest_radii
from holdfast.metrics.resampling import percentiles, resampled_sums
from holdfast.metrics.stability import stability
from holdfast.metrics.summary import Line
from holdfast.store.files import Unusable
from holdfast.store.rows import Rows
from holdfast.store.store import Store

BEST = "acc*"
ABOVE = "effective-robustness"
OVER_RADII = "mean-over-radii"
SWEEP = "sweep"
ABSENT_BEST = f"{BEST} is not in this store: `holdfast import multirobustbench FOLDER` brings it"

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats, Floats]  # values, low, high


class Made(NamedTuple):
    """A score, or what there is of it: `have` of the `of` results it needs; `note` says what else is in the way."""

    score: Score | None
    have: int
    of: int
    source: str = "measured here"
    note: str = ""


@dataclass(slots=True)
class Runs:
    """The finished runs of one model by scenario; rows are read only for scores that look into them."""

    store: Store
    lines: dict[str, Line] = field(default_factory=dict)
    read: dict[str, Rows] = field(default_factory=dict)

    def rows(self, scenario: str) -> Rows:
        if scenario not in self.read:
            self.read[scenario] = self.store.read(self.lines[scenario].footer.key)
        return self.read[scenario]

    @property
    def threats(self) -> tuple[str, ...]:
        return next(iter(self.lines.values())).footer.card.threats


def made_of(column: Column, runs: Runs, best: Table | None, spelled: Callable[[str], str]) -> Made:
    """The score that a model's runs give a column that is not made of others, or what is there of it."""
    if column.score in RATIOS:
        return _ratio(column, runs, best, spelled)
    terms = [[spelled(text) for text in term] for term in column.scenarios]
    reference = spelled(column.reference) if column.reference else None
    wanted = [name for term in terms for name in term] + ([reference] if reference else [])
    have = sum(name in runs.lines for name in wanted)
    if not terms or have < len(wanted):
        return Made(None, have, len(wanted))
    try:
        means = [mean_of([_score(column.score, runs, name, reference) for name in term]) for term in terms]
    except Unusable:
        raise
    except HoldfastError as error:
        return Made(None, have, have, note=error.problem)
    return Made(mean_of(means), have, have)


def over_radii(rows: Rows) -> Score:
    """Accuracy under a sweep, averaged over its radii; whole samples are resampled."""
    swept = [change for change in rows.footer.changes if change.name == SWEEP]
    if not swept:
        raise HoldfastError(f"`{rows.footer.scenario}` is no sweep", hint="write it as `sweep:attack=(…),radii=[…]`")
    radii = np.array(swept[-1].args["radii"], dtype=np.float32)  # as rows hold them
    stands = (smallest_radii(rows)[:, None] > radii[None]).mean(axis=1)
    sums = resampled_sums(stands[:, None])[:, 0]
    return percentiles(float(stands.mean()), sums / len(stands), len(stands))


def above_line(column: Column, shifted: Bounds, standard: Sequence[Bounds]) -> Bounds:
    """How far shifted accuracies lie above what the column's line makes of the standard ones; NaN at 0 and 1.

    The interval is that of a difference (Newcombe 1998, method 10); the line counts as known.
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
    low = value - np.hypot(shifted[0] - shifted[1], most - line)
    return value, low, value + np.hypot(shifted[2] - shifted[0], line - least)


def ratio_of(name: str, cells: Battery, trained: Mapping[str, float]) -> Score:
    """A score over a battery of attacks by its name: a competitiveness ratio, the stability constant, what was seen."""
    return RATIOS[name](cells, trained)


def strengths_of(table: Table, model: str, attacks: Sequence[str]) -> dict[Strength, float]:
    """The accuracies of a model under settings `Attack/strength` of these attacks, and without one."""
    row = table.models.index(model)
    found: dict[Strength, float] = {}
    for j, setting in enumerate(table.settings):
        attack, _, strength = setting.partition("/")
        value = float(table.values[row, j])
        if attack in attacks and not math.isnan(value):
            found[Strength(attack, float(strength)) if strength else CLEAN] = value
    return found


def trained_as_said(facts: Mapping[str, str]) -> dict[str, float]:
    """Attacks and strengths of training, from what was published of a model."""
    return {name: float(strength) for name, strength in json.loads(facts.get("attacks_used", "{}")).items()}


def _score(name: str, runs: Runs, scenario: str, reference: str | None) -> Score:
    if not name:
        return runs.lines[scenario].accuracy
    if name == OVER_RADII:
        return over_radii(runs.rows(scenario))
    metric = registry.build(registry.bind("metric", name))
    made: Score | None = metric(runs.rows(scenario), runs.rows(reference) if reference else None)
    if made is None:
        raise HoldfastError(f"`{name}` has no value for `{scenario}`", hint="it may need a `reference`")
    return made


class _Cell(NamedTuple):
    """An entry of a battery: the scenario it is read from, as rows spell it, and its attack as we call it."""

    scenario: str
    attack: str


def _ratio(column: Column, runs: Runs, best: Table | None, spelled: Callable[[str], str]) -> Made:
    """A score over all strengths of the column's sweeps, under their published names."""
    wanted = _cells(column, spelled)
    names = {cell.attack: entry.attack for entry, cell in wanted.items()}
    own: dict[Strength, float] = {}
    for scenario in dict.fromkeys(cell.scenario for cell in wanted.values()):
        if scenario in runs.lines:
            own |= _accuracies(scenario, [entry for entry, cell in wanted.items() if cell.scenario == scenario], runs)
    have = len(own)
    try:
        trained = {names[mine]: radius for mine, radius in trained_strengths(runs.threats, names).items()}
        if column.score == "attacks-seen":
            return Made(Score(knowledge(wanted, trained).share, math.nan, math.nan, 0), have, len(wanted))
        if have < len(wanted):
            return Made(None, have, len(wanted))
        if best is None:
            return Made(None, have, have, note=ABSENT_BEST)
        known = strengths_of(best, BEST, [entry.attack or "NoAttack" for entry in wanted])
        n = min(runs.lines[cell.scenario].accuracy.n for cell in wanted.values())
        cells = battery(own, {entry: known.get(entry, math.nan) for entry in wanted}, n=n)
        score = ratio_of(column.score, cells, trained)
    except HoldfastError as error:  # of the numbers: rows were read above
        return Made(None, have, len(wanted), note=error.problem)
    return Made(score, have, have, f"measured here; {BEST}: {best.source}")


def _cells(column: Column, spelled: Callable[[str], str]) -> dict[Strength, _Cell]:
    """Every entry of a battery, from the sweeps that a column lists and the published name of each."""
    texts = [text for term in column.scenarios for text in term]
    names = [text for term in column.settings for text in term]
    if len(texts) != len(names):
        raise HoldfastError(
            f"`{column.name}` has {len(texts)} scenarios and {len(names)} settings",
            hint="name the published setting of every scenario, in their order",
        )
    found: dict[Strength, _Cell] = {}
    for text, name in zip(texts, names, strict=True):
        last = parse_ref(split(text, "+")[-1])
        if last.name != SWEEP:
            found[CLEAN] = _Cell(spelled(text), "")
            continue
        radii, attack = last.keywords["radii"], parse_ref(str(last.keywords["attack"])).name
        for radius in radii if isinstance(radii, tuple) else (radii,):
            assert isinstance(radius, int | float), "a sweep has numbers for radii"
            found[Strength(name, float(radius))] = _Cell(spelled(text), attack)
    return found


def _accuracies(scenario: str, entries: Sequence[Strength], runs: Runs) -> dict[Strength, float]:
    if CLEAN in entries:
        return {CLEAN: runs.lines[scenario].accuracy.value}
    made = accuracies_at(runs.rows(scenario), entries[0].attack, [entry.strength for entry in entries])
    return {entry: made[entry] for entry in entries}


def _seen(cells: Battery, trained: Mapping[str, float]) -> Score:
    return Score(knowledge(cells.entries, trained).share, math.nan, math.nan, 0)


RATIOS: dict[str, Callable[[Battery, Mapping[str, float]], Score]] = {
    "cr-ind-avg": lambda cells, _: competitiveness(cells).average,
    "cr-ind-worst": lambda cells, _: competitiveness(cells).individual_worst,
    "stability-constant": lambda cells, trained: stability(cells, trained).constant,
    "attacks-seen": _seen,
}
