"""Elastic deformations: every pixel is fetched from a little beside its place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.uar import KANG, unforeseen
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.flow import halves, pixel_centres, sampled
from holdfast.attacks.threats.latent import Latent
from holdfast.core.registry import register

SIGMA = 3 / 224  # of the image's side; the published kernels of 25 and 5 pixels reach four of these


@dataclass(frozen=True, slots=True)
class Elastic(Latent):
    """A flow of up to the radius in pixels along either axis, then smoothed, which can only shorten it.

    Outside the image it is black. With `published_grid` pixels are fetched from where the published code has them.
    """

    name: ClassVar[str] = "elastic"
    published_grid: bool = False

    @property
    def change_at_zero(self) -> str:
        return "the image is enlarged by side / (side - 1), its border half black" if self.published_grid else ""

    def shape(self, images: Tensor) -> tuple[int, ...]:
        return (2, *images.shape[2:])

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        images = scene.images
        still = pixel_centres(images)
        if self.published_grid:
            still = still * (halves(images) / (halves(images) - 0.5)) - 0.5
        return sampled(images, still + smoothed(variable, sigma=SIGMA * min(images.shape[2:])))


def smoothed(fields: Tensor, *, sigma: float) -> Tensor:
    """Every channel blurred by a Gaussian, mirrored at the borders."""
    channels, reach = fields.shape[1], math.ceil(4 * sigma)
    offsets = torch.arange(-reach, reach + 1, device=fields.device, dtype=fields.dtype)
    weights = (-0.5 * (offsets / sigma).square()).exp()
    weights = (weights / weights.sum()).expand(channels, 1, 1, -1)
    padded = F.pad(fields, (reach,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(padded, weights, groups=channels), weights.transpose(2, 3), groups=channels)


@register("attack", "elastic", source=KANG, tags=("white box", "elastic"), later=("published",))
def elastic(
    *,
    radius: float = 0.5,
    steps: int = 20,
    share: float | None = None,
    restarts: int = 1,
    published_grid: bool = False,
    published: bool = False,
) -> GradientAttack:
    """Sign steps on a smoothed flow field: every pixel is fetched from up to `radius` pixels away per axis.

    `share` of the radius per step; none means 1 / √steps. 20 steps as in MultiRobustBench, whose radii for CIFAR-10 are
    0.05 to 1; the paper takes 200.
    Differs from the published code: no flow is no change (there, with torch 1.3 or later, pixels are placed by one
    convention and fetched by another, which at any radius enlarges the image by 32/31 and halves its border:
    `published_grid` does so too); the blur's width follows the image's size (5 pixels at 32 and 25 at 224, as
    published); a sample stops at its first success, and the best point is kept, not the last. `published` is as strong
    as the published code: its grid, every step on every sample, the last point.
    """
    threat = Elastic(published_grid=published_grid or published)
    return unforeseen(threat, radius, steps, restarts, share=share, published=published)
