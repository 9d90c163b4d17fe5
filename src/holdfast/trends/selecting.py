"""Which models a line is fitted on, as options write it: names, patterns, facts and cuts.

resnet50                              a model, by its name
*subsample*                           every model whose name fits, in upper or lower case
type=STANDARD, type!=STANDARD         every model with that fact, or without it
id-accuracy+id-robustness>=110%       every model whose scores under these settings sum to that much (>, <=, < likewise)
published                             as the benchmark's paper chooses
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse, did_you_mean, unknown
from holdfast.core.suites import load_suite
from holdfast.core.table import Table
from holdfast.trends.fits import LeftOut

Flags = NDArray[np.bool_]
PUBLISHED = "published"
CUT = re.compile(r"(?P<settings>.+?)\s*(?P<sign>>=|<=|≥|≤|>|<)\s*(?P<least>\d+(?:\.\d*)?|\.\d+)\s*(?P<percent>%?)")
FACT = re.compile(r"(?P<name>[^=!]+?)\s*(?P<sign>!=|=)\s*(?P<value>.*)")
SLACK = 1e-12  # a sum of two percentages is off in the last bit
SIGNS: dict[str, Callable[[NDArray[np.float64], float], Flags]] = {
    ">=": lambda total, least: total >= least - SLACK,
    "<=": lambda total, least: total <= least + SLACK,
    ">": lambda total, least: total > least + SLACK,
    "<": lambda total, least: total < least - SLACK,
}
SAME_SIGN = {"≥": ">=", "≤": "<="}


class Rule(NamedTuple):
    """What to fit on and what to leave out, as selectors."""

    fit: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()


# whose suite says how a paper chooses: patterns of a benchmark's name → the suite
CHOSEN_AS = {
    "imagenet-testbed": "imagenet-testbed",
    "oodrobustbench-*": "oodrobustbench-cifar10-linf",
    "multi-id*": "multi-id",
}


@dataclass(frozen=True, slots=True)
class Selector:
    """One selector over the models of a table: the models it holds for, and its kind."""

    text: str
    kind: str
    holds: Flags
    fact: str = ""


@dataclass(frozen=True, slots=True)
class FitSet:
    """The models to fit on, those left out with the reason, and what a reader should know of the choice."""

    models: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    rule: Rule = field(default_factory=Rule)

    def record(self) -> dict[str, object]:
        """What a program reads."""
        return {
            "fit": list(self.rule.fit),
            "leave_out": list(self.rule.leave_out),
            "models": len(self.models),
            "left_out": [left._asdict() for left in self.left_out],
            "notes": list(self.notes),
        }


def fit_set(table: Table, fit: Sequence[str] = (), leave_out: Sequence[str] = (), *, benchmark: str = "") -> FitSet:
    """The models for which `fit` holds and nothing of `leave_out` does; without `fit`, all but those left out.

    Names and patterns of `fit` add up, as do several values of one fact; different facts and cuts must all hold.
    """
    rule = _rule(fit, leave_out, benchmark)
    selected = [selector(table, text) for text in rule.fit]
    excluded = [selector(table, text) for text in rule.leave_out]
    reasons: dict[int, str] = {}
    for group in _groups(selected):
        missed = ~np.logical_or.reduce([each.holds for each in group])
        for i in np.flatnonzero(missed):
            reasons.setdefault(int(i), f"not {' or '.join(each.text for each in group)}")
    for each in excluded:
        for i in np.flatnonzero(each.holds):
            reasons.setdefault(int(i), f"left out by {each.text}")
    models = tuple(name for i, name in enumerate(table.models) if i not in reasons)
    if not models:
        raise Misuse(f"no model is left to fit on: {_asked(rule)}", hint="`--json` of a wider choice lists the models")
    left_out = tuple(LeftOut(table.models[i], reasons[i]) for i in sorted(reasons))
    return FitSet(models, left_out, _notes(table, selected, excluded), rule)


def selector(table: Table, text: str) -> Selector:
    """A selector as it is written. The name of a model counts as such, whatever signs are in it."""
    names = table.models
    if text in names:
        return Selector(text, "name", np.array([name == text for name in names], dtype=bool))
    cut = CUT.fullmatch(text.strip())
    if cut is not None:
        return Selector(text, "cut", _passes(table, cut))
    fact = FACT.fullmatch(text.strip())
    if fact is not None and (fact["name"] in _facts(table) or not any(sign in fact["name"] for sign in "*?[")):
        return Selector(text, "fact", _has_fact(table, fact), fact["name"] + fact["sign"])
    if any(sign in text for sign in "*?["):
        pattern = text.lower()
        return Selector(text, "pattern", np.array([fnmatchcase(name.lower(), pattern) for name in names], dtype=bool))
    raise Misuse(f"no model named `{text}`", hint=_meant(table, text))


def _meant(table: Table, text: str) -> str:
    """A hint for a name that no model has: a fact with this value, or a model with a similar name."""
    facts = (f"{name}={value}" for model in table.models for name, value in table.facts.get(model, {}).items())
    match = next((fact for fact in facts if fact.lower().endswith(f"={text.lower()}")), None)
    if match is not None:
        return f"did you mean the fact `{match}`?"
    near = did_you_mean(text, table.models)
    return (near or "write a name of the table.") + " A pattern is *name*, a fact type=STANDARD, a cut val>=55%"


def _rule(fit: Sequence[str], leave_out: Sequence[str], benchmark: str) -> Rule:
    if PUBLISHED not in (*fit, *leave_out):
        return Rule(tuple(fit), tuple(leave_out))
    name = next((suite for pattern, suite in CHOSEN_AS.items() if fnmatchcase(benchmark, pattern)), None)
    if name is None:
        raise Misuse(f"no published choice of models is known for `{benchmark}`", hint=f"for: {', '.join(CHOSEN_AS)}")
    suite = load_suite(name)
    more, less = ([text for text in texts if text != PUBLISHED] for texts in (fit, leave_out))
    return Rule((*suite.fit, *more), (*suite.leave_out, *less))


def _groups(selectors: Sequence[Selector]) -> list[list[Selector]]:
    """Selectors of which one must hold: all names and patterns together, each fact alone, each cut alone."""
    groups: dict[str, list[Selector]] = {}
    for each in selectors:
        key = each.text if each.kind == "cut" or each.fact.endswith("!=") else each.fact
        groups.setdefault(key if each.kind in ("cut", "fact") else "", []).append(each)
    return list(groups.values())


def _passes(table: Table, cut: re.Match[str]) -> Flags:
    settings = _settings(table, cut["settings"].strip())
    least = float(cut["least"]) / (100 if cut["percent"] else 1)
    if not cut["percent"] and least > len(settings):
        raise Misuse(
            f"`{cut.group()}` asks for {least:g} where {len(settings)} shares sum to {len(settings)} at most",
            hint=f"write {least:g}%, or a fraction",
        )
    total = np.sum([table.column(name) for name in settings], axis=0)
    return SIGNS[SAME_SIGN.get(cut["sign"], cut["sign"])](total, least)  # NaN passes no cut


def _settings(table: Table, text: str) -> list[str]:
    """The settings of a sum; a setting may have a plus in its own name."""
    if text in table.settings:
        return [text]
    parts = text.split("+")
    for end in range(len(parts) - 1, 0, -1):
        first = "+".join(parts[:end]).strip()
        if first in table.settings:
            return [first, *_settings(table, "+".join(parts[end:]).strip())]
    raise unknown("setting", text, table.settings)


def _facts(table: Table) -> set[str]:
    return {name for model in table.models for name in table.facts.get(model, {})}


def _has_fact(table: Table, fact: re.Match[str]) -> Flags:
    name, value = fact["name"], fact["value"].strip()
    known = _facts(table)
    if name not in known:
        missing = "no facts come with these scores: import them with a column for each fact, or with the types beside"
        hint = did_you_mean(name, known) or (f"there are: {', '.join(sorted(known))}" if known else missing)
        raise Misuse(f"no model has the fact `{name}`", hint=hint)
    texts = [table.fact(model, name) for model in table.models]
    holds = np.array([fnmatchcase(text.lower(), value.lower()) for text in texts], dtype=bool)
    if not holds.any() and value:
        values = {text for text in texts if text}
        hint = did_you_mean(value, values) or f"it is: {', '.join(sorted(values)[:12])}"
        raise Misuse(f"no model has {name}={value}", hint=hint)
    return np.asarray(operator.invert(holds) if fact["sign"] == "!=" else holds)


def _notes(table: Table, selected: Sequence[Selector], excluded: Sequence[Selector]) -> tuple[str, ...]:
    notes = []
    for name in dict.fromkeys(each.fact.rstrip("!=") for each in (*selected, *excluded) if each.kind == "fact"):
        without = sum(not table.fact(model, name) for model in table.models)
        if without:
            notes.append(f"{without} of {len(table.models)} models have no `{name}`: whether they belong is not known")
    notes += [f"`{each.text}` fits no model" for each in excluded if not each.holds.any()]
    return tuple(notes)


def _asked(rule: Rule) -> str:
    options = [*(f"--fit {text}" for text in rule.fit), *(f"--leave-out {text}" for text in rule.leave_out)]
    return " ".join(options) or "the table has none"
