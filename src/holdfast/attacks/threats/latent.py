"""Threats that move something other than the image: a flow, a table of colours, coefficients, a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import Ball, Linf
from holdfast.core.noise import Noise


@dataclass(frozen=True, slots=True)
class Latent(Threat):
    """A threat whose variable is not the image: it lies in a norm ball of its own, in the units of the radius.

    `cap` limits every entry, whatever the radius.
    """

    ball: Ball = field(default_factory=Linf)
    cap: float = math.inf

    def shape(self, images: Tensor) -> tuple[int, ...]:
        """The shape of one sample's variable."""
        raise NotImplementedError

    def identity(self, scene: Scene) -> Tensor:
        return scene.images.new_zeros(len(scene), *self.shape(scene.images))

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        spread = self.ball.spread(self.shape(scene.images), scene.radius, noise, draw, border=border)
        return self.project(scene, spread)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        cap = variable.new_full((), self.cap)
        return self.ball.nearest(variable, scene.radius, -cap, cap)

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG002
        return self.ball.steepest(gradient)

    def size(self, scene: Scene, variable: Tensor) -> Tensor:  # noqa: ARG002
        return self.ball.norm(variable)
