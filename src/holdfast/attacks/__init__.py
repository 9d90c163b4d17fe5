"""Attacks: threats x objectives x steps through one loop, and the recipes named after what they run.

What an attack of your own is made of has its names here: `from holdfast.attacks import GradientAttack, Linf, margin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.attacks.aimed import targeted_dlr as targeted_dlr
    from holdfast.attacks.attack import Attack as Attack
    from holdfast.attacks.gradient import GradientAttack as GradientAttack
    from holdfast.attacks.objectives import cross_entropy as cross_entropy
    from holdfast.attacks.objectives import dlr as dlr
    from holdfast.attacks.objectives import margin as margin
    from holdfast.attacks.search import RandomSearch as RandomSearch
    from holdfast.attacks.steps import Steepest as Steepest
    from holdfast.attacks.steps import Step as Step
    from holdfast.attacks.threat import Scene as Scene
    from holdfast.attacks.threat import Threat as Threat
    from holdfast.attacks.threats.balls import L1 as L1
    from holdfast.attacks.threats.balls import L2 as L2
    from holdfast.attacks.threats.balls import Linf as Linf
    from holdfast.core.noise import Noise as Noise
    from holdfast.core.registry import register as register
    from holdfast.core.types import AttackResult as AttackResult
    from holdfast.core.types import Batch as Batch
    from holdfast.core.types import Classifier as Classifier
    from holdfast.core.types import Cost as Cost

HOMES = {
    **dict.fromkeys(("AttackResult", "Batch", "Classifier", "Cost"), "holdfast.core.types"),
    **dict.fromkeys(("L1", "L2", "Linf"), "holdfast.attacks.threats.balls"),
    **dict.fromkeys(("Scene", "Threat"), "holdfast.attacks.threat"),
    **dict.fromkeys(("Steepest", "Step"), "holdfast.attacks.steps"),
    **dict.fromkeys(("cross_entropy", "dlr", "margin"), "holdfast.attacks.objectives"),
    "Attack": "holdfast.attacks.attack",
    "GradientAttack": "holdfast.attacks.gradient",
    "Noise": "holdfast.core.noise",
    "RandomSearch": "holdfast.attacks.search",
    "register": "holdfast.core.registry",
    "targeted_dlr": "holdfast.attacks.aimed",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
