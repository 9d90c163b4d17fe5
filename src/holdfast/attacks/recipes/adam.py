"""Adam as an attack's step, on the margin less a penalty on grids of flows or colours whose neighbours differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.shapes import TINY, wide
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


SOFT = 1e-5  # lengths well below this cost their square, so that the price has a slope everywhere


@dataclass(frozen=True, slots=True)
class Smoothness:
    """The penalty `weight` / radius · roughness of the variable."""

    weight: float

    def __call__(self, scene: Scene, variable: Tensor, state: State) -> Tensor:  # noqa: ARG002
        return self.weight / scene.radius.clamp_min(TINY) * roughness(variable)


def roughness(grid: Tensor) -> Tensor:
    """Twice the sum of Euclidean distances between neighbours on a grid, one number per sample; dim 1 is the vector.

    Twice, since in the sources every node is compared with each of its neighbours (Xiao et al. 2018, arXiv:1801.02612,
    eq. 4). A constant grid costs nothing.
    """
    return _Roughness.apply(grid)  # type: ignore[no-untyped-call, no-any-return]


class _Roughness(torch.autograd.Function):
    """Value and gradient in one pass over the grid: left to autograd, the penalty costs as much as a small model."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor) -> Tensor:
        total, slope = grid.new_zeros(len(grid)), torch.zeros_like(grid)
        for dim in range(2, grid.dim()):
            pairs = grid.shape[dim] - 1
            gap = grid.narrow(dim, 1, pairs) - grid.narrow(dim, 0, pairs)
            distance = gap.square().sum(dim=1, keepdim=True).add_(SOFT**2).sqrt_()
            total += (distance - SOFT).flatten(1).sum(dim=1)
            gap /= distance
            slope.narrow(dim, 1, pairs).add_(gap)
            slope.narrow(dim, 0, pairs).sub_(gap)
        ctx.save_for_backward(slope)
        return 2.0 * total

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> Tensor:
        slope: Tensor = ctx.saved_tensors[0]
        return slope * wide(2.0 * above, slope)
