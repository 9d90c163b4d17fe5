"""Snow whose flakes are chosen to mislead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.uar import (
    COLOUR,
    KANG,
    constant,
    need_grey_or_colour,
    share_of,
    unforeseen,
)
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Props, Scene, Threat
from holdfast.attacks.threats.balls import L1
from holdfast.attacks.threats.latent import Latent
from holdfast.core.noise import Noise
from holdfast.core.registry import register

SPACING = 4  # pixels between the flakes of one kind
LATTICE = ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0))  # where each kind has its first flake
KINDS = len(LATTICE)
REACH = 6  # pixels a streak goes to either side
BUDGET, BLOCK = 0.2, 8  # mean brightness, as a share of the radius, of every block of flakes
POWER = 4  # of the brightness, for few bright flakes among many faint ones
LUMA = (0.2126, 0.7152, 0.0722)
PALE = 0.25


@dataclass(frozen=True, slots=True)
class SnowThreat(Latent):
    """Seven kinds of streaks on shifted lattices over the paled image; a flake is as bright as the radius, or less.

    The variable is each flake's brightness in [0, radius]; the mean over every 8 x 8 flakes of a kind is a fifth of the
    radius at most. `published`: a block that spends more is dimmed as a whole, and only whole blocks are looked at;
    that is `FlakeSteps`' work, and a projection changes nothing.
    """

    name: ClassVar[str] = "snow"
    change_at_zero: ClassVar[str] = (
        "the image is paled: a quarter of it gives way to 1.5 · luma + 0.5 where that is brighter"
    )
    published: bool = False

    def shape(self, images: Tensor) -> tuple[int, ...]:
        return (KINDS, *(math.ceil(side / SPACING) for side in images.shape[2:]))

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:
        need_grey_or_colour(images, "snow")
        return {"streaks": _placed(streaks(noise.scope("snow"), draw)).to(images.dtype)}

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:  # noqa: ARG002
        """Many faint flakes and few bright ones; it spends about all there is, so there is nothing farther out."""
        brightness = (-noise.uniform("start", self.shape(scene.images), draw=draw) / BUDGET).exp()
        brightness = brightness * wide(scene.radius, brightness)
        return brightness if self.published else self.project(scene, brightness)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        n, kinds, down, across = variable.shape
        height, width = scene.images.shape[2:]
        radius = wide(scene.radius, variable)
        brightness = radius * (variable / radius.clamp_min(TINY)).pow(POWER)
        fallen = F.conv_transpose2d(
            brightness.reshape(1, n * kinds, down, across),
            scene.props["streaks"].flatten(0, 1)[:, None],
            stride=SPACING,
            groups=n,
        )[0, :, None, REACH : REACH + height, REACH : REACH + width]
        return (paled(scene.images) + fallen).clamp(0.0, 1.0)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        if self.published:
            return variable
        blocks = _blocks(variable)
        radius = scene.radius.view(-1, 1, 1).expand(blocks.shape[:3]).reshape(-1)
        limit = BUDGET * _blocks(torch.ones_like(variable)).sum(dim=-1).flatten() * radius
        flat = blocks.flatten(0, 2)
        inside = L1().nearest(flat, limit, flat.new_zeros(()), radius[:, None])
        return _joined(inside.view_as(blocks), variable)

    def dimmed(self, scene: Scene, variable: Tensor) -> Tensor:
        """Flakes in their range, and every whole block that spends more than its budget dimmed to it."""
        radius = wide(scene.radius, variable)
        variable = variable.clamp_min(0.0).minimum(radius)
        rows, columns = (side // BLOCK * BLOCK for side in variable.shape[2:])
        if rows and columns:
            whole = variable[:, :, :rows, :columns]
            mean = F.avg_pool2d(whole, BLOCK)
            share = BUDGET * radius / mean.maximum(BUDGET * radius).clamp_min(TINY)
            variable = variable.clone()
            variable[:, :, :rows, :columns] = whole * share.repeat_interleave(BLOCK, 2).repeat_interleave(BLOCK, 3)
        return variable

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        """The smallest radius whose set holds the variable; as published, whose set has no such order, the radius."""
        if self.published:
            return scene.radius
        full = _blocks(torch.ones_like(variable)).sum(dim=-1)
        mean = (_blocks(variable.abs()).sum(dim=-1) / full).flatten(1).amax(dim=1)
        return torch.maximum(variable.flatten(1).abs().amax(dim=1), mean / BUDGET)


@dataclass(frozen=True, slots=True)
class FlakeSteps(Step):
    """Sign steps of `share` · radius times the range of a flake, as published: flakes are dimmed one step late.

    A gradient is taken where a step ended, and so does the last image end; the next step starts from the dimmed flakes.
    """

    share: float

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        return {"dimmed": variable.clone()}

    def advance(self, point: Point, state: State) -> Tensor:
        assert isinstance(point.threat, SnowThreat)
        # brightness is an even power: a flake below zero has the sign of its gradient turned round
        sign = (point.gradient * point.variable.sign()).sign()
        moved = state["dimmed"] + wide(self.share * point.scene.radius.square(), sign) * sign
        state["dimmed"] = point.threat.dimmed(point.scene, moved)
        return moved


def paled(images: Tensor) -> Tensor:
    """As things look through falling snow: towards white, most where they are bright."""
    luma = images
    if images.shape[1] == COLOUR:
        luma = (images * constant(LUMA, images).view(-1, 1, 1)).sum(dim=1, keepdim=True)
    return (1 - PALE) * images + PALE * torch.maximum(images, 1.5 * luma + 0.5)


def streaks(noise: Noise, draw: Tensor) -> Tensor:
    """Per sample and kind a blurred line through the middle, (n, kinds, side, side), all leaning to the same side."""
    ends = noise.integers("end", (2, KINDS, 1, 1), low=2, high=REACH + 1, draw=draw).float()
    steep, flat = ends.amax(dim=1), ends.amin(dim=1)
    chance = noise.uniform("width", (KINDS, 1, 1), draw=draw)
    slope = flat / steep
    half = (1.0 + 2.0 * (chance > 0.6) + 2.0 * (chance > 0.9)) * (1 + slope).sqrt() / 4
    offsets = torch.arange(-REACH, REACH + 1, device=draw.device, dtype=torch.float32)
    along, beside = offsets[:, None], offsets[None, :]
    lines = (1 + half - (beside.abs() - along.abs() * slope).abs()).clamp(0.0, 1.0)
    lines = lines * ((along.abs() <= steep) & (along * beside >= 0))
    lines = torch.where(ends[:, 0] <= ends[:, 1], lines.transpose(2, 3), lines)
    flip = noise.uniform("lean", (1, 1, 1), draw=draw) < 0.5
    lines = torch.where(flip, lines.flip(3), lines)
    return _blurred(lines, 0.41 + 0.19 * noise.uniform("blur", (KINDS, 1, 1), draw=draw))


def _blurred(kernels: Tensor, sigma: Tensor) -> Tensor:
    """By a Gaussian of three points, cut off at the ends."""
    side = (-0.5 / sigma.square()).exp()
    for _ in range(2):
        padded = F.pad(kernels, (1, 1))
        kernels = (side * (padded[..., :-2] + padded[..., 2:]) + kernels) / (1 + 2 * side)
        kernels = kernels.transpose(2, 3)
    return kernels


def _placed(kernels: Tensor) -> Tensor:
    """Each kind's streak moved to where it has its first flake, so that one strided convolution places them all."""
    ends = SPACING - 1
    moved = [F.pad(kernels[:, i], (x, ends - x, y, ends - y)) for i, (y, x) in enumerate(LATTICE)]
    return torch.stack(moved, dim=1)


