"""Elastic transform."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.ladder import corruption


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

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Rubber:
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
        size = images.new_tensor([width, height])
        grid, centres, edges = _points(height, width, images), 2 / (size - 1).clamp_min(1), 2 / size
        back = back * centres  # pixels' centres lie from -1 to 1 then
        pulled = _sampled(images, torch.matmul(grid, back[:, :2]) + (back[:, 2:] - 1), about_centres=True)
        wobbled = torch.addcmul((grid + 0.5) * edges - 1, drawn.displacement.flatten(2).transpose(1, 2), edges)
        return _sampled(pulled, wobbled, about_centres=False)


def square(height: int, width: int, like: Tensor) -> Tensor:
    """Three corners of a square around the centre, across and down."""
    x, y, side = width // 2, height // 2, min(height, width) // 3
    return like.new_tensor([[x + side, y + side], [x + side, y - side], [x - side, y - side]])


def _points(height: int, width: int, like: Tensor) -> Tensor:
    """Across and down, of every pixel, (height · width, 2)."""
    rows = torch.arange(height, dtype=like.dtype, device=like.device)
    columns = torch.arange(width, dtype=like.dtype, device=like.device)
    return torch.cartesian_prod(rows, columns).flip(1)


def _sampled(images: Tensor, points: Tensor, *, about_centres: bool) -> Tensor:
    """Images at places, bilinear; they are mirrored at -1 and 1, the outermost centres or edges."""
    grid = points.view(len(images), *images.shape[2:], 2)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=about_centres)
