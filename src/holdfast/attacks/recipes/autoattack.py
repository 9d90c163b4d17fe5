"""AutoAttack: the published cascades, named by what they run."""

from __future__ import annotations

from holdfast.attacks.recipes.cascade import Cascade, cascade_of
from holdfast.attacks.threats.balls import NORMS
from holdfast.core.registry import register

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


def register_autoattack(name: str, norm: str, parts: tuple[str, ...], what: str) -> None:
    """Registers one version for one norm."""
    _, usual, allowed = NORMS[norm]
    named = [part.format(norm=norm) for part in parts]

    def autoattack(*, radius: float = usual) -> Cascade:
        return cascade_of(named, radius)

    autoattack.__doc__ = DOC.format(what=what, allowed=allowed, parts=", ".join(f"`{part}`" for part in named))
    version = 2 if any(part.startswith("fab") for part in parts) else 1  # 2: with version 2 of FAB
    register("attack", f"{name}-{norm}", version=version, source=CROCE, tags=("white box", "black box", norm))(
        autoattack
    )


for norm_name in NORMS:
    register_autoattack("autoattack", norm_name, STANDARD_L1 if norm_name == "l1" else STANDARD, "the standard version")
    register_autoattack("autoattack-plus", norm_name, PLUS, "the longer version")
    register_autoattack("autoattack-rand", norm_name, RANDOM, "the version for models that answer at random")
