"""Projected gradient descent, one recipe per norm."""

from __future__ import annotations

from typing import Literal

from holdfast.attacks.budget import Budget
from holdfast.attacks.loop import Climb, Start
from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats import L2, Linf, Threat
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

MADRY = "Madry et al. 2018, arXiv:1706.06083"
Loss = Literal["ce", "margin", "dlr"]

DOC = """Projected gradient ascent by {steps}: {allowed}.

`step_size` is absolute; none means 2.5 · radius / steps, as in the source.
Differs from the published code: the projection is onto ball ∩ box exactly, a sample stops at its first success, and the
best point is kept, not the last.
"""


def register_pgd(threat: Threat, default: float, *, steps: str, allowed: str) -> None:
    """Registers `pgd-NORM` with its usual radius."""

    def pgd(
        *,
        radius: float = default,
        steps: int = 20,
        step_size: float | None = None,
        restarts: int = 1,
        random_start: bool = True,
        momentum: float = 0.0,
        loss: Loss = "ce",
    ) -> Budget:
        if steps < 1 or (step_size is not None and not step_size > 0):
            raise Misuse(f"steps and step size are more than zero, got {steps} and {step_size}")
        share = 2.5 / steps if step_size is None or radius == 0 else step_size / radius
        start: Start = "inside" if random_start else "identity"
        return Budget(Climb(threat, OBJECTIVES[loss], Steepest(share, momentum), steps, restarts, start), radius)

    pgd.__doc__ = DOC.format(steps=steps, allowed=allowed)
    register("attack", f"pgd-{threat.name}", source=MADRY, tags=("white box", threat.name))(pgd)


register_pgd(Linf(), 8 / 255, steps="sign steps", allowed="every pixel may move by `radius`")
register_pgd(L2(), 0.5, steps="normalised steps", allowed="the image may move by `radius` in Euclidean length")
