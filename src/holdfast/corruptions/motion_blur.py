"""Motion blur."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import corruption


class Motion(NamedTuple):
    """The direction of each sample, in radians, and the shape of the trail."""

    angle: Tensor
    radius: float
    sigma: float


@corruption(
    "motion-blur",
    category="blur",
    cifar=((6.0, 1.0), (6.0, 1.5), (6.0, 2.0), (8.0, 2.0), (9.0, 2.5)),
    imagenet=((10.0, 3.0), (15.0, 5.0), (15.0, 8.0), (15.0, 12.0), (20.0, 15.0)),
)
class MotionBlur:
    """Smears to one side, in a random direction within 45° of the rows, as a moving camera does."""

    def draw(self, images: Tensor, level: tuple[float, float], noise: Noise) -> Motion:  # noqa: ARG002
        return Motion((noise.uniform("angle", ()) - 0.5) * (math.pi / 2), *level)

    def apply(self, images: Tensor, drawn: Motion) -> Tensor:
        return smeared(images, drawn.angle, radius=drawn.radius, sigma=drawn.sigma)


def smeared(images: Tensor, angle: Tensor, *, radius: float, sigma: float) -> Tensor:
    """Images (n, c, height, width) smeared to one side, each at its own angle in radians, 0 along the rows.

    A half Gaussian of `sigma`, at 2 · `radius` + 1 places one pixel apart, rounded to whole pixels; beyond the border
    lies the border's colour. What would come from farther than the image is long is left out and not made up for.
    """
    height, width = images.shape[2:]
    steps = torch.arange(int(radius) * 2 + 1, dtype=torch.float64)
    weights = torch.exp(-steps.square() / (2 * sigma**2))
    weights = weights / weights.sum()
    turn = angle.double().cpu()[:, None]
    down = -torch.ceil(steps * torch.sin(turn) - 0.5).long()
    across = -torch.ceil(steps * torch.cos(turn) - 0.5).long()
    inside = ((down.abs() < height) & (across.abs() < width)).cummin(dim=1).values
    weights = weights * inside
    return (_one_by_one if images.device.type == "cpu" else _together)(images, down, across, weights.float())


def _one_by_one(images: Tensor, down: Tensor, across: Tensor, weights: Tensor) -> Tensor:
    """Copies as windows on a wider image: quick where a call costs little."""
    height, width = images.shape[2:]
    margin = [int(edge) for edge in (across.amax(), -across.amin(), down.amax(), -down.amin())]
    left, right, top, bottom = (max(0, edge) for edge in margin)
    wide = F.pad(images, (left, right, top, bottom), mode="replicate")
    total = torch.zeros_like(images)
    for i, shifts in enumerate(zip(down.tolist(), across.tolist(), weights.tolist(), strict=True)):
        for y, x, weight in zip(*shifts, strict=True):
            if weight:
                window = wide[i, :, top - y : top - y + height, left - x : left - x + width]
                total[i].add_(window, alpha=weight)
    return total


def _together(images: Tensor, down: Tensor, across: Tensor, weights: Tensor) -> Tensor:
    """Each copy of all images at once: few calls, for a GPU."""
    height, width = images.shape[2:]
    down, across, weights = (part.to(images.device) for part in (down, across, weights))
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    samples = torch.arange(len(images), device=images.device)[:, None, None]
    total, source = torch.zeros_like(images), images.permute(0, 2, 3, 1)
    for step in range(down.shape[1]):
        y = (rows - down[:, step, None]).clamp(0, height - 1)
        x = (columns - across[:, step, None]).clamp(0, width - 1)
        window = source[samples, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)
        total += weights[:, step, None, None, None] * window
    return total
