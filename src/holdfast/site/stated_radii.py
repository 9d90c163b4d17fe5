"""The radii that reports use: the one a model was trained for, else the one that suites state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.suites import Suite, load_suite, suites
from holdfast.core.types import ModelCard
from holdfast.core.values import split
from holdfast.metrics.multi_attack import NORMS, threat_of
from holdfast.site.conditions import SWEEP
from holdfast.store.footer import ChangeRecord

ANY_DATASET = "quick"  # the suite that is meant for any dataset
SAME = 0.015  # radii this close are one: 0.031 is 8/255 as some write it
UNION = "worst-of"


class Trained(NamedTuple):
    """A threat of training, the largest radius on the card, None where it states none, and the attack it names."""

    threat: str
    radius: float | None
    attack: str


class Standard(NamedTuple):
    """The radius that a suite states for a threat; `is_main` where that is the first attack of the suite."""

    threat: str
    radius: float
    suite: str
    is_main: bool


def threat_of_change(change: ChangeRecord) -> str:
    """What the attack may change: `linf`, `l2`, or the attack's own name; of a union, what all its attacks share."""
    if change.name != UNION:
        return threat_of(change.name)
    parts = change.args.get("attacks") or ()
    names = {threat_of(_name(str(part))) for part in parts} if isinstance(parts, list | tuple) else set()
    return names.pop() if len(names) == 1 else UNION


def trained_radii(card: ModelCard) -> list[Trained]:
    """The threats of training by the refs on a card, the largest radius of each; a text that is no ref is left out."""
    by_threat: dict[str, Trained] = {}
    for text in card.threats:
        try:
            parsed = parse_ref(text)
        except HoldfastError:
            continue
        given = parsed.keywords.get("radius", parsed.positional[0] if parsed.positional else None)
        is_number = isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < math.inf
        radius = float(given) if is_number else None  # type: ignore[arg-type]
        one = Trained(threat_of(parsed.name), radius, parsed.name)
        known = by_threat.get(one.threat)
        if known is None or (known.radius or 0.0) < (radius or 0.0):
            by_threat[one.threat] = one
    return list(by_threat.values())


@cache
def standard_radii(dataset: str) -> tuple[Standard, ...]:
    """What suites state for a dataset, linf first: those made for it, then the suite for any dataset."""
    radii: list[Standard] = []
    for name in [*(name for name in suites() if name != ANY_DATASET), ANY_DATASET]:
        try:
            suite = load_suite(name, dataset=dataset if name == ANY_DATASET else None)
        except HoldfastError:
            continue
        if suite.dataset in (dataset, dataset.partition(":")[0]):
            stated = _stated(suite)
            radii += [Standard(threat, radius, name, not i) for i, (threat, radius) in enumerate(stated.items())]
    radii.sort(key=lambda one: (rank(one.threat), one.suite == ANY_DATASET, not one.is_main))
    return tuple(radii)


def is_same(one: float, other: float | None) -> bool:
    """Whether two radii are one, however they were written."""
    return other is not None and math.isclose(one, other, rel_tol=SAME)


def _stated(suite: Suite) -> dict[str, float]:
    """By threat, the radius of the first column (else of the suite) that attacks the plain dataset at one alone."""
    columns = [tuple(text for term in column.scenarios for text in term) for column in suite.board if not column.detail]
    by_threat: dict[str, float] = {}
    for scenarios in columns or [suite.scenarios]:
        for threat, radii in _radii(scenarios, suite.dataset).items():
            if len(radii) == 1:
                by_threat.setdefault(threat, *radii)
    return by_threat


def _radii(scenarios: Sequence[str], dataset: str) -> dict[str, set[float]]:
    """By threat, the radii of the attacks on the plain dataset; a sweep states none."""
    met: dict[str, set[float]] = {}
    for text in scenarios:
        first, *changes = split(text, "+")
        if first == dataset and len(changes) == 1:
            change = parse_ref(changes[0])
            radius = change.keywords.get("radius")
            if change.name != SWEEP and isinstance(radius, int | float) and not isinstance(radius, bool):
                met.setdefault(threat_of(change.name), set()).add(float(radius))
    return met


def rank(threat: str) -> tuple[int, str]:
    """The order of threats in a list: linf, l2, l1, then the others by name."""
    order = ("linf", "l2", "l1")
    assert set(order) == set(NORMS), "every norm is in the order"
    return (order.index(threat), "") if threat in order else (len(order), threat)


def _name(text: str) -> str:
    try:
        return parse_ref(text).name
    except HoldfastError:
        return text
