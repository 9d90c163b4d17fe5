"""Elastic transform."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.ladder import Level, corruption


class Rubber(NamedTuple):
    """For each sample where three points of the image are pulled (n, 3, 2), and a displacement (n, 2, height, width).

    Both across and down, in pixels.
    """

    corners: Tensor
    displacement: Tensor


@corruption(
    "elastic-transform",
    category="digital",
    cifar=(
        (0.0, 0.0, 32 * 0.08),
        (32 * 0.05, 32 * 0.2, 32 * 0.07),
        (32 * 0.08, 32 * 0.06, 32 * 0.06),
        (32 * 0.1, 32 * 0.04, 32 * 0.05),
        (32 * 0.1, 32 * 0.03, 32 * 0.03),
    ),
    imagenet=(
        (244 * 2.0, 244 * 0.7, 244 * 0.1),
        (244 * 2.0, 244 * 0.08, 244 * 0.2),
        (244 * 0.05, 244 * 0.01, 244 * 0.02),
        (244 * 0.07, 244 * 0.01, 244 * 0.02),
        (244 * 0.12, 244 * 0.01, 244 * 0.02),
    ),
)
class ElasticTransform:
    """Pulls the image out of shape as a whole, then wobbles it locally, as if it were printed on rubber."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Rubber:
        assert isinstance(level, tuple)
        strength, sigma, pull = level
        height, width = images.shape[2:]
        corners = square(height, width, images) + (noise.uniform("pull", (3, 2)) * 2 - 1) * pull
        wobble = noise.uniform("wobble", (2, height, width)) * 2 - 1
        smooth = blurred(wobble, sigma, truncate=3.0, border="mirror") if sigma else wobble
        return Rubber(corners, smooth * strength)

    def apply(self, images: Tensor, drawn: Rubber) -> Tensor:
        height, width = images.shape[2:]
        fixed = square(height, width, images).double()
        ones = fixed.new_ones(3, 1)
        moved = torch.cat([drawn.corners.double(), ones.expand(len(images), 3, 1)], dim=2)
        back = torch.linalg.solve(moved, fixed.expand(len(images), 3, 2)).float()  # where a pixel comes from
        grid = _places(height, width, images)
        source = back[:, 0].view(-1, 1, 1, 2) * grid[..., :1] + back[:, 1].view(-1, 1, 1, 2) * grid[..., 1:]
        pulled = _sampled(images, source + back[:, 2].view(-1, 1, 1, 2), about_centres=True)
        return _sampled(pulled, grid + drawn.displacement.movedim(1, -1), about_centres=False)


def square(height: int, width: int, like: Tensor) -> Tensor:
    """Three corners of a square around the centre, across and down."""
    x, y, side = width // 2, height // 2, min(height, width) // 3
    return like.new_tensor([[x + side, y + side], [x + side, y - side], [x - side, y - side]])


def _places(height: int, width: int, like: Tensor) -> Tensor:
    rows = torch.arange(height, dtype=like.dtype, device=like.device)
    columns = torch.arange(width, dtype=like.dtype, device=like.device)
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([across, down], dim=-1)


def _sampled(images: Tensor, places: Tensor, *, about_centres: bool) -> Tensor:
    """Images at places in pixels, bilinear, mirrored about the outermost pixels' centres or about their outer edges."""
    size = places.new_tensor([images.shape[3], images.shape[2]])
    grid = 2 * places / (size - 1).clamp_min(1) - 1 if about_centres else (2 * places + 1) / size - 1
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=about_centres)
