"""Fast minimum-norm attack: gradient steps on a ball that shrinks while the sample is broken, and grows otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.recipes.hyperplane import dual_norm
from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

PINTOR = "Pintor et al. 2021, arXiv:2102.12827"
LAST_STEP = 0.01  # of the first
LAST_PACE = 0.001


@dataclass(frozen=True, slots=True)
class AdaptiveBall(Step):
    """The step of FMN (Pintor et al. 2021, arXiv:2102.12827, Algorithm 1), per sample.

    Until a sample is broken its ball reaches a share `pace` beyond where the boundary seems to lie; then it shrinks by
    that share in every step that finds the sample broken, and grows by it in the others. Steps have length `step_size`
    along the gradient. Both fall as half a cosine, to 0.001 and a hundredth.
    """

    strays: ClassVar[bool] = True
    steps: int
    step_size: float = 1.0
    pace: float = 0.05

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        return {"limit": torch.full((len(variable),), torch.inf, device=variable.device)}

    def advance(self, point: Point, state: State) -> Tensor:
        threat, here, gradient = point.threat, point.variable, point.gradient
        assert isinstance(threat, Ball), "planes are met in a norm"
        decay = 0.5 + 0.5 * torch.cos(math.pi / self.steps * point.taken)
        pace = LAST_PACE + (self.pace - LAST_PACE) * decay
        length_of_step = self.step_size * (LAST_STEP + (1 - LAST_STEP) * decay)

        smallest, limit = -point.best_loss, state["limit"]
        away = point.loss.abs() / dual_norm(threat.name, gradient.flatten(1)).clamp_min(TINY)
        wider = (1 + pace) * torch.where(smallest < torch.inf, limit, threat.norm(here) + away)
        limit = torch.where(point.wrong, torch.minimum(limit * (1 - pace), smallest), wider)
        images = point.scene.images
        state["limit"] = limit.minimum(threat.norm(torch.maximum(images, 1.0 - images)))

        way = gradient / wide(length(gradient).clamp_min(TINY), gradient)
        return point.project(here + wide(length_of_step, way) * way, state["limit"])


DOC = """Fast minimum-norm attack: the smallest {norm} change that is misclassified.

An infinite `radius` asks for the smallest change; a finite one for any inside it, and the search ends there.
`step_size` and `pace` are the paper's alpha and gamma at the start.
Differs from the published code: the first ball reaches a little beyond where the boundary seems to lie, since one that
only touches it may never break the sample; projections are onto ball ∩ box exactly (in l2 foolbox 3.3.4 projects
nothing); a change counts once it is wrong by more than rounding, and one that is wrong by less is taken further out, up
to two thirds of its size, until it is.
"""


def register_fmn(threat: Ball) -> None:
    """Registers `fmn-NORM`."""

    def fmn(
        *, radius: float = math.inf, steps: int = 1000, step_size: float = 1.0, pace: float = 0.05
    ) -> GradientAttack:
        if not (step_size > 0 and 0 < pace < 1):
            raise Misuse(f"step size is more than zero and pace a share, got {step_size} and {pace}")
        step = AdaptiveBall(steps, step_size, pace)
        return GradientAttack(threat, margin, step, steps, start="identity", keep="smallest", radius=radius)

    fmn.__doc__ = DOC.format(norm=threat.name)
    register("attack", f"fmn-{threat.name}", version=2, source=PINTOR, tags=("white box", threat.name))(fmn)


for norm in (Linf(), L2(), L1()):
    register_fmn(norm)
