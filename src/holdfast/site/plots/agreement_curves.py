"""Posterior agreement, β, failure rates and confidence as more of a set is changed, and as the attack grows.

A curve takes seconds to compute and depends on two runs alone, whose rows never change: it is kept in the store's
folder `derived`, which may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.json_text import attributes
from holdfast.core.refs import digest
from holdfast.core.suites import Suite
from holdfast.core.types import Score
from holdfast.metrics.along_ratios import RatioPoint, over_adversarial_ratio, over_shift_ratio
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_number, json_numbers
from holdfast.site.plots.points import SWEEP, BoardPoints
from holdfast.store import Footer, Store

RESAMPLES = 200
FOLDER = "derived/agreement"
VERSION = 1  # of what a kept curve holds


class ChangedRun(NamedTuple):
    """A run and the one that it is compared with."""

    reference: Footer
    changed: Footer


@board_plot(order=5)
def agreement_plot(inputs: PlotInputs) -> Plot | None:
    """Curves over ratio and radius of models measured here; None without rows that keep all logits."""
    made = [
        _curve(_StoreKey(inputs.store.url, inputs.store), change) for change in _changes(inputs.points, inputs.suite)
    ]
    curves = [curve for curve in made if curve is not None]
    if not curves:
        return None
    return Plot(
        "agreement",
        "agreement",
        "Posterior agreement and attack failure",
        "Posterior agreement (PA, in nats, at most ln of the number of classes) says how much the answers before and "
        "after a change have in common, confidence included. AFR_T is accuracy on the changed set, AFR_P the share of "
        "predictions that stay. β is the inverse temperature at which PA is taken: small where the model is sure of "
        "answers that do not last. Confidence is that in right answers before the change, and in the wrong ones after "
        "it. Over a ratio, the samples with the smallest perturbation are changed first.",
        {"curves": curves},
    )


@dataclass(frozen=True, slots=True)
class _StoreKey:
    """A store as a key of the cache: stores at one place hold the same rows under the same keys."""

    url: str
    store: Store = field(compare=False)


def _changes(points: BoardPoints, suite: Suite) -> Iterator[ChangedRun]:
    """What the suite compares; where it says nothing, attacks alone with the set they were made from."""
    own: dict[str, dict[str, Footer]] = {}
    for line in points.lines:
        own.setdefault(line.footer.scenario, {})[line.footer.model] = line.footer
    asked = [(text, column.reference) for column in suite.board if column.reference for text in column.every_scenario]
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


class _RunPair(NamedTuple):
    """Two runs by keys and digests, and whether the second is attacked: all that a curve depends on."""

    reference: str
    reference_digest: str
    changed: str
    changed_digest: str
    is_attack: bool

    @property
    def name(self) -> str:
        """Names the file of the curve."""
        return f"{FOLDER}/{digest([VERSION, RESAMPLES, *self])}.json"


@lru_cache(maxsize=4096)
def _values(rows: _StoreKey, pair: _RunPair) -> dict[str, list[object]] | None:
    """The curve of two runs, as the store has kept it or computed and then kept; None where there is none."""
    files = rows.store.files
    try:
        kept = json.loads(files.read(pair.name)) if files.exists(pair.name) else None
    except (HoldfastError, OSError, ValueError):
        kept = None  # it is made again
    if isinstance(kept, dict) and set(kept) == set(MEASURES) and len({len(each) for each in kept.values()}) == 1:
        return kept
    before, after = rows.store.read(pair.reference), rows.store.read(pair.changed)
    along = over_adversarial_ratio if pair.is_attack else over_shift_ratio
    try:
        points = along(before, after, resamples=RESAMPLES)
    except HoldfastError:
        return None  # other samples, no sizes, or not all logits: nothing to draw
    made = {name: [value(point) for point in points] for name, value in MEASURES.items()}
    with contextlib.suppress(HoldfastError, OSError):  # a store that cannot be written to is read all the same
        files.write(pair.name, json.dumps(made).encode())
    return made


def _curve(rows: _StoreKey, change: ChangedRun) -> dict[str, object] | None:
    before, footer = change
    made = _values(rows, _RunPair(before.key, before.digest, footer.key, footer.digest, footer.is_attacked))
    if made is None:
        return None
    over, most = "adversarial ratio" if footer.is_attacked else "shift ratio", math.log(footer.card.classes)
    about = {**attributes(footer, "model", "scenario"), "over": over, "n": footer.n, "most": json_number(most)}
    record = {**about, **made}
    radius = footer.changes[-1].args.get("radius") if footer.changes else None
    if footer.is_attacked and isinstance(radius, int | float):
        record |= {"attack": footer.changes[-1].name, "radius": json_number(float(radius), 8)}
    return record


def _bounds(score: Score) -> list[float | None]:
    return json_numbers([score.value, score.low, score.high])


MEASURES: dict[str, Callable[[RatioPoint], object]] = {
    "ratios": lambda point: point.ratio,
    "agreement": lambda point: _bounds(point.agreement.score),
    "beta": lambda point: _bounds(point.agreement.beta),
    "afr_t": lambda point: _bounds(point.afr_t),
    "afr_p": lambda point: _bounds(point.afr_p),
    "before": lambda point: _bounds(point.confidence.before),
    "after": lambda point: _bounds(point.confidence.after),
}
