"""Norm balls, cut with a box: what all norms share, and the maximum norm. `balls.py` has the other norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.shapes import largest, wide
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.noise import Noise


@dataclass(frozen=True, slots=True)
class Ball(Threat):
    """What the norms share: the variable is the perturbation, and the box keeps the images valid.

    `nearest`, `spread` and `steepest` are the norm's geometry in any box around zero, for any variable.
    """

    name: ClassVar[str]
    usual_radius: ClassVar[float]
    allowed: ClassVar[str]  # what the ball allows, in words

    def identity(self, scene: Scene) -> Tensor:
        return torch.zeros_like(scene.images)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        return scene.images + variable

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        return self.norm((scene.images + variable).clamp(0.0, 1.0) - scene.images)

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        return self.project(scene, self.spread(scene.images.shape[1:], scene.radius, noise, draw, border=border))

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        return self.nearest(variable, scene.radius, -scene.images, 1.0 - scene.images)

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG002
        return self.steepest(gradient)

    def norm(self, change: Tensor) -> Tensor:
        raise NotImplementedError

    def nearest(self, change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The nearest point of ball ∩ box."""
        raise NotImplementedError

    def spread(self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool) -> Tensor:
        """A random point of the ball or, projected, of its border."""
        raise NotImplementedError

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of length one along which the objective rises fastest."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Linf(Ball):
    """Every pixel entry may move by the radius."""

    name: ClassVar[str] = "linf"
    usual_radius: ClassVar[float] = 8 / 255
    allowed: ClassVar[str] = "every pixel may move by `radius`"

    def norm(self, change: Tensor) -> Tensor:
        return largest(change)

    def nearest(self, change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        reach = wide(radius, change)
        return change.clamp(-reach, reach).clamp(low, high)

    def spread(self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool) -> Tensor:
        spread = noise.uniform("start", shape, draw=draw) * 2.0 - 1.0
        if border:
            spread = spread / wide(self.norm(spread), spread)
        return spread * wide(radius, spread)

    def steepest(self, gradient: Tensor) -> Tensor:
        return gradient.sign()
