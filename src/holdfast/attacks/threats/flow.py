"""Flow: every pixel takes its colour from a place beside its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.latent import Latent


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
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([across, down])


def sampled(images: Tensor, at: Tensor) -> Tensor:
    """The images at places (across, down) in pixels, for every sample and pixel; bilinear, black outside."""
    grid = (at + 0.5) / halves(images) - 1.0
    return F.grid_sample(images, grid.movedim(1, -1), mode="bilinear", padding_mode="zeros", align_corners=False)


def halves(images: Tensor) -> Tensor:
    """Half the width and half the height, in pixels."""
    height, width = images.shape[2:]
    return torch.stack([images.new_full((1, 1), width / 2), images.new_full((1, 1), height / 2)])
