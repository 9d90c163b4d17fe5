"""Projected gradient descent."""

from __future__ import annotations

from typing import Literal

from holdfast.attacks.budget import Budget
from holdfast.attacks.loop import Climb
from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats import L2, Linf, Threat
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

MADRY = "Madry et al. 2018, arXiv:1706.06083"
Loss = Literal["ce", "margin"]


@register("attack", "pgd-linf", source=MADRY, tags=("white box", "linf"))
def pgd_linf(
    *,
    radius: float = 8 / 255,
    steps: int = 20,
    step_size: float | None = None,
    restarts: int = 1,
    random_start: bool = True,
    momentum: float = 0.0,
    loss: Loss = "ce",
) -> Budget:
    """Projected gradient ascent by sign steps: every pixel may move by `radius`.

    `step_size` is absolute; none means 2.5 · radius / steps, as in the source.
    Differs from the published code: a sample stops at its first success, and the best point is kept, not the last.
    """
    return _pgd(Linf(), radius, steps, step_size, restarts, random_start, momentum, loss)


@register("attack", "pgd-l2", source=MADRY, tags=("white box", "l2"))
def pgd_l2(
    *,
    radius: float = 0.5,
    steps: int = 20,
    step_size: float | None = None,
    restarts: int = 1,
    random_start: bool = True,
    momentum: float = 0.0,
    loss: Loss = "ce",
) -> Budget:
    """Projected gradient ascent by normalised steps: the image may move by `radius` in Euclidean length.

    `step_size` is absolute; none means 2.5 · radius / steps, as in the source.
    Differs from the published code: the projection is onto ball ∩ box exactly, a sample stops at its first success, and
    the best point is kept, not the last.
    """
    return _pgd(L2(), radius, steps, step_size, restarts, random_start, momentum, loss)


def _pgd(
    threat: Threat,
    radius: float,
    steps: int,
    step_size: float | None,
    restarts: int,
    random_start: bool,
    momentum: float,
    loss: Loss,
) -> Budget:
    if step_size is not None and not step_size > 0:
        raise Misuse(f"a step size is more than zero, got {step_size}")
    share = 2.5 / steps if step_size is None or radius == 0 else step_size / radius
    how = Climb(threat, OBJECTIVES[loss], Steepest(share, momentum), steps, restarts, random_start)
    return Budget(how, radius)
