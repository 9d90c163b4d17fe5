"""Steps: how an attack moves, given the gradient. State is per sample, so that samples may come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide
from holdfast.attacks.threat import Scene, Threat

State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Point:
    """The current point of the samples: the variable, the objective and its gradient there, and the best point so far.

    `wrong`: misclassified here, at whatever size. `best` and `best_loss`: the highest point of this run so far, this
    one included. `gradient` and `loss` have a second dimension where the objective gives several numbers per sample.
    """

    threat: Threat
    scene: Scene
    variable: Tensor
    gradient: Tensor
    loss: Tensor
    wrong: Tensor
    taken: Tensor
    best: Tensor
    best_loss: Tensor

    def project(self, variable: Tensor, radius: Tensor | None = None) -> Tensor:
        return self.threat.project(self.scene if radius is None else self.scene.within(radius), variable)

    def ascent(self, variable: Tensor, gradient: Tensor) -> Tensor:
        return self.threat.ascent(self.scene, variable, gradient)


class Step(Protocol):
    """A rule for the next variable; a step derives from this class.

    A step that `strays` may go beyond the radius: then a point counts only where it is inside.
    """

    strays: ClassVar[bool] = False

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        """What is remembered of samples that start: nothing, for a plain step."""
        return {}

    def advance(self, point: Point, state: State) -> Tensor:
        """The next variable; the state may be changed in place."""
        ...


@dataclass(frozen=True, slots=True)
class Steepest(Step):
    """Along the steepest ascent by a fixed share of the radius; `momentum` is that of the normalised gradient.

    Momentum as in Dong et al. 2018 (arXiv:1710.06081): gradients are divided by their mean magnitude before summing.
    """

    share: float
    momentum: float = 0.0

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        return {"drift": torch.zeros_like(variable)} if self.momentum else {}

    def advance(self, point: Point, state: State) -> Tensor:
        gradient = point.gradient
        if self.momentum:
            scale = gradient.flatten(1).abs().mean(dim=1).clamp_min(1e-12)
            gradient = state["drift"].mul_(self.momentum).add_(gradient / wide(scale, gradient))
        direction = point.ascent(point.variable, gradient)
        return point.project(point.variable + wide(self.share * point.scene.radius, direction) * direction)
