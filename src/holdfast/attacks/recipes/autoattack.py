"""Published cascades, named by what they run: AutoAttack, and the unions that MultiRobustBench ranks models by."""

from __future__ import annotations

from holdfast.attacks.recipes.cascade import Cascade, cascade_of
from holdfast.attacks.threats.balls import NORMS
from holdfast.core.registry import register

DAI = "Dai et al. 2023, arXiv:2302.10980"
CROCE = "Croce & Hein 2020, arXiv:2003.01690"
STANDARD = ("apgd-ce-{norm}", "apgd-t-{norm}", "fab-t-{norm}", "square-{norm}")
STANDARD_L1 = ("apgd-ce-{norm}:restarts=5", "apgd-t-{norm}:targets=5", "fab-t-{norm}", "square-{norm}")
PLUS = (
    "apgd-ce-{norm}:restarts=5",
    "apgd-dlr-{norm}:restarts=5",
    "fab-{norm}:restarts=5",
    "square-{norm}",
    "apgd-t-{norm}",
    "fab-t-{norm}",
)
RANDOM = ("apgd-ce-{norm}:draws=20", "apgd-dlr-{norm}:draws=20")

DOC = """AutoAttack, {what}: {allowed}.

Runs {parts}, each on what the last ones left standing. It has no other parameters: with fewer steps it would
not be AutoAttack; `worst-of` makes others.
Differs from the published code: as its parts do. Successes are scored again on the final images between the parts.
"""
PAIR = ("apgd-t-{norm}", "fab-t-{norm}")
PAIR_DOC = """MultiRobustBench's AutoAttack: targeted Auto-PGD, then targeted FAB; {allowed}.

Differs from the published code: as its parts do.
"""


def register_cascade(name: str, norm: str, parts: tuple[str, ...], doc: str, *, source: str = CROCE) -> None:
    """Registers one cascade for one norm."""
    ball = NORMS[norm]
    named = [part.format(norm=norm) for part in parts]

    def cascade(*, radius: float = ball.usual_radius) -> Cascade:
        return cascade_of(named, radius)

    cascade.__doc__ = doc.format(allowed=ball.allowed, parts=", ".join(f"`{part}`" for part in named))
    version = 2 if any(part.startswith("fab") for part in parts) else 1  # 2: with version 2 of FAB
    tags = ("white box", norm) if source == DAI else ("white box", "black box", norm)
    register("attack", f"{name}-{norm}", version=version, source=source, tags=tags)(cascade)


for norm_name in NORMS:
    for kind, attacks, what in (
        ("autoattack", STANDARD_L1 if norm_name == "l1" else STANDARD, "the standard version"),
        ("autoattack-plus", PLUS, "the longer version"),
        ("autoattack-rand", RANDOM, "the version for models that answer at random"),
    ):
        register_cascade(kind, norm_name, attacks, DOC.replace("{what}", what))
    register_cascade("apgd-fab-t", norm_name, PAIR, PAIR_DOC, source=DAI)


@register("attack", "lpips", source=DAI, tags=("white box", "lpips"), later=("published",))
def lpips(*, radius: float = 0.5, steps: int = 40, network: str = "self", published: bool = False) -> Cascade:
    """The union of both LPIPS attacks, as MultiRobustBench has it: PPGD, then LPA on what stands.

    `network`: whose features measure the distance; see `ppgd`. `published`: both as strong as the published code.
    Differs from the published code: LPA runs only where PPGD failed, with the same result; parts differ as they say.
    """
    more = ",published=true" if published else ""
    return cascade_of([f"{name}:steps={steps},network={network}{more}" for name in ("ppgd", "lpa")], radius)
