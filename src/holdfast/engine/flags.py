"""Flags that a run raises on its own number: signs of hidden gradients, and radii that cannot have been meant.

The signs are those of Athalye et al. 2018 (arXiv:1802.00420) and Carlini et al. 2019 (arXiv:1902.06705). Every count is
tested exactly: a flag is raised where an honest model, for which the count is binomial with a stated share at most,
would reach it with a probability of at most `FALSE_ALARM`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scipy.special import bdtrc

from holdfast.core.refs import Ref, Scenario
from holdfast.core.registry import registry
from holdfast.core.rounding import percent
from holdfast.core.types import Flag

ZERO_SHARE = 0.01
FLAT_SHARE = 0.1
BLACK_BOX_SHARE = 0.01  # of what an attack with gradients left, that thousands of queries may break on honest models
QUERIES_SHARE = 0.05  # of what strong gradient attacks left, that a few hundred queries may break
UNBROKEN_SHARE = 0.05  # of the samples may withstand an attack that may do anything
FALSE_SHARE = 0.05  # of honest gradients near the boundary may disagree with differences
FALSE_ALARM = 0.01  # chance of each flag on an honest model at the share stated for it
WIDEST = 1.0  # of a pixel
NESTED = ("attack", "attacks")  # parameters that name other attacks


def exceeds(count: int, total: int, share: float) -> bool:
    """Whether so many of `total` are too many for a binomial share of at most `share`, at the level `FALSE_ALARM`."""
    return count > share * total and bool(bdtrc(count - 1, total, share) <= FALSE_ALARM)


@dataclass(frozen=True, slots=True)
class Sign:
    """A share of counts above which a run's number is flagged; `tested`: only where chance does not explain it."""

    name: str
    of: str
    among: str
    limit: float
    explanation: str
    tested: bool = False

    def flag(self, tallies: Mapping[str, int]) -> Flag | None:
        count, total = tallies.get(self.of, 0), tallies.get(self.among, 0)
        if not total or count / total <= self.limit or (self.tested and not exceeds(count, total, self.limit)):
            return None
        share = f"{percent(count / total)} %"
        return Flag(self.name, "warning", self.explanation.format(share=share, count=count, total=total))


SIGNS = (
    Sign(
        "zero-gradients",
        "zero gradients",
        "gradients",
        ZERO_SHARE,
        "{share} of the attack's gradients were exactly zero: the model may hide its gradients, and the attack may be "
        "weaker than it looks",
    ),
    Sign(
        "flat-objective",
        "flat climbs",
        "climbs",
        FLAT_SHARE,
        "in {share} of the attack's runs the objective never rose above its start: gradients may not point anywhere, "
        "and the attack may be weaker than it looks",
    ),
    Sign(
        "black-box-beats-white-box",
        "broken without gradients alone",
        "tried without gradients",
        BLACK_BOX_SHARE,
        "{share} of the samples that withstood every attack with gradients were broken by one without: the model may "
        "hide its gradients",
        tested=True,
    ),
    Sign(
        "black-box-beats-white-box",
        "probe: broken by queries alone",
        "probe: survivors asked",
        QUERIES_SHARE,
        "of {total} samples that withstood the attack, {count} were broken by a short random search inside the same "
        "radius and by no strong attack with gradients: the model may hide its gradients, and is less robust than this",
        tested=True,
    ),
    Sign(
        "unbounded-attack-fails",
        "probe: unbroken without a bound",
        "probe: survivors attacked",
        UNBROKEN_SHARE,
        "of {total} samples that withstood the attack, {count} also withstood gradient steps that may change every "
        "pixel at will: the gradients lead nowhere, and the number says nothing",
        tested=True,
    ),
    Sign(
        "gradient-false-near-boundary",
        "probe: gradients false",
        "probe: gradients compared",
        FALSE_SHARE,
        "of {total} samples that withstood the attack, {count} have a gradient shortly before the boundary along which "
        "the margin does not rise as it says: attacks are led astray there, and look weaker than they are",
        tested=True,
    ),
    Sign(
        "answers-change",
        "probe: clean images now wrong",
        "probe: survivors shown",
        UNBROKEN_SHARE,
        "of {total} samples that withstood the attack, {count} are wrong without one when asked again: the model's "
        "answers change from call to call or with the batch",
        tested=True,
    ),
)


def tally_flags(tallies: Mapping[str, int]) -> tuple[Flag, ...]:
    """Flags that only the whole run can raise; each name once."""
    flags = [flag for sign in SIGNS if (flag := sign.flag(tallies)) is not None]
    return tuple({flag.name: flag for flag in reversed(flags)}.values())[::-1]


def radius_flags(scenario: Scenario) -> tuple[Flag, ...]:
    """A flag where a linf attack of the scenario, or one inside another, may move pixels further than there are."""
    radii = {radius: None for change in scenario.changes for radius in linf_radii(change) if WIDEST < radius < math.inf}
    return tuple(
        Flag(
            "radius-above-1",
            "warning",
            f"images lie in [0, 1], so that a linf radius of {radius:g} allows any image at all: "
            f"was {radius:g}/255 meant?",
        )
        for radius in radii
    )


def linf_radii(change: Ref, *, given: tuple[float, ...] = ()) -> Iterator[float]:
    """The finite linf radii of an attack; `given` are those of the attack around it, which count instead."""
    if change.kind != "attack":
        return
    args = dict(change.args)
    own = tuple(_numbers(args.get("radii"))) or tuple(_numbers(args.get("radius")))
    inner = [text for name in NESTED for text in _texts(args.get(name))]
    if not inner:
        if "linf" in registry.entry("attack", change.name).tags:
            yield from given or own
        return
    for text in inner:
        yield from linf_radii(registry.bind("attack", text), given=given or own)


def _numbers(value: object) -> list[float]:
    items = value if isinstance(value, tuple) else (value,)
    return [float(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)]


def _texts(value: object) -> list[str]:
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, str)]
