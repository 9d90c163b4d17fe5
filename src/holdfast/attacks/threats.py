"""Threats: what an attacker may change, as geometry. The norm balls, cut with the box of valid images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide
from holdfast.core.noise import Noise


class Threat(Protocol):
    """A set of changes around each image. All tensors are per sample in their first dimension; radii too.

    The `variable` is what an attack moves: for norm balls the perturbation itself.
    """

    @property
    def name(self) -> str: ...

    def identity(self, images: Tensor) -> Tensor:
        """The variable that changes nothing."""
        ...

    def start(self, images: Tensor, radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        """A random variable inside the set, or as far out as the radius allows."""
        ...

    def render(self, images: Tensor, variable: Tensor) -> Tensor:
        """The images as changed by the variable; gradients flow to the variable."""
        ...

    def project(self, images: Tensor, variable: Tensor, radius: Tensor) -> Tensor:
        """The nearest variable inside the set."""
        ...

    def ascent(self, gradient: Tensor) -> Tensor:
        """The direction of size one along which the objective rises fastest."""
        ...

    def size(self, images: Tensor, changed: Tensor) -> Tensor:
        """The size of the change, measured on the final images."""
        ...


@dataclass(frozen=True, slots=True)
class Linf:
    """Every pixel entry may move by the radius."""

    name: str = "linf"

    def identity(self, images: Tensor) -> Tensor:
        return torch.zeros_like(images)

    def start(self, images: Tensor, radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        spread = noise.uniform("start", images.shape[1:], draw=draw) * 2.0 - 1.0
        if border:
            spread = spread / wide(spread.flatten(1).abs().amax(dim=1), spread)
        return self.project(images, spread * wide(radius, images), radius)

    def render(self, images: Tensor, variable: Tensor) -> Tensor:
        return images + variable

    def project(self, images: Tensor, variable: Tensor, radius: Tensor) -> Tensor:
        reach = wide(radius, images)
        low, high = torch.maximum(-reach, -images), torch.minimum(reach, 1.0 - images)
        return torch.maximum(torch.minimum(variable, high), low)

    def ascent(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def size(self, images: Tensor, changed: Tensor) -> Tensor:
        return (changed - images).flatten(1).abs().amax(dim=1)


@dataclass(frozen=True, slots=True)
class L2:
    """The image may move by the radius in Euclidean length."""

    name: str = "l2"

    def identity(self, images: Tensor) -> Tensor:
        return torch.zeros_like(images)

    def start(self, images: Tensor, radius: Tensor, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        """Uniform in the ball or on its border, then into the box."""
        way = noise.normal("start", images.shape[1:], draw=draw)
        far = radius
        if not border:
            far = far * noise.uniform("start length", (), draw=draw).pow(1.0 / images.shape[1:].numel())
        return self.project(images, self.ascent(way) * wide(far, images), radius)

    def render(self, images: Tensor, variable: Tensor) -> Tensor:
        return images + variable

    def project(self, images: Tensor, variable: Tensor, radius: Tensor) -> Tensor:
        """The nearest point of ball ∩ box is clip(s · variable) for one s per image, found exactly.

        With the clipped entries fixed, s = √((r² - |clipped|²) / |free|²); entries only ever join the clipped ones as s
        grows, so the iteration ends after a few rounds.
        """
        low, high = -images, 1.0 - images
        inside = torch.maximum(torch.minimum(variable, high), low)
        limit = radius.square()
        if bool((inside.flatten(1).square().sum(1) <= limit).all()):
            return inside
        scale = (radius / _length(variable).clamp_min(TINY)).clamp_max(1.0)
        for _ in range(ROUNDS):
            moved = variable * wide(scale, images)
            clipped = torch.maximum(torch.minimum(moved, high), low)
            free = clipped == moved
            fixed = (clipped * ~free).flatten(1).square().sum(1)
            loose = (variable * free).flatten(1).square().sum(1)
            better = ((limit - fixed).clamp_min(0.0) / loose.clamp_min(TINY)).sqrt().clamp_max(1.0)
            if bool((better <= scale * (1 + 1e-6)).all()):
                break
            scale = torch.maximum(scale, better)
        moved = torch.maximum(torch.minimum(variable * wide(scale, images), high), low)
        excess = _length(moved) / radius.clamp_min(TINY)
        return moved / wide(excess.clamp_min(1.0), images)

    def ascent(self, gradient: Tensor) -> Tensor:
        return gradient / wide(_length(gradient).clamp_min(TINY), gradient)

    def size(self, images: Tensor, changed: Tensor) -> Tensor:
        return _length(changed - images)


TINY = 1e-12
ROUNDS = 20


def _length(change: Tensor) -> Tensor:
    return change.flatten(1).square().sum(dim=1).sqrt()
