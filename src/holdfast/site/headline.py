"""The headline run of each kind of change: for attacks one at a stated radius, not the hardest that was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.values import number_text
from holdfast.site.half_lost import radius_of
from holdfast.site.model_results import MeasuredRun
from holdfast.site.stated_radii import Trained, is_same, rank, standard_radii, threat_of_change, trained_radii

ATTACKED = ("attacked", "both")


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline run of a group, and why it has this radius; `alike` counts the runs it is the lowest of."""

    run: MeasuredRun
    threat: str = ""
    why: str = ""
    alike: int = 1
    is_trained: bool = False


def headline(runs: Sequence[MeasuredRun], group: str) -> Headline | None:
    """The headline run of a group.

    Of attacks, one at the radius the model was trained for, else at the one that suites state for the dataset; where
    several attacks share threat and radius, the one that leaves least. Of corruptions the one that leaves least; of
    undisturbed runs that on most samples, then the latest.
    """
    some = [run for run in runs if run.group == group and run.accuracy.n]
    if not some:
        return None
    if group == "undisturbed":
        return Headline(max(some, key=lambda run: (run.footer.n, run.footer.finished, run.footer.key)))
    if group not in ATTACKED:
        return Headline(_lowest(some), alike=len(some))
    return by_threat(some)[0]


def by_threat(runs: Sequence[MeasuredRun]) -> list[Headline]:
    """For every threat of some attacked runs the run at its stated radius; threats of training come first."""
    trained = trained_radii(max(runs, key=lambda run: run.footer.finished).footer.card)
    threats: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        threats.setdefault(run_threat(run), []).append(run)
    known = [one.threat for one in trained]
    order = sorted(threats, key=lambda name: (known.index(name) if name in known else len(known), rank(name)))
    return [_stated(name, threats[name], trained) for name in order]


def run_threat(run: MeasuredRun) -> str:
    """What the run's attack may change, by its last attack."""
    attacks = [change for change in run.footer.changes if change.kind == "attack"]
    return threat_of_change(attacks[-1])


def unmeasured_training(runs: Sequence[MeasuredRun]) -> list[Trained]:
    """What the model was trained against and no run tried, or not at that radius."""
    attacked = [run for run in runs if run.group == "attacked" and run.accuracy.n]
    card = max(runs, key=lambda run: run.footer.finished).footer.card
    met = [(run_threat(run), radius_of(run)) for run in attacked]

    def is_met(one: Trained) -> bool:
        return any(one.threat == threat and (one.radius is None or is_same(at, one.radius)) for threat, at in met)

    return [one for one in trained_radii(card) if not is_met(one)]


def _stated(threat: str, runs: Sequence[MeasuredRun], trained: Sequence[Trained]) -> Headline:
    own = [one.radius for one in trained if one.threat == threat and one.radius is not None]
    standard = [one for one in standard_radii(runs[0].footer.dataset) if one.threat == threat]
    stated = [(radius, "the radius it was trained for") for radius in own]
    stated += [(one.radius, f"the radius that suite {one.suite} states") for one in standard]
    for radius, why in stated:
        some = [run for run in runs if is_same(radius_of(run), radius)]
        if some:
            return Headline(_lowest(some), threat, why, len(some), is_trained=radius in own)
    radii = sorted({radius_of(run) for run in runs if math.isfinite(radius_of(run))})
    if not radii:
        return Headline(_lowest(runs), threat, "", len(runs))
    chosen, why = _nearest(radii, stated)
    some = [run for run in runs if is_same(radius_of(run), chosen)]
    return Headline(_lowest(some), threat, why, len(some))


def _nearest(radii: Sequence[float], stated: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """A radius where none of those wanted was measured: the nearest to the first of them, else the middle one."""
    if stated:
        target, why = stated[0]
        near = min(radii, key=lambda radius: (abs(math.log(max(radius, 1e-12) / target)), radius))
        return near, f"the measured radius nearest to {number_text(target)}, {why}"
    if len(radii) == 1:
        return radii[0], "the only radius measured"
    return radii[(len(radii) - 1) // 2], f"the middle of {len(radii)} radii measured, for no suite states one"


def _lowest(runs: Sequence[MeasuredRun]) -> MeasuredRun:
    return min(runs, key=lambda run: (run.accuracy.value, run.label))
