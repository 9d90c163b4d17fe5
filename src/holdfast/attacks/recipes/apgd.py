"""Auto-PGD: projected gradient ascent that chooses its own step, one recipe per objective and norm; the MM attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.attacks.aimed import lead, targeted_dlr
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import Objective, cross_entropy, dlr
from holdfast.attacks.recipes.automatic import Automatic, Sparse
from holdfast.attacks.steps import Step
from holdfast.attacks.threats.balls import L1, NORMS, Ball
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

CROCE = "Croce & Hein 2020, arXiv:2003.01690"
CROCE_L1 = "Croce & Hein 2021, arXiv:2103.01208"


@dataclass(frozen=True, slots=True)
class Goal:
    """What is driven up, and at how many other classes in turn."""

    objective: Objective
    targets: int
    words: str


GOALS = {
    "ce": Goal(cross_entropy, 0, "the cross-entropy"),
    "dlr": Goal(dlr, 0, "the difference of logits ratio"),
    "t": Goal(targeted_dlr, 9, "the targeted difference of logits ratio, aimed at the likeliest other classes in turn"),
}

DOC = """Auto-PGD on {goal}: {allowed}.

`draws`: passes each gradient is averaged over, for models that answer at random.{more}
Differs from the published code: the projection is onto ball ∩ box exactly; the first count of rises compares with the
start, not with an unset value; a sample stops at its first success.{differs}
"""
ALL_STEPS = (
    "\n`all_steps`: every sample, also one that is wrong already, takes every step, and the point of the largest loss\n"
    "is scored."
)
TARGETS = "\n`targets`: how many classes are aimed at; `restarts` for each."
INWARDS = "\nThe first 30 % of the steps run at three times the radius, the next 30 % at twice, as AutoAttack has it."
INWARDS_DIFFERS = " A stage's first point is inside its own ball, the very first inside the radius itself."


def auto_pgd(
    ball: Ball,
    goal: Goal,
    radius: float,
    *,
    steps: int,
    restarts: int = 1,
    targets: int | None = None,
    draws: int = 1,
    all_steps: bool = False,
) -> GradientAttack:
    """Auto-PGD: the automatic step, in the l1 ball the sparse one."""
    aimed = goal.targets if targets is None else targets
    if steps < 1 or draws < 1 or aimed < 0 or (goal.targets and not aimed):
        raise Misuse(f"steps, draws and targets are 1 or more, got {steps}, {draws} and {aimed}")
    step: Step = Sparse(steps) if isinstance(ball, L1) else Automatic(steps)
    moves = step.moves if isinstance(step, Sparse) else steps
    return GradientAttack(
        *(ball, goal.objective, step, moves, restarts, aimed),
        start="border",
        draws=draws,
        stop_when_broken=not all_steps,
        radius=radius,
    )


def register_apgd(name: str, norm: str) -> None:
    """Registers `apgd-GOAL-NORM`."""
    goal, ball = GOALS[name], NORMS[norm]

    def apgd(
        *,
        radius: float = ball.usual_radius,
        steps: int = 100,
        restarts: int = 1,
        draws: int = 1,
        all_steps: bool = False,
    ) -> GradientAttack:
        return auto_pgd(ball, goal, radius, steps=steps, restarts=restarts, draws=draws, all_steps=all_steps)

    def apgd_t(
        *, radius: float = ball.usual_radius, steps: int = 100, restarts: int = 1, targets: int = 9, draws: int = 1
    ) -> GradientAttack:
        return auto_pgd(ball, goal, radius, steps=steps, restarts=restarts, targets=targets, draws=draws)

    aimed, sparse = goal.targets > 0, norm == "l1"
    factory: Callable[..., GradientAttack] = apgd_t if aimed else apgd
    more = (TARGETS if aimed else ALL_STEPS) + INWARDS * sparse
    factory.__doc__ = DOC.format(goal=goal.words, allowed=ball.allowed, more=more, differs=INWARDS_DIFFERS * sparse)
    source, later = CROCE_L1 if sparse else CROCE, () if aimed else ("all_steps",)
    register("attack", f"apgd-{name}-{norm}", source=source, tags=("white box", norm), later=later)(factory)


for goal_name in GOALS:
    for norm_name in NORMS:
        register_apgd(goal_name, norm_name)


GAO = "Gao et al. 2022, arXiv:2206.07576"
LEAD = Goal(lead, 9, "the lead of another class over the label")


MM_DOC = """The minimum-margin attack on the {targets} likeliest other classes, {steps} steps each: {allowed}.

Classes are ranked by the clean logits.
Differs from the published code: the projection is onto ball ∩ box exactly, starts are drawn per sample and target
(there, one draw per shape of a batch), a sample stops at its first success, and the usual radius of linf is 8/255
(there, 0.031).
"""


def register_mm(name: str, norm: str, most: int, usual_steps: int) -> None:
    """Registers `mmN-NORM`, which aims at so many classes for so many steps each."""
    ball = NORMS[norm]

    def mm(
        *,
        radius: float = ball.usual_radius,
        steps: int = usual_steps,
        targets: int = most,
        restarts: int = 1,
    ) -> GradientAttack:
        return auto_pgd(ball, LEAD, radius, steps=steps, restarts=restarts, targets=targets)

    mm.__doc__ = MM_DOC.format(targets=most, steps=usual_steps, allowed=ball.allowed)
    register("attack", f"{name}-{norm}", source=GAO, tags=("white box", norm))(mm)


for mm_norm in ("linf", "l2"):
    register_mm("mm3", mm_norm, 3, 20)
    register_mm("mm5", mm_norm, 5, 20)
    register_mm("mm9", mm_norm, 9, 20)
    register_mm("mm-plus", mm_norm, 9, 100)
