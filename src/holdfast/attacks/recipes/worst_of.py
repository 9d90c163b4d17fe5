"""The union of any attacks."""

from __future__ import annotations

from holdfast.attacks.recipes.cascade import Cascade, cascade_of
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

NAME = "worst-of"


@register("attack", NAME, version=2, tags=("combination",))
def worst_of(*, attacks: tuple[str, ...], radius: float | None = None) -> Cascade:
    """The union of attacks: a sample is broken once any of them breaks it, and later ones see only what stands.

    `attacks` are refs in parentheses: `worst-of:attacks=[(pgd-linf:radius=8/255),(pgd-l2:radius=0.5)]`. Each keeps to
    its own radius, unless `radius` gives one for all. Sizes are in the units of the attack that broke the sample. Each
    attack draws what it draws alone, so a union breaks whatever one of its attacks breaks alone.
    """
    if not attacks:
        raise Misuse("`worst-of` needs attacks", hint="give refs: attacks=[(pgd-linf),(stadv)]")
    return cascade_of(attacks, radius, union_name=NAME)
