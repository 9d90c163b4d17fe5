"""Flow: every pixel takes its colour from a point beside its own; StAdv optimises it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.adam import Smoothness, adam_on_margin
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.latent import Latent
from holdfast.core.registry import register


@dataclass(frozen=True, slots=True)
class Flow(Latent):
    """Every pixel takes its colour from a place up to the radius away along both axes, but not from outside the image.

    One unit is half the image: at 32 pixels, 0.05 is 0.8 of a pixel. The variable is (across, down) for every pixel.
    """

    name: ClassVar[str] = "flow"

    def shape(self, images: Tensor) -> tuple[int, ...]:
        return (2, *images.shape[2:])

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        to_edge = (pixel_centres(scene.images) + 0.5) / halves(scene.images)
        return self.ball.nearest(variable, scene.radius, -to_edge, 2.0 - to_edge)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        return sampled(scene.images, pixel_centres(scene.images) + variable * halves(scene.images))


def pixel_centres(images: Tensor) -> Tensor:
    """Where every pixel lies, across and down, in pixels from the centre of the first."""
    height, width = images.shape[2:]
    rows = torch.arange(height, dtype=images.dtype, device=images.device)
    columns = torch.arange(width, dtype=images.dtype, device=images.device)
    return torch.stack(torch.meshgrid(columns, rows, indexing="xy"))


def sampled(images: Tensor, at: Tensor) -> Tensor:
    """The images at places (across, down) in pixels, for every sample and pixel; bilinear, black outside."""
    grid = (at + 0.5) / halves(images) - 1.0
    return F.grid_sample(images, grid.movedim(1, -1), mode="bilinear", padding_mode="zeros", align_corners=False)


def halves(images: Tensor) -> Tensor:
    """Half the width and half the height, in pixels."""
    height, width = images.shape[2:]
    return torch.stack([images.new_full((1, 1), width / 2), images.new_full((1, 1), height / 2)])


@register(
    "attack",
    "stadv",
    source="Xiao et al. 2018, arXiv:1801.02612, as in perceptual-advex (Laidlaw et al. 2021, arXiv:2006.12655)",
    tags=("white box", "flow"),
    later=("published",),
)
def stadv(
    *, radius: float = 0.05, steps: int = 20, rate: float | None = 0.01, published: bool = False
) -> GradientAttack:
    """Moves pixels along a smooth flow of up to `radius`, where 1 is half the image: Adam on the margin.

    `steps` is 20 in perceptual-advex and MultiRobustBench, 100 or 200 in OODRobustBench. `rate` is Adam's; none means
    radius / 18, as in MultiRobustBench. The objective is the margin less 0.0025 / radius times the roughness of the
    flow; whether a sample is broken is decided by its class alone.
    Differs from the published code: a sample stops at its first success and the best flow is kept, not the last; images
    need not be square. `published` is as strong as the published code: every step on every sample, the last flow.
    """
    return adam_on_margin(Flow(), Smoothness(0.0025), radius, steps, rate, published=published)
