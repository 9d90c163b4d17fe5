"""The accuracies of a store by model and scenario, and the lines over models that claims are judged by."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import mean

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.metrics.summary import Line, lines
from holdfast.store.rows import Rows
from holdfast.store.store import Store
from holdfast.trends.fits import correlation, explained, pearson

FEWEST = 8  # models for a line
OWN_RUN = re.compile(r"own rows, run (\w+)")
LP = ("linf", "l2", "l1")
STANDARD, CORRUPTED = "standard training", "corruptions in training"
UNSEEN_KINDS = ("stadv", "recolor", "jpeg-linf", "elastic", "ppgd", "hue-attack")


@dataclass(slots=True)
class Measured:
    """The accuracies of a store on one dataset, by model and by what was done to the images."""

    store: Store
    dataset: str = ""
    lines: dict[str, dict[str, Line]] = field(default_factory=dict)
    shipped: set[str] = field(default_factory=set)  # keys of runs of which only the score is at hand

    @property
    def models(self) -> list[str]:
        return list(self.lines)

    def score(self, model: str, scenario: str) -> Score | None:
        line = self.lines[model].get(scenario)
        return None if line is None else line.accuracy

    def threats(self, model: str) -> tuple[str, ...]:
        return next(iter(self.lines[model].values())).footer.card.threats

    def trained_on(self, model: str) -> str:
        return next(iter(self.lines[model].values())).footer.card.trained_on

    def is_adversarial(self, model: str) -> bool:
        return bool(self.threats(model))

    def group(self, model: str) -> str:
        """What a model was trained on, in a word or two."""
        threats = self.threats(model)
        if not threats:
            return CORRUPTED if " under " in self.trained_on(model) else STANDARD
        if len(threats) > 1:
            return "several threats"
        name = threats[0].partition(":")[0]
        return next((norm for norm in LP if name.startswith(("pgd", "apgd")) and name.endswith(norm)), "other threats")

    def corrupted(self, model: str, attack: str = "") -> float | None:
        """Mean accuracy over corruptions and severities, on top of it an attack where one is named; all are there."""
        shifts = self.shifts(attack)
        values = [value for shift in shifts if (value := self.under(model, shift, attack)) is not None]
        return mean(values) if shifts and len(values) == len(shifts) else None

    def shifts(self, attack: str = "") -> set[str]:
        """The corruptions that some model was measured under, with an attack on top where one is named."""
        kinds = ("corruption", "attack") if attack else ("corruption",)
        return {line.footer.changes[0].name for line in self.of_kinds(*kinds).values()}

    def unseen(self, model: str) -> float | None:
        """Mean accuracy over the attacks that are no norm balls, where all are there."""
        every = [s for s, line in self.of_kinds("attack").items() if line.footer.changes[0].name in UNSEEN_KINDS]
        scores = [score.value for scenario in every if (score := self.score(model, scenario)) is not None]
        return mean(scores) if every and len(scores) == len(every) else None

    def seen(self) -> str | None:
        """The linf attack at 8/255 of the store."""
        attacks = self.of_kinds("attack").items()
        return next((s for s, line in attacks if line.footer.changes[0].name.endswith("linf") and "8/255" in s), None)

    def rows(self, model: str, scenario: str) -> Rows | None:
        line = self.lines[model].get(scenario)
        return None if line is None or line.footer.key in self.shipped else self.store.read(line.footer.key)

    def of_kinds(self, *kinds: str) -> dict[str, Line]:
        """One line for every scenario whose changes are of these kinds, in order."""
        found: dict[str, Line] = {}
        for by_scenario in self.lines.values():
            for scenario, line in by_scenario.items():
                if tuple(change.kind for change in line.footer.changes) == kinds:
                    found.setdefault(scenario, line)
        return found

    def clean(self, model: str) -> Score | None:
        return next((line.accuracy for line in self.lines[model].values() if not line.footer.changes), None)

    def under(self, model: str, corruption: str, attack: str = "") -> float | None:
        """Mean accuracy over the severities of a corruption, with an attack on top where one is named."""
        values = [
            line.accuracy.value
            for line in self.lines[model].values()
            if (changes := line.footer.changes)
            and changes[0].name == corruption
            and [change.text for change in changes[1:]] == ([attack] if attack else [])
        ]
        return mean(values) if values else None


def measured(store: Store, dataset: str) -> Measured:
    found = Measured(store, dataset)
    for line in lines(store):
        if line.footer.dataset == dataset:
            found.lines.setdefault(line.footer.model, {})[line.footer.scenario] = line
    return found


def add_shipped(data: Measured, scores: Iterable[Mapping[str, str]], scenarios: Mapping[str, str]) -> None:
    """Adds the scores of runs that an earlier store held to models whose rows of these the store lacks.

    `scores`: as they ship, with the run's key in the source. `scenarios`: those of the settings that are one run each.
    The store has rows of the model under something else, and of some model under the scenario: they say the rest.
    """
    known = {scenario: line.footer for lines in data.lines.values() for scenario, line in lines.items()}
    for score in scores:
        scenario, model, run = scenarios.get(score["setting"], ""), score["model"], OWN_RUN.fullmatch(score["source"])
        if run is None or scenario not in known or scenario in data.lines.get(model, {scenario: None}):
            continue
        own, n = next(iter(data.lines[model].values())).footer, int(score["n"])
        footer = replace(known[scenario], key=run[1], model=model, card=own.card)
        data.lines[model][scenario] = Line(footer, wilson(round(float(score["value"]) * n / 100), n), None, 0)
        data.shipped.add(run[1])


# lines over models


def logit(value: float) -> float:
    return math.log(value / (1 - value)) if 0 < value < 1 else math.nan


def r2(pairs: Iterable[tuple[float | None, float | None]]) -> Score | None:
    """R² of a line on logit scale over models, with Fisher's interval; None for too few of them."""
    both = [(logit(x), logit(y)) for x, y in pairs if x is not None and y is not None]
    x, y = (np.array(side, dtype=np.float64) for side in zip(*both, strict=True)) if both else (np.array([]),) * 2
    finite = np.isfinite(x) & np.isfinite(y)
    if int(finite.sum()) < FEWEST:
        return None
    return explained(correlation(pearson(x[finite], y[finite]), int(finite.sum())))


def slope(pairs: Iterable[tuple[float | None, float | None]]) -> float | None:
    """The slope of that line."""
    both = [(logit(x), logit(y)) for x, y in pairs if x is not None and y is not None]
    both = [pair for pair in both if all(map(math.isfinite, pair))]
    if len(both) < FEWEST:
        return None
    x, y = np.array(both).T
    return float(np.polyfit(x, y, 1)[0])


def is_ball(attack: str) -> bool:
    """Whether an attack stays inside a norm ball of pixels."""
    return attack.endswith(LP) and not attack.startswith("jpeg")


def agreement(one: Rows, other: Rows) -> float:
    """The share of the samples of both that get the same answer."""
    index = {name: i for i, name in enumerate(other.ids)}
    shared = [(i, index[name]) for i, name in enumerate(one.ids) if name in index]
    if not shared:
        raise HoldfastError("the runs have no sample in common")
    mine, theirs = np.array(shared).T
    return float(np.mean(one.predictions[mine] == other.predictions[theirs]))


def value_of(score: Score | None) -> float | None:
    return None if score is None else score.value
