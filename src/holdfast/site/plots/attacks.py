"""Many attacks at many strengths: what a reader needs to choose the attack set, and to compare models under it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.boards.column_scores import BEST, best_known, published_training, strengths_of
from holdfast.boards.entries import Board, BoardEntry
from holdfast.boards.suite_board import tables_of
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.suites import Suite
from holdfast.core.table import Table
from holdfast.metrics.multi_attack import CLEAN, Strength, trained_strengths
from holdfast.metrics.radius_curves import accuracies_at
from holdfast.metrics.stability import NEAR
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_number, json_numbers
from holdfast.site.plots.points import SWEEP, BoardPoints
from holdfast.store import Footer, Store

RATIO = "cr-ind-avg"
OFFICIAL = (RATIO, "cr-ind-worst", "stability-constant")
EXACT = 9  # a stability constant divides by gaps of a few millionths


class AttackStrengths(NamedTuple):
    """An attack and its strengths, weakest first."""

    name: str
    strengths: tuple[float, ...]


class SweepRun(NamedTuple):
    """A sweep measured here, under the name that published results have for its attack."""

    name: str
    footer: Footer

    @property
    def radii(self) -> tuple[float, ...]:
        return tuple(sorted(float(radius) for radius in self.footer.changes[-1].args["radii"]))


@dataclass(frozen=True, slots=True)
class AttackedModel:
    """Accuracies of a model, and the attacks of its training with their largest strength."""

    name: str
    origin: str
    cells: Mapping[Strength, float]
    trained: Mapping[str, float]


@board_plot(order=1)
def attacks_plot(inputs: PlotInputs) -> Plot | None:
    """Choose K, and see the ratios again; None for a suite that has no competitiveness ratio."""
    suite, shown, points, store = inputs
    columns = [column for column in shown.columns if column.score == RATIO]
    if not columns:
        return None
    ranked = {name for column in columns for term in column.settings for name in term}
    tables = [scores.table for name in tables_of(suite) for scores in store.scores(name)]
    whole = [table for table in tables if BEST in table.models]  # with the best known accuracies
    table, known = max(whole, key=lambda each: len(each.models), default=None), best_known(suite, store)
    best = {} if known is None else _cells(known, BEST)
    sweeps = list(_sweeps(points, suite))
    chosen = _attacks(best, sweeps)
    listed = [
        AttackedModel(name, "imported", _cells(table, name), published_training(table.facts.get(name, {})))
        for name in (table.models if table is not None else ())
        if name != BEST and table is not None
    ]
    models = _once(shown, [*_measured(points, sweeps, store), *listed])
    data: dict[str, object] = {
        "near": NEAR,
        "missing": _missing(shown, bool(best), models),
        "clean": json_number(best.get(CLEAN, math.nan), EXACT),
        "attacks": [
            {
                "name": each.name,
                "ranked": each.name in ranked,
                "strengths": json_numbers(each.strengths, EXACT),
                "best": _along(each, best),
            }
            for each in chosen
        ],
        "models": [_record(model, chosen, _entry(shown, model)) for model in models],
    }
    return Plot(
        "attacks",
        "attacks",
        "Choose the attack set",
        "The competitiveness ratio (CR) compares a model with models trained on each attack alone, on average and in "
        "the worst case; the stability constant (SC) says how steeply accuracy falls between attacks of like strength. "
        "Both are made again for the attacks you choose; the official rank does not change.",
        data,
    )


def _once(shown: Board, models: Sequence[AttackedModel]) -> list[AttackedModel]:
    """Every model once, under its name on the board: as it was measured here where that is whole, else as listed."""
    models_by_name: dict[str, AttackedModel] = {}
    for model in models:
        entry = _entry(shown, model)
        name = model.name if entry is None else entry.model
        known = models_by_name.get(name)
        if known is None or len(model.cells) > len(known.cells):
            models_by_name[name] = replace(model, name=name)
    return list(models_by_name.values())


def _attacks(best: Mapping[Strength, float], sweeps: Sequence[SweepRun]) -> list[AttackStrengths]:
    """The attacks that have a best accuracy, then those that were swept here alone."""
    strengths_of_attack: dict[str, set[float]] = {}
    for entry in best:
        if entry != CLEAN:
            strengths_of_attack.setdefault(entry.attack, set()).add(entry.strength)
    for each in sweeps:
        strengths_of_attack.setdefault(each.name, set(each.radii))
    return [AttackStrengths(name, tuple(sorted(strengths))) for name, strengths in strengths_of_attack.items()]


def _sweeps(points: BoardPoints, suite: Suite) -> Iterator[SweepRun]:
    names = {
        scenario: setting
        for part in suite.parts
        for scenario, setting in zip(part.scenarios, part.settings, strict=False)
    }
    for line in points.lines:
        changes = line.footer.changes
        if line.footer.scenario in names and changes and changes[-1].name == SWEEP:
            yield SweepRun(names[line.footer.scenario], line.footer)


def _measured(points: BoardPoints, sweeps: Sequence[SweepRun], store: Store) -> list[AttackedModel]:
    """Models measured here: one sweep answers every strength of its grid."""
    clean = {line.footer.model: line.accuracy.value for line in points.lines if line.footer.scenario == points.home}
    cells: dict[str, dict[Strength, float]] = {}
    trained: dict[str, dict[str, float]] = {}
    for each in sweeps:
        model = each.footer.model
        own = cells.setdefault(model, {CLEAN: clean[model]} if model in clean else {})
        accuracies = accuracies_at(store.read(each.footer.key), each.name, each.radii)
        own |= {entry: accuracy for entry, accuracy in accuracies.items() if entry != CLEAN}
        trained.setdefault(model, {}).update(_seen(each))
    return [AttackedModel(name, "measured", own, trained[name]) for name, own in cells.items()]


def _seen(swept: SweepRun) -> dict[str, float]:
    """Up to which strength the card says that the model was trained on the attack; nothing where it does not say."""
    attack = parse_ref(str(swept.footer.changes[-1].args["attack"]).strip("()")).name
    try:
        known = trained_strengths(swept.footer.card.threats, [attack])
    except HoldfastError:
        return {}
    return {swept.name: known[attack]} if attack in known else {}


def _record(model: AttackedModel, chosen: Sequence[AttackStrengths], entry: BoardEntry | None) -> dict[str, object]:
    scores = {} if entry is None else {name: cell.score for name, cell in entry.cells.items()}
    return {
        "name": model.name,
        "origin": model.origin,
        "rank": None if entry is None else entry.rank,
        "official": [json_number(score.value, EXACT) if (score := scores.get(name)) else None for name in OFFICIAL],
        "trained": dict(model.trained),
        "clean": json_number(model.cells.get(CLEAN, math.nan), EXACT),
        "accuracies": [_along(attack, model.cells) for attack in chosen],
    }


def _entry(shown: Board, model: AttackedModel) -> BoardEntry | None:
    return next((entry for entry in shown.entries if model.name in entry.names), None)


def _cells(table: Table, model: str) -> dict[Strength, float]:
    names = [attack for attack, slash, _ in (name.partition("/") for name in table.settings) if slash]
    return strengths_of(table, model, [*names, "NoAttack"])


def _along(attack: AttackStrengths, cells: Mapping[Strength, float]) -> list[float | None]:
    return json_numbers([cells.get(Strength(attack.name, strength), math.nan) for strength in attack.strengths], EXACT)


def _missing(shown: Board, has_best: bool, models: Sequence[AttackedModel]) -> str:
    """What cannot be shown, and how to get it."""
    if not has_best:
        return f"Ratios need the accuracy of models trained on each attack: a table with a row `{BEST}`."
    there = {model.name for model in models}
    without = sum(entry.model not in there for entry in shown.entries)
    if not without:
        return ""
    return (
        f"{without} entries of the board are not here: their scores are published, and the accuracies behind them come "
        "with the benchmark's files: `holdfast import multirobustbench FOLDER`."
    )
