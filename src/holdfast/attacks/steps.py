"""Steps: how an attack moves, given the gradient. State is per sample, so that samples may come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide

State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Point:
    """Where the samples stand: variable, gradient, loss, steps taken so far, radius, and the geometry."""

    variable: Tensor
    gradient: Tensor
    loss: Tensor
    taken: Tensor
    radius: Tensor
    project: Callable[[Tensor], Tensor]
    ascent: Callable[[Tensor], Tensor]


class Step(Protocol):
    """A rule for the next variable. `fresh` makes the state of samples that start; `advance` may change it in place."""

    def fresh(self, variable: Tensor, radius: Tensor) -> State: ...

    def advance(self, point: Point, state: State) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Steepest:
    """Along the steepest ascent by a fixed share of the radius, with momentum on the normalised gradient if wanted.

    Momentum as in Dong et al. 2018 (arXiv:1710.06081): gradients are divided by their mean magnitude before summing.
    """

    share: float
    momentum: float = 0.0

    def fresh(self, variable: Tensor, radius: Tensor) -> State:  # noqa: ARG002
        return {"drift": torch.zeros_like(variable)} if self.momentum else {}

    def advance(self, point: Point, state: State) -> Tensor:
        gradient = point.gradient
        if self.momentum:
            scale = gradient.flatten(1).abs().mean(dim=1).clamp_min(1e-12)
            gradient = state["drift"].mul_(self.momentum).add_(gradient / wide(scale, gradient))
        return point.project(point.variable + wide(self.share * point.radius, gradient) * point.ascent(gradient))
