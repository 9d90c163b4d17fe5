"""A penalty on grids of flows or colours whose neighbours differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene

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
