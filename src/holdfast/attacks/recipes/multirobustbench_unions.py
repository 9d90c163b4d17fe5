"""The unions that MultiRobustBench ranks models by."""

from __future__ import annotations

from holdfast.attacks.recipes.cascade import Cascade, cascade_of
from holdfast.attacks.threats.balls import NORMS
from holdfast.core.registry import register

DAI = "Dai et al. 2023, arXiv:2302.10980"

DOC = """MultiRobustBench's AutoAttack: targeted Auto-PGD, then targeted FAB; {allowed}.

Differs from the published code: as its parts do.
"""


def register_pair(norm: str) -> None:
    """Registers `apgd-fab-t-NORM`."""
    _, usual, allowed = NORMS[norm]

    def pair(*, radius: float = usual) -> Cascade:
        return cascade_of((f"apgd-t-{norm}", f"fab-t-{norm}"), radius)

    pair.__doc__ = DOC.format(allowed=allowed)
    register("attack", f"apgd-fab-t-{norm}", version=2, source=DAI, tags=("white box", norm))(pair)


for norm_name in NORMS:
    register_pair(norm_name)


@register("attack", "lpips", source=DAI, tags=("white box", "lpips"))
def lpips(*, radius: float = 0.5, steps: int = 40, network: str = "self") -> Cascade:
    """The union of both LPIPS attacks, as MultiRobustBench has it: PPGD, then LPA on what stands.

    `network`: whose features measure the distance; see `ppgd`.
    Differs from the published code: LPA runs only where PPGD failed, with the same result; parts differ as they say.
    """
    return cascade_of([f"{name}:steps={steps},network={network}" for name in ("ppgd", "lpa")], radius)
