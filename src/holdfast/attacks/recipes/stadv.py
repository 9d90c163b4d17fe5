"""StAdv: adversarial flow."""

from __future__ import annotations

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.recipes.adam import Adam
from holdfast.attacks.threats.flow import Flow
from holdfast.attacks.threats.smooth import Smoothness
from holdfast.core.registry import register


@register(
    "attack",
    "stadv",
    source="Xiao et al. 2018, arXiv:1801.02612, as in perceptual-advex (Laidlaw et al. 2021, arXiv:2006.12655)",
    tags=("white box", "flow"),
)
def stadv(*, radius: float = 0.05, steps: int = 20, rate: float | None = 0.01) -> GradientAttack:
    """Moves pixels along a smooth flow of up to `radius`, where 1 is half the image: Adam on the margin.

    `steps` is 20 in perceptual-advex and MultiRobustBench, 100 or 200 in OODRobustBench. `rate` is Adam's; none means
    radius / 18, as in MultiRobustBench. The objective is the margin less 0.0025 / radius times the roughness of the
    flow; whether a sample is broken is decided by its class alone.
    Differs from the published code: a sample stops at its first success and the best flow is kept, not the last; images
    need not be square.
    """
    penalty = Smoothness(0.0025)
    return GradientAttack(Flow(), margin, Adam.at(rate), steps, start="identity", penalty=penalty, radius=radius)
