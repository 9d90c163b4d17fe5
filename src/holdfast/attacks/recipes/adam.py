"""Adam as an attack's step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import Misuse

Penalty = Callable[[Scene, Tensor, State], Tensor]  # what a variable costs the objective
SHARE = 1 / 18  # of the radius, where no rate is given (MultiRobustBench)

# notation of 1412.6980, Algorithm 1, with its defaults
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class Adam(Step):
    """Adam uphill (Kingma & Ba 2015, arXiv:1412.6980), then back into the set; every sample has its own clock.

    `rate` is in the units of the variable, or a share of each sample's radius where it is `relative`.
    """

    rate: float
    relative: bool = False

    @classmethod
    def at(cls, rate: float | None) -> Adam:
        """Adam at this rate; none means 1/18 of the radius."""
        if rate is not None and not rate > 0:
            raise Misuse(f"a rate is more than zero, got {rate}")
        return cls(SHARE, relative=True) if rate is None else cls(rate)

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        return {"mean": torch.zeros_like(variable), "square": torch.zeros_like(variable)}

    def advance(self, point: Point, state: State) -> Tensor:
        gradient = point.gradient
        mean = state["mean"].mul_(BETA_1).add_(gradient, alpha=1 - BETA_1)
        square = state["square"].mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        age = (point.taken + 1).to(mean.dtype)
        rate = self.rate * point.scene.radius if self.relative else self.rate
        # the rate goes under the fraction: one pass less over what may be a large table
        far = rate / unbiased(BETA_1, age)
        spread = square.sqrt().mul_(wide(unbiased(BETA_2, age).rsqrt() / far, mean)).add_(wide(EPSILON / far, mean))
        return point.project(torch.addcdiv(point.variable, mean, spread))


def adam_on_margin(
    threat: Threat, penalty: Penalty, radius: float, steps: int, rate: float | None, *, published: bool
) -> GradientAttack:
    """Adam from the clean image on the margin less a penalty; as `published`, all steps and the last point."""
    return GradientAttack(
        *(threat, margin, Adam.at(rate), steps),
        start="identity",
        keep="last" if published else "strongest",
        stop_when_broken=not published,
        penalty=penalty,
        radius=radius,
    )


def unbiased(beta: float, age: Tensor) -> Tensor:
    """1 - β^age, exact where β is close to one."""
    return -torch.expm1(age * math.log(beta))
