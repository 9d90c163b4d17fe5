"""The recipe of a sweep over radii."""

from __future__ import annotations

import math

from holdfast.attacks.attack import Attack
from holdfast.attacks.recipes.thresholds import Sweep
from holdfast.core.errors import Misuse
from holdfast.core.registry import register, registry


@register("attack", "sweep", version=2, tags=("combination",))
def sweep(*, attack: str, radii: tuple[float, ...], exhaustive: bool = False, warm: bool = False) -> Sweep:
    """The smallest radius of a grid that breaks each sample, for any attack inside a radius, as one job.

    `sweep:attack=(pgd-linf:steps=20),radii=[1/255,2/255,4/255]`. Samples at different radii share batches; a search
    takes each to its threshold in few attacks. A minimal attack (fmn, fab) is run once and answers every radius. With
    `warm` each attack goes on from where the last one on the sample ended: a stronger attack than the one named, so
    that its thresholds are lower than those of separate runs. `exhaustive` attacks at every radius instead, and also
    reports where a larger radius failed though a smaller one succeeded, and where the search would answer otherwise.
    The sample's `radius` is its threshold: 0 where it is wrong without an attack, inf where no radius breaks it. What
    is scored is the image at the threshold, or at the largest radius.
    """
    ref = registry.bind("attack", attack)
    made = registry.build(ref)
    if not isinstance(made, Attack) or isinstance(made, Sweep):
        raise Misuse(f"`{attack}` has no radius to sweep", hint="name an attack inside a radius, such as (pgd-linf)")
    grid = tuple(sorted(set(radii)))
    if not grid or not grid[0] > 0 or math.isinf(grid[-1]):
        raise Misuse(f"radii are more than zero and finite, got {list(radii)}")
    return Sweep(made, grid, exhaustive, warm)
