"""The minimum-margin attack: Auto-PGD on the lead of the closest other classes, in turn."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import lead
from holdfast.attacks.recipes.apgd import Goal, auto_pgd
from holdfast.attacks.threats.balls import NORMS
from holdfast.core.registry import register

GAO = "Gao et al. 2022, arXiv:2206.07576"
LEAD = Goal(lead, 9, "the lead of another class over the label")


class Size(NamedTuple):
    """How many classes are aimed at, and for how long each."""

    targets: int
    steps: int


SIZES = {"mm3": Size(3, 20), "mm5": Size(5, 20), "mm9": Size(9, 20), "mm-plus": Size(9, 100)}

DOC = """The minimum-margin attack on the {targets} likeliest other classes, {steps} steps each: {allowed}.

Classes are ranked by the clean logits.
Differs from the published code: the projection is onto ball ∩ box exactly, starts are drawn per sample and target
(there, one draw per shape of a batch), a sample stops at its first success, and the usual radius of linf is 8/255
(there, 0.031).
"""


def register_mm(name: str, norm: str) -> None:
    """Registers `mmN-NORM`."""
    size, (ball, usual, allowed) = SIZES[name], NORMS[norm]

    def mm(
        *,
        radius: float = usual,
        steps: int = size.steps,
        targets: int = size.targets,
        restarts: int = 1,
    ) -> GradientAttack:
        return auto_pgd(ball, LEAD, radius, steps=steps, restarts=restarts, targets=targets)

    mm.__doc__ = DOC.format(targets=size.targets, steps=size.steps, allowed=allowed)
    register("attack", f"{name}-{norm}", source=GAO, tags=("white box", norm))(mm)


for mm_name in SIZES:
    for mm_norm in ("linf", "l2"):
        register_mm(mm_name, mm_norm)
