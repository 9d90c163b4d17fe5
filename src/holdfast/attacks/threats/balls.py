"""The norm balls, cut with the box of valid images or any other. Projections are onto the cut, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.threat import Props, Scene, Threat
from holdfast.attacks.threats.projections import farthest_in_l1, movable, nearest_in_l1, nearest_in_l2, sparse_ascent
from holdfast.core.noise import Noise

FAR = 1e6


@dataclass(frozen=True, slots=True)
class Ball(Threat):
    """What the norms share: the variable is the perturbation, and the box keeps the images valid.

    `nearest`, `spread`, `steepest` and `farthest` are the norm's geometry in any box [low, high] around zero, for
    threats that bound a variable of another kind.
    """

    name: ClassVar[str]

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        return {}

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

    def extreme(self, scene: Scene, gradient: Tensor) -> Tensor:
        """The variable of the set that lies farthest along the gradient."""
        return self.farthest(gradient, scene.radius, -scene.images, 1.0 - scene.images)

    def norm(self, change: Tensor) -> Tensor:
        raise NotImplementedError

    def nearest(self, change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The nearest point of ball ∩ box."""
        raise NotImplementedError

    def spread(
        self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False
    ) -> Tensor:
        """A random point of the ball or, projected, of its border."""
        raise NotImplementedError

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of length one along which the objective rises fastest."""
        raise NotImplementedError

    def farthest(self, gradient: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The point of ball ∩ box that lies farthest along the gradient."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Linf(Ball):
    """Every pixel entry may move by the radius."""

    name: ClassVar[str] = "linf"

    def norm(self, change: Tensor) -> Tensor:
        return change.flatten(1).abs().amax(dim=1)

    def nearest(self, change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        reach = wide(radius, change)
        return change.clamp(-reach, reach).clamp(low, high)

    def spread(
        self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False
    ) -> Tensor:
        spread = noise.uniform("start", shape, draw=draw) * 2.0 - 1.0
        if border:
            spread = spread / wide(self.norm(spread), spread)
        return spread * wide(radius, spread)

    def steepest(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def farthest(self, gradient: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return self.nearest(gradient.sign() * wide(radius, gradient), radius, low, high)


@dataclass(frozen=True, slots=True)
class L2(Ball):
    """The image may move by the radius in Euclidean length."""

    name: ClassVar[str] = "l2"

    def norm(self, change: Tensor) -> Tensor:
        return length(change)

    nearest = staticmethod(nearest_in_l2)

    def spread(
        self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False
    ) -> Tensor:
        """Uniform in the ball or on its border."""
        way = noise.normal("start", shape, draw=draw)
        far = radius
        if not border:
            far = far * noise.uniform("start length", (), draw=draw).pow(1.0 / way[0].numel())
        return way * wide(far / length(way).clamp_min(TINY), way)

    def steepest(self, gradient: Tensor) -> Tensor:
        return gradient / wide(length(gradient).clamp_min(TINY), gradient)

    def farthest(self, gradient: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Where the nearest points to a multiple of the gradient end up as the multiple grows."""
        steep = gradient.flatten(1).abs().amax(dim=1).clamp_min(TINY)
        return self.nearest(gradient * wide(FAR / steep, gradient), radius, low, high)


@dataclass(frozen=True, slots=True)
class L1(Ball):
    """The absolute changes of all pixel entries may add up to the radius.

    A `share` of the entries take part in a steepest step: those of largest gradient that the box still lets move. One
    entry alone would be steepest, and slow (Tramèr & Boneh 2019, arXiv:1904.13000).
    """

    name: ClassVar[str] = "l1"
    share: float = 0.01

    def norm(self, change: Tensor) -> Tensor:
        return change.flatten(1).abs().sum(dim=1)

    def spread(
        self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False
    ) -> Tensor:
        """A Gaussian, to be cast onto the border, or uniform in the ball (exponential magnitudes)."""
        if border:
            return noise.normal("start", shape, draw=draw)
        magnitude = -noise.uniform("start", shape, draw=draw).log()
        sign = noise.uniform("start sign", shape, draw=draw).sub_(0.5).sign()
        spare = -noise.uniform("start length", (), draw=draw).log()
        return sign * magnitude * wide(radius / (magnitude.flatten(1).sum(1) + spare), magnitude)

    nearest = staticmethod(nearest_in_l1)

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:
        return self.steepest(gradient * movable(scene, variable, gradient))

    def steepest(self, gradient: Tensor) -> Tensor:
        return sparse_ascent(gradient, torch.full((len(gradient),), self.share, device=gradient.device))

    farthest = staticmethod(farthest_in_l1)


class Norm(NamedTuple):
    """A norm ball with its usual radius and what it allows, in words."""

    ball: Ball
    radius: float
    allowed: str


NORMS = {
    "linf": Norm(Linf(), 8 / 255, "every pixel may move by `radius`"),
    "l2": Norm(L2(), 0.5, "the image may move by `radius` in Euclidean length"),
    "l1": Norm(L1(), 12.0, "the changes of all pixels may add up to `radius`"),
}