def _blocks(flakes: Tensor) -> Tensor:
    """(n, kinds, blocks, flakes of a block); the last blocks are filled up with zeros."""
    height, width = flakes.shape[2:]
    padded = F.pad(flakes, (0, -width % BLOCK, 0, -height % BLOCK))
    rows, columns = (side // BLOCK for side in padded.shape[2:])
    split = padded.reshape(*padded.shape[:2], rows, BLOCK, columns, BLOCK)
    return split.transpose(3, 4).flatten(4).flatten(2, 3)


def _joined(blocks: Tensor, like: Tensor) -> Tensor:
    height, width = like.shape[2:]
    rows, columns = math.ceil(height / BLOCK), math.ceil(width / BLOCK)
    split = blocks.reshape(*blocks.shape[:2], rows, columns, BLOCK, BLOCK)
    return split.transpose(3, 4).flatten(4).flatten(2, 3)[:, :, :height, :width]


@register("attack", "snow-attack", source=KANG, tags=("white box", "snow"), later=("published",))
def snow_attack(
    *, radius: float = 0.05, steps: int = 20, share: float | None = None, restarts: int = 1, published: bool = False
) -> GradientAttack:
    """Sign steps on the brightness of falling flakes, each worth up to `radius` along its streak, over a paled image.

    `share` of the radius per step; none means 1 / √steps. 20 steps and radii of 0.005 to 0.1 as in MultiRobustBench;
    the paper takes 200 steps. At radius 0 what is left is the paling.
    Differs from the published code: streaks are drawn per sample, not per batch; the budget is kept by the nearest
    point, at every step and in partial blocks (there by rescaling, not after the last step, and only where there are at
    least 8 x 8 flakes); steps are a share of a flake's range (there of the radius, so that at these radii flakes hardly
    move); a sample stops at its first success, and the best point is kept, not the last. `published` does all of this
    as the published code does, but for streaks per sample.
    """
    step = FlakeSteps(share_of(steps, share)) if published else None
    threat = SnowThreat(published=published)
    return unforeseen(threat, radius, steps, restarts, share=share, step=step, published=published)
