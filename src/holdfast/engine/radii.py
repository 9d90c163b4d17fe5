"""Radii that cannot have been meant: a linf radius above 1, where images lie in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Iterator

from holdfast.core.refs import Ref, Scenario
from holdfast.core.registry import registry
from holdfast.core.types import Flag

WIDEST = 1.0  # of a pixel
NESTED = ("attack", "attacks")  # parameters that name other attacks


def radius_flags(scenario: Scenario) -> tuple[Flag, ...]:
    """A flag where a linf attack of the scenario, or one inside another, may move pixels further than there are."""
    found = {radius: None for change in scenario.changes for radius in linf_radii(change) if WIDEST < radius < math.inf}
    return tuple(
        Flag(
            "radius-above-1",
            "warning",
            f"images lie in [0, 1], so that a linf radius of {radius:g} allows any image at all: "
            f"was {radius:g}/255 meant?",
        )
        for radius in found
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
