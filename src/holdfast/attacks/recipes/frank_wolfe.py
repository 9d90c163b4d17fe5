"""The Frank-Wolfe step: towards corners of the set instead of along the gradient, so no projection and no step size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State
from holdfast.attacks.threat import Scene, Threat


@runtime_checkable
class Cornered(Threat, Protocol):
    """A threat with a convex set that can say which of its variables lies farthest along a gradient."""

    def extreme(self, scene: Scene, gradient: Tensor) -> Tensor: ...


@runtime_checkable
class CorneredFromHere(Threat, Protocol):
    """A threat whose corners are found from where the variable stands."""

    def extreme_from(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class FrankWolfe:
    """After t steps the variable is the mean of t corners, each the farthest along the gradient where it was taken.

    The first step leaves the start behind (weight 1 / t, as Kang et al. 2019 use it for l1; Frank & Wolfe 1956). Where
    a gradient is zero every corner is as good, and the sample stays. `from_here`: a corner's room is measured from the
    variable, as in the published code.
    """

    strays: ClassVar[bool] = False
    from_here: bool = False

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        kind = CorneredFromHere if self.from_here else Cornered
        assert isinstance(threat, kind), f"`{threat.name}` does not say where its corners are"
        return {}

    def advance(self, point: Point, state: State) -> Tensor:  # noqa: ARG002
        threat, here = point.threat, point.variable
        if self.from_here:
            assert isinstance(threat, CorneredFromHere)
            corner = threat.extreme_from(point.scene, here, point.gradient)
        else:
            assert isinstance(threat, Cornered)
            corner = threat.extreme(point.scene, point.gradient)
        leads = point.gradient.flatten(1).abs().amax(dim=1) > 0
        weight = torch.where(leads, 1.0 / (point.taken + 1.0), 0.0)
        return here.lerp(corner, wide(weight, here))
