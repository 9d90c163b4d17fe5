"""Projected gradient ascent with a fixed step: PGD, one recipe per norm."""

from __future__ import annotations

from typing import Literal

from holdfast.attacks.gradient import GradientAttack, Start
from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats.balls import NORMS
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

MADRY = "Madry et al. 2018, arXiv:1706.06083"
Loss = Literal["ce", "margin", "dlr"]
STEPS = {"linf": "sign steps", "l2": "normalised steps", "l1": "sign steps on the largest 1 % of gradients"}

DOC = """Projected gradient ascent by {steps}: {allowed}.

`step_size` is absolute; none means 2.5 · radius / steps, as in the source. `draws`: passes each gradient is averaged
over, for models that answer at random. `all_steps`: every sample, also one that is wrong already, takes every step, and
the last point is scored, as in the published code: posterior agreement asks how sure a model is while it is wrong.
Differs from the published code: the projection is onto ball ∩ box exactly, and without
`all_steps` a sample stops at its first success and the best point is kept, not the last.
"""


def register_pgd(norm: str) -> None:
    """Registers `pgd-NORM` with its usual radius."""
    ball, usual, allowed = NORMS[norm]

    def pgd(
        *,
        radius: float = usual,
        steps: int = 20,
        step_size: float | None = None,
        restarts: int = 1,
        random_start: bool = True,
        momentum: float = 0.0,
        loss: Loss = "ce",
        draws: int = 1,
        all_steps: bool = False,
    ) -> GradientAttack:
        if steps < 1 or draws < 1 or (step_size is not None and not step_size > 0):
            raise Misuse(f"steps, draws and step size are more than zero, got {steps}, {draws} and {step_size}")
        share = 2.5 / steps if step_size is None or radius == 0 else step_size / radius
        start: Start = "inside" if random_start else "identity"
        return GradientAttack(
            *(ball, OBJECTIVES[loss], Steepest(share, momentum), steps, restarts),
            start=start,
            keep="last" if all_steps else "strongest",
            draws=draws,
            stop_when_broken=not all_steps,
            radius=radius,
        )

    pgd.__doc__ = DOC.format(steps=STEPS[norm], allowed=allowed)
    register("attack", f"pgd-{norm}", source=MADRY, tags=("white box", norm), later=("all_steps",))(pgd)


for norm_name in NORMS:
    register_pgd(norm_name)
