"""Projected gradient ascent with a fixed step: PGD per norm, and the recipes that are PGD with other numbers."""

from __future__ import annotations

from typing import Literal

from holdfast.attacks.gradient import GradientAttack, Start
from holdfast.attacks.objectives import OBJECTIVES, capped_margin, cross_entropy
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats.balls import NORMS, Linf
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

MADRY = "Madry et al. 2018, arXiv:1706.06083"
TAORI = "Taori et al. 2020, arXiv:2007.00644"
Loss = Literal["ce", "margin", "dlr"]
STEPS = {"linf": "sign steps", "l2": "normalised steps", "l1": "sign steps on the largest 1 % of gradients"}

DOC = """Projected gradient ascent by {steps}: {allowed}.

`step_size` is absolute; none means 2.5 · radius / steps, as in the source. `draws`: passes each gradient is averaged
over, for models that answer at random.
Differs from the published code: the projection is onto ball ∩ box exactly, a sample stops at its first success, and the
best point is kept, not the last.
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
    ) -> GradientAttack:
        if steps < 1 or draws < 1 or (step_size is not None and not step_size > 0):
            raise Misuse(f"steps, draws and step size are more than zero, got {steps}, {draws} and {step_size}")
        share = 2.5 / steps if step_size is None or radius == 0 else step_size / radius
        start: Start = "inside" if random_start else "identity"
        step = Steepest(share, momentum)
        return GradientAttack(ball, OBJECTIVES[loss], step, steps, restarts, start=start, draws=draws, radius=radius)

    pgd.__doc__ = DOC.format(steps=STEPS[norm], allowed=allowed)
    register("attack", f"pgd-{norm}", source=MADRY, tags=("white box", norm))(pgd)


for norm_name in NORMS:
    register_pgd(norm_name)


@register("attack", "fgsm", source="Goodfellow et al. 2015, arXiv:1412.6572", tags=("white box", "linf"))
def fgsm(*, radius: float = 8 / 255) -> GradientAttack:
    """The fast gradient sign method: one sign step of the whole radius, from the image itself."""
    return GradientAttack(Linf(), cross_entropy, Steepest(1.0), 1, start="identity", radius=radius)


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
    ball, _, allowed = NORMS[norm]

    def testbed(*, radius: float = usual, steps: int = 100) -> GradientAttack:
        return GradientAttack(ball, cross_entropy, Steepest(share), steps, start="identity", radius=radius)

    testbed.__doc__ = f"""The PGD of the ImageNet testbed, {share:g} · radius a step: {allowed}.

    Radii there: .5/255 and 2/255 in linf; .1 and .5 in l2 for 224 pixels, multiplied by size / 224 for others.
    Differs from the published code: a sample stops at its first success, and the best point is kept, not the last.
    """
    register("attack", f"testbed-pgd-{norm}", source=TAORI, tags=("white box", norm))(testbed)


register_testbed("linf", 2 / 255, 0.03)
register_testbed("l2", 0.5, 0.1)
