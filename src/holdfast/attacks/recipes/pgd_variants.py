"""PGD with the numbers of other sources: FGSM, the "CW" of benchmark tables, the PGD of the ImageNet testbed."""

from __future__ import annotations

from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy, margin
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats.balls import NORMS, Linf
from holdfast.core.registry import register

TAORI = "Taori et al. 2020, arXiv:2007.00644"


@register("attack", "fgsm", source="Goodfellow et al. 2015, arXiv:1412.6572", tags=("white box", "linf"))
def fgsm(*, radius: float = 8 / 255) -> GradientAttack:
    """The fast gradient sign method: one sign step of the whole radius, from the image itself."""
    return GradientAttack(Linf(), cross_entropy, Steepest(1.0), 1, start="identity", radius=radius)


def capped_margin(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The margin up to zero: no gain from being more wrong than wrong (arXiv:1706.06083, "CW")."""
    return margin(logits, labels, targets).clamp_max(0.0)


@register(
    "attack",
    "cw-linf",
    source="Carlini & Wagner 2017, arXiv:1608.04644; as in arXiv:1706.06083",
    tags=("white box", "linf"),
)
def cw_linf(*, radius: float = 8 / 255, steps: int = 100, step_size: float | None = None) -> GradientAttack:
    """PGD on the margin, which counts no further once the sample is broken; the "CW" of benchmark tables.

    `step_size` is absolute; none means radius / 4.
    Differs from the published code: a sample stops at its first success, and the best point is kept, not the last.
    """
    share = 0.25 if step_size is None or radius == 0 else step_size / radius
    return GradientAttack(Linf(), capped_margin, Steepest(share), steps, radius=radius)


def register_testbed(norm: str, usual: float, share: float) -> None:
    """Registers the PGD of the ImageNet testbed."""
    ball = NORMS[norm]

    def testbed(*, radius: float = usual, steps: int = 100) -> GradientAttack:
        return GradientAttack(ball, cross_entropy, Steepest(share), steps, start="identity", radius=radius)

    testbed.__doc__ = f"""The PGD of the ImageNet testbed, {share:g} · radius a step: {ball.allowed}.

    Radii there: .5/255 and 2/255 in linf; .1 and .5 in l2 for 224 pixels, multiplied by size / 224 for others.
    Differs from the published code: a sample stops at its first success, and the best point is kept, not the last.
    """
    register("attack", f"testbed-pgd-{norm}", source=TAORI, tags=("white box", norm))(testbed)


register_testbed("linf", 2 / 255, 0.03)
register_testbed("l2", 0.5, 0.1)
