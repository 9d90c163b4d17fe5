"""Projected gradient ascent with a fixed step: PGD, one recipe per norm."""

from __future__ import annotations

from typing import Literal

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats.balls import L1, L2
from holdfast.attacks.threats.norm_ball import Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

MADRY = "Madry et al. 2018, arXiv:1706.06083"
Loss = Literal["ce", "margin", "dlr"]
STEPS = {"linf": "sign steps", "l2": "normalised steps", "l1": "sign steps on the largest 1 % of gradients"}

DOC = """Projected gradient ascent by {steps}: {allowed}.

`step_size` is absolute, `step_share` a share of the radius; none of them means 2.5 / steps of it, as in the source.
`draws`: passes each gradient is averaged over, for models that answer at random. `all_steps`: every sample, also one
that is wrong already, takes every step, and the last point is scored, as in the published code: posterior agreement
asks how sure a model is while it is wrong.
Differs from the published code: the projection is onto ball ∩ box exactly, and without
`all_steps` a sample stops at its first success and the best point is kept, not the last.
"""


def register_pgd(ball: Ball) -> None:
    """Registers `pgd-NORM` with its usual radius."""

    def pgd(
        *,
        radius: float = ball.usual_radius,
        steps: int = 20,
        step_size: float | None = None,
        restarts: int = 1,
        random_start: bool = True,
        momentum: float = 0.0,
        loss: Loss = "ce",
        draws: int = 1,
        all_steps: bool = False,
        step_share: float | None = None,
    ) -> GradientAttack:
        if step_share is not None and (step_size is not None or not step_share > 0):
            raise Misuse(f"`step_share` is more than zero and in the place of `step_size`, got {step_share}")
        if steps < 1 or draws < 1 or (step_size is not None and not step_size > 0):
            raise Misuse(f"steps, draws and step size are more than zero, got {steps}, {draws} and {step_size}")
        usual_share = 2.5 / steps if step_share is None else step_share
        share = usual_share if step_size is None or radius == 0 else step_size / radius
        return GradientAttack(
            *(ball, OBJECTIVES[loss], Steepest(share, momentum), steps, restarts),
            start="inside" if random_start else "identity",
            keep="last" if all_steps else "strongest",
            draws=draws,
            stop_when_broken=not all_steps,
            radius=radius,
        )

    pgd.__doc__ = DOC.format(steps=STEPS[ball.name], allowed=ball.allowed)
    later = ("all_steps", "step_share")
    register("attack", f"pgd-{ball.name}", source=MADRY, tags=("white box", ball.name), later=later)(pgd)


for norm in (Linf(), L2(), L1()):
    register_pgd(norm)
