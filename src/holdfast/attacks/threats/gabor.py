"""Gabor noise: sparse specks, spread by a wave with few or many directions, chosen to mislead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.uar import KANG, LEVELS, StepsInRadii, share_of, unforeseen
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.threat import Props, Scene
from holdfast.attacks.threats.latent import Latent
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register
from holdfast.corruptions.plasma import stretched

SIDE = 23  # pixels of a kernel
DIRECTIONS = 10
FLATNESS = 1e-3
DENSITY = 1 / 14


@dataclass(frozen=True, slots=True)
class Gabor(Latent):
    """Noise from 0 to the radius in grey levels, the same in all channels.

    The variable holds the specks, at a share `density` of the pixels that is drawn once per sample. Only its shape
    counts: noise is stretched to its full range. `straight_through`: gradients take the evening out as constant.
    `published`: specks are where they were drawn at the start, and from the first step on at all other pixels;
    gradients take the mean and the range of the noise as constant too.
    """

    name: ClassVar[str] = "gabor"
    density: float = DENSITY
    straight_through: bool = False
    published: bool = False

    def shape(self, images: Tensor) -> tuple[int, ...]:
        return tuple(images.shape[2:])

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:
        noise = noise.scope("gabor")
        specks = noise.uniform("specks", self.shape(images), draw=draw) < self.density
        return {"specks": specks, "kernel": kernels(noise, draw).to(images.dtype)}

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        specks = self.ball.spread(self.shape(scene.images), scene.radius, noise, draw, border=border)
        return specks * scene.props["specks"]

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        waves = spread(variable if self.published else variable * scene.props["specks"], scene.props["kernel"])
        if self.published:
            noise = with_constant_range(waves)[:, None]
        else:
            noise = stretched(evened(waves, straight_through=self.straight_through))[:, None]
        return (scene.images + wide(scene.radius / LEVELS, noise) * noise).clamp(0.0, 1.0)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        reach = wide(scene.radius, variable)
        return variable.clamp(-reach, reach) * (scene.props["specks"] ^ self.published)

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        """As published the radius itself: noise grows with it and not with the specks."""
        return scene.radius if self.published else self.ball.norm(variable)


def kernels(noise: Noise, draw: Tensor) -> Tensor:
    """A Gaussian times waves in 1 to 10 directions, evenly turned, per sample (n, 23, 23)."""

    def drawn(purpose: str) -> Tensor:
        return noise.uniform(purpose, (1, 1, 1), draw=draw)

    directions = noise.integers("directions", (1, 1, 1), low=1, high=DIRECTIONS + 1, draw=draw)
    number = torch.arange(DIRECTIONS, device=draw.device)[:, None, None]
    angle = math.pi * (drawn("angle") + number / directions)
    waves = 3 + (SIDE / 4 - 3) * drawn("waves")  # across the kernel
    sigma = 0.1 + 0.3 * drawn("width") + 1e-3  # of the kernel's side
    x = torch.linspace(-0.5, 0.5, SIDE, device=draw.device)
    y = x[:, None]
    envelope = (-0.5 * (x.square() + y.square()) / sigma[:, 0].square()).exp()
    wave = (2 * math.pi * waves * (x * angle.cos() + y * angle.sin())).cos()
    return envelope * (wave * (number < directions)).sum(dim=1)


def spread(specks: Tensor, kernel: Tensor) -> Tensor:
    """Every sample's specks convolved with its own kernel; beyond the image there are none."""
    height, width = specks.shape[1:]
    reach = SIDE // 2
    size = (height + reach, width + reach)  # enough: what comes round falls on pixels that are cut off
    waves: Tensor = torch.fft.irfft2(torch.fft.rfft2(specks, s=size) * torch.fft.rfft2(kernel, s=size), s=size)
    return waves[:, reach:, reach:]


def evened(waves: Tensor, *, straight_through: bool = False) -> Tensor:
    """Waves about zero with all crests about as high: what lies well off the mean goes to its extreme."""
    centred = waves - waves.mean(dim=(1, 2), keepdim=True)
    gain = gain_of(centred)
    return centred * (gain.detach() if straight_through else gain)


def gain_of(centred: Tensor) -> Tensor:
    """What evening multiplies every pixel by: the more, the closer it is to the mean."""
    height = centred.abs()
    highest = height.amax(dim=(1, 2), keepdim=True).clamp_min(TINY)
    return (1 + FLATNESS) / (FLATNESS + height / highest)


def with_constant_range(waves: Tensor) -> Tensor:
    """Waves evened and stretched, with gradients as if that were a fixed linear map of every pixel, as published."""
    with torch.no_grad():
        mean = waves.mean(dim=(1, 2), keepdim=True)
        gain = gain_of(waves - mean)
        even = (waves - mean) * gain
        low, high = even.amin(dim=(1, 2), keepdim=True), even.amax(dim=(1, 2), keepdim=True)
    return ((waves - mean) * gain - low) / (high - low).clamp_min(TINY)


@register("attack", "gabor-attack", source=KANG, tags=("white box", "gabor"), later=("published",))
def gabor_attack(
    *,
    radius: float = 5.0,
    steps: int = 20,
    share: float | None = None,
    restarts: int = 1,
    density: float = DENSITY,
    straight_through: bool = False,
    published: bool = False,
) -> GradientAttack:
    """Sign steps on the specks that make up Gabor noise, which brightens by up to `radius` grey levels (of 255).

    `share` of the radius per step; none means 1 / √steps. 20 steps and radii of 0.5 to 10 as in MultiRobustBench; the
    paper takes 200 steps. `density`: the share of pixels with a speck. `straight_through`: gradients take the factor
    that evens out the noise as constant, as published; it matters for dense specks and large radii.
    Differs from the published code: specks stay where they were drawn (there the mask is the wrong way round, and from
    the first step on all other pixels hold specks, for which `density=1` stands in); steps are a share of a speck's
    range (there they have the size of the radius in grey levels); gradients are exact unless asked otherwise; a sample
    stops at its first success, and the best point is kept, not the last. `published` does all of this as the published
    code does.
    """
    if not 0 < density <= 1:
        raise Misuse(f"density is a share of the pixels, got {density}")
    threat = Gabor(density=density, straight_through=straight_through, published=published)
    step = StepsInRadii(share_of(steps, share)) if published else None
    return unforeseen(threat, radius, steps, restarts, share=share, step=step, published=published)
