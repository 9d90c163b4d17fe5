"""The l2 and the l1 ball, and all norm balls by name. Projections are onto ball ∩ box: the nearest point, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, length, may_stop_early, wide
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.norm_ball import Ball, Linf
from holdfast.core.noise import Noise

ROUNDS, GPU_ROUNDS = 20, 7  # a CPU stops once it is exact, a GPU cannot ask: what is left then is cut, never outside
ROOM = 1e-5  # an entry nearer than this to the end of the box has nowhere to go


def nearest_in_l2(change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The nearest point of ball ∩ box is clip(s · change) for one s per image, found exactly.

    With the clipped entries fixed, s = √((r² - |clipped|²) / |free|²); entries only ever join the clipped ones as s
    grows, so the iteration ends after a few rounds.
    """
    limit = radius.square()
    inside = change.clamp(low, high)
    if may_stop_early(inside.flatten(1).square().sum(1) <= limit):
        return inside
    scale = (radius / length(change).clamp_min(TINY)).clamp_max(1.0)
    for _ in range(rounds(change)):
        moved = change * wide(scale, change)
        clipped = moved.clamp(low, high)
        free = clipped == moved
        fixed = (clipped * ~free).flatten(1).square().sum(1)
        loose = (change * free).flatten(1).square().sum(1)
        better = ((limit - fixed).clamp_min(0.0) / loose.clamp_min(TINY)).sqrt().clamp_max(1.0)
        if may_stop_early(better <= scale * (1 + 1e-6)):
            break
        scale = torch.maximum(scale, better)
    moved = (change * wide(scale, change)).clamp(low, high)
    excess = length(moved) / radius.clamp_min(TINY)
    return moved / wide(excess.clamp_min(1.0), change)


def nearest_in_l1(change: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The nearest point of ball ∩ box is clip(shrink(change, t)) for one threshold t per image.

    Its l1 length falls with t, linearly between kinks: Newton steps inside a shrinking bracket find t exactly.
    """
    flat = change.flatten(1)
    size, cap = flat.abs(), torch.where(change > 0, high, -low).flatten(1)
    if may_stop_early(torch.minimum(size, cap).sum(1) <= radius):
        return change.clamp(low, high)
    under = torch.zeros_like(radius)  # too long here, or long enough to leave as it is
    over = size.amax(dim=1)
    at = under
    for _ in range(2 * rounds(change)):
        left = size - at[:, None]
        kept = left.clamp_min(0.0).minimum(cap)
        excess = kept.sum(1) - radius
        exact = (excess.abs() <= 1e-6 * radius) | ((at == 0) & (excess <= 0))
        if may_stop_early(exact):
            break
        under, over = torch.where(excess > 0, at, under), torch.where(excess > 0, over, at)
        sliding = ((left > 0) & (left < cap)).sum(1)
        newton = at + excess / sliding.clamp_min(1)
        good = (sliding > 0) & (newton > under) & (newton < over)
        at = torch.where(exact, at, torch.where(good, newton, (under + over) / 2))
    kept = (size - at[:, None]).clamp_min(0.0).minimum(cap)
    kept = kept * (radius / kept.sum(1).clamp_min(TINY)).clamp_max(1.0)[:, None]
    return (kept * flat.sign()).view_as(change)


def farthest_in_l1(gradient: Tensor, radius: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Entries go to their end of the box, steepest first, until the radius is spent."""
    flat = gradient.flatten(1)
    order = flat.abs().argsort(dim=1, descending=True, stable=True)
    cap = torch.where(gradient > 0, high, -low).flatten(1).gather(1, order).minimum(radius[:, None])
    spent = cap.cumsum(dim=1) - cap
    moved = (radius[:, None] - spent).clamp_min(0.0).minimum(cap)
    return (torch.zeros_like(flat).scatter(1, order, moved) * flat.sign()).view_as(gradient)


def rounds(change: Tensor) -> int:
    """How often a projection may look again."""
    return GPU_ROUNDS if change.is_cuda else ROUNDS


def boxed(scene: Scene, change: Tensor) -> Tensor:
    """The change cut so that the images stay valid."""
    return change.clamp(-scene.images, 1.0 - scene.images)


def movable(scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:
    """Entries that the box still lets move along the gradient."""
    changed = scene.images + variable
    return torch.where(gradient > 0, changed < 1.0 - ROOM, changed > ROOM)


def sparse_ascent(gradient: Tensor, share: Tensor) -> Tensor:
    """Signs of the largest entries, a `share` of all per sample, of l1 length one."""
    magnitude = gradient.flatten(1).abs()
    entries = magnitude.shape[1]
    rank = ((1.0 - share) * entries).long().clamp(0, entries - 1)
    least = magnitude.sort(dim=1).values.gather(1, rank[:, None])
    signs = torch.where(magnitude >= least, gradient.flatten(1).sign(), 0.0)
    return (signs / signs.abs().sum(1, keepdim=True).clamp_min(1.0)).view_as(gradient)


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
