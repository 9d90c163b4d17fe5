"""The l2 and the l1 ball, and all norm balls by name. Projections are onto ball ∩ box, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.norm_ball import Ball, Linf
from holdfast.attacks.threats.projections import movable, nearest_in_l1, nearest_in_l2, sparse_ascent
from holdfast.core.noise import Noise

__all__ = ["L1", "L2", "NORMS", "Ball", "Linf"]


@dataclass(frozen=True, slots=True)
class L2(Ball):
    """The image may move by the radius in Euclidean length."""

    name: ClassVar[str] = "l2"
    usual_radius: ClassVar[float] = 0.5
    allowed: ClassVar[str] = "the image may move by `radius` in Euclidean length"

    def norm(self, change: Tensor) -> Tensor:
        return length(change)

    nearest = staticmethod(nearest_in_l2)

    def spread(self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool) -> Tensor:
        """Uniform in the ball or on its border."""
        way = noise.normal("start", shape, draw=draw)
        far = radius
        if not border:
            far = far * noise.uniform("start length", (), draw=draw).pow(1.0 / way[0].numel())
        return way * wide(far / length(way).clamp_min(TINY), way)

    def steepest(self, gradient: Tensor) -> Tensor:
        return gradient / wide(length(gradient).clamp_min(TINY), gradient)


@dataclass(frozen=True, slots=True)
class L1(Ball):
    """The absolute changes of all pixel entries may add up to the radius.

    A `share` of the entries take part in a steepest step: those of largest gradient that the box still lets move. One
    entry alone would be steepest, and slow (Tramèr & Boneh 2019, arXiv:1904.13000).
    """

    name: ClassVar[str] = "l1"
    usual_radius: ClassVar[float] = 12.0
    allowed: ClassVar[str] = "the changes of all pixels may add up to `radius`"
    share: float = 0.01

    def norm(self, change: Tensor) -> Tensor:
        return change.flatten(1).abs().sum(dim=1)

    def spread(self, shape: Sequence[int], radius: Tensor, noise: Noise, draw: Tensor, *, border: bool) -> Tensor:
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


NORMS: dict[str, Ball] = {ball.name: ball for ball in (Linf(), L2(), L1())}
