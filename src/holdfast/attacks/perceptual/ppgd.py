"""Perceptual PGD: projected gradient ascent where lengths are LPIPS distances."""

from __future__ import annotations

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.perceptual.lpips_attack import LAIDLAW, LpipsAttack, margin_to_one
from holdfast.attacks.perceptual.lpips_ball import CONJUGATE, PROJECTION, LpipsBall
from holdfast.attacks.steps import Steepest
from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.core.types import Cost


@register("attack", "ppgd", source=LAIDLAW, tags=("white box", "lpips"))
def ppgd(*, radius: float = 0.5, steps: int = 40, restarts: int = 1, network: str = "self") -> LpipsAttack:
    """Perceptual PGD: steepest ascent in a network's own metric, inside an LPIPS distance of `radius`.

    `network`: whose features measure: `self` (the attacked model), `alexnet`, `alexnet-cifar`, or the path of a file
    with AlexNet's weights; radii of different networks do not compare. Published numbers use `alexnet-cifar`, whose
    weights are in no public repository; 0.5 and 40 steps are from their evaluation.
    Differs from the published code: a projection always ends inside, moves only what is outside, and aims inside by 1 %
    of the radius (there by 0.1, whatever the radius, which weakens small ones); the conjugate gradients never stop for
    the whole batch, measure derivatives by a step of fixed length, and add 5 % of the metric along the gradient in all
    directions; the start is projected; a sample stops at its first success.
    """
    if steps < 1:
        raise Misuse(f"steps is 1 or more, got {steps}")

    def inside(ball: LpipsBall) -> GradientAttack:
        return GradientAttack(ball, margin_to_one, Steepest(2.0 / steps), steps, restarts, radius=radius)

    each = Cost(1 + CONJUGATE + PROJECTION.forwards, CONJUGATE + PROJECTION.backwards)
    return LpipsAttack(inside, radius, network, each)
