"""Posterior agreement and attack failure rates as more of a set is changed, and as the attack grows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.suites import Suite
from holdfast.core.types import Score
from holdfast.metrics.along_ratios import (
    ADVERSARIAL_RATIOS,
    SHIFT_RATIOS,
    RatioPoint,
    over_adversarial_ratio,
    over_shift_ratio,
)
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_number
from holdfast.site.plots.points import SWEEP, BoardPoints
from holdfast.store.footer import Footer
from holdfast.store.store import Store

RESAMPLES = 200
MOST = 600_000  # samples x ratios: about 15 s on one core


class ChangedRun(NamedTuple):
    """A run and the one that it is compared with."""

    reference: Footer
    changed: Footer

    @property
    def ratios(self) -> tuple[float, ...]:
        return ADVERSARIAL_RATIOS if self.changed.is_attacked else SHIFT_RATIOS


@board_plot(order=5)
def agreement_plot(inputs: PlotInputs) -> Plot | None:
    """Curves over ratio and radius of models measured here; None without rows that keep all logits."""
    curves, spent, left = [], 0, 0
    for change in _changes(inputs.points, inputs.suite):
        cost = change.changed.n * len(change.ratios)
        if spent + cost > MOST:
            left += 1
            continue
        made = _curve(_StoreKey(inputs.store), change)
        if made is not None:
            curves.append(made)
            spent += cost
    if not curves:
        return None
    return Plot(
        "agreement",
        "agreement",
        "Posterior agreement and attack failure",
        "Posterior agreement (PA, in nats, at most ln of the number of classes) says how much the answers before and "
        "after a change have in common, confidence included. AFR_T is accuracy on the changed set, AFR_P the share of "
        "predictions that stay. Over a ratio, the samples with the smallest perturbation are changed first.",
        {"curves": curves, "left": left},
    )


class _StoreKey:
    """A store as a key of the cache: stores at one place hold the same rows under the same keys."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __hash__(self) -> int:
        return hash(self.store.url)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StoreKey) and self.store.url == other.store.url


def _changes(points: BoardPoints, suite: Suite) -> Iterator[ChangedRun]:
    """What the suite compares; where it says nothing, attacks alone with the set they were made from."""
    own: dict[str, dict[str, Footer]] = {}
    for line in points.lines:
        own.setdefault(line.footer.scenario, {})[line.footer.model] = line.footer
    asked = [
        (text, column.reference)
        for column in suite.board
        if column.reference
        for term in column.scenarios
        for text in term
    ]
    asked = asked or [(name, points.home) for name, runs in own.items() if _is_attack(runs, points.home)]
    for scenario, reference in dict.fromkeys(asked):
        for model, changed in own.get(scenario, {}).items():
            before = own.get(reference, {}).get(model)
            if before is not None and scenario != reference:
                yield ChangedRun(before, changed)


def _is_attack(runs: dict[str, Footer], home: str) -> bool:
    footer = next(iter(runs.values()))
    kinds = [(change.kind, change.name == SWEEP) for change in footer.changes]
    return footer.dataset == home and kinds == [("attack", False)]


@lru_cache(maxsize=512)
def _points(rows: _StoreKey, reference: str, changed: str, is_attack: bool) -> tuple[RatioPoint, ...] | None:
    before, after = rows.store.read(reference), rows.store.read(changed)
    along = over_adversarial_ratio if is_attack else over_shift_ratio
    try:
        return tuple(along(before, after, resamples=RESAMPLES))
    except HoldfastError:
        return None  # other samples, no sizes, or not all logits: nothing to draw


def _curve(rows: _StoreKey, change: ChangedRun) -> dict[str, object] | None:
    made = _points(rows, change.reference.key, change.changed.key, change.changed.is_attacked)
    if made is None:
        return None
    footer = change.changed
    record: dict[str, object] = {
        "model": footer.model,
        "scenario": footer.scenario,
        "over": "adversarial ratio" if footer.is_attacked else "shift ratio",
        "n": footer.n,
        "most": json_number(math.log(footer.card.classes)),
        "ratios": [point.ratio for point in made],
        "agreement": [_bounds(point.agreement.score) for point in made],
        "afr_t": [_bounds(point.afr_t) for point in made],
        "afr_p": [_bounds(point.afr_p) for point in made],
    }
    radius = footer.changes[-1].args.get("radius") if footer.changes else None
    if footer.is_attacked and isinstance(radius, int | float):
        record |= {"attack": footer.changes[-1].name, "radius": json_number(float(radius), 8)}
    return record


def _bounds(score: Score) -> list[float | None]:
    return [json_number(score.value), json_number(score.low), json_number(score.high)]
