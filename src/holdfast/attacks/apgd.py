"""Auto-PGD: projected gradient ascent that chooses its own step, one recipe per objective and norm."""

from __future__ import annotations

from holdfast.attacks.automatic import Automatic
from holdfast.attacks.budget import Budget
from holdfast.attacks.loop import Climb
from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.threats import L2, Linf, Threat
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

CROCE = "Croce & Hein 2020, arXiv:2003.01690"
GOALS = {"ce": "the cross-entropy", "dlr": "the difference of logits ratio"}

DOC = """Auto-PGD on {goal}: {allowed}.

Differs from the published code: the projection is onto ball ∩ box exactly; the first count of rises compares with the
start, not with an unset value; a sample stops at its first success.
"""


def register_apgd(goal: str, threat: Threat, default: float, *, allowed: str) -> None:
    """Registers `apgd-GOAL-NORM` with its usual radius."""

    def apgd(*, radius: float = default, steps: int = 100, restarts: int = 1, progress: float = 0.75) -> Budget:
        if steps < 1 or not 0 < progress <= 1:
            raise Misuse(f"steps is 1 or more and progress a share, got {steps} and {progress}")
        step = Automatic(steps, progress)
        return Budget(Climb(threat, OBJECTIVES[goal], step, steps, restarts, start="border"), radius)

    apgd.__doc__ = DOC.format(goal=GOALS[goal], allowed=allowed)
    register("attack", f"apgd-{goal}-{threat.name}", source=CROCE, tags=("white box", threat.name))(apgd)


for name in GOALS:
    register_apgd(name, Linf(), 8 / 255, allowed="every pixel may move by `radius`")
    register_apgd(name, L2(), 0.5, allowed="the image may move by `radius` in Euclidean length")
