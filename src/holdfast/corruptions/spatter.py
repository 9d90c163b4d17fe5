"""Spatter."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.colour import tinted
from holdfast.corruptions.defocus_blur import mirrored
from holdfast.corruptions.edges import box_mean, distances, edges, equalised
from holdfast.corruptions.ladder import LEVELS, Level, corruption

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
EMBOSS = ((-2.0, -1.0, 0.0), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0))
FAR = 20.0  # pixels: beyond that from an edge, a drop is flat
SOLID = 0.8


class Drops(NamedTuple):
    """How much of each pixel is covered, (n, 1, height, width), and whether by mud rather than water."""

    cover: Tensor
    mud: bool


@corruption(
    "spatter",
    category="weather",
    cifar=(
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1.0, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    imagenet=(
        (0.65, 0.3, 4.0, 0.69, 0.6, 0),
        (0.65, 0.3, 3.0, 0.68, 0.6, 0),
        (0.65, 0.3, 2.0, 0.68, 0.5, 0),
        (0.65, 0.3, 1.0, 0.65, 1.5, 1),
        (0.67, 0.4, 1.0, 0.65, 1.5, 1),
    ),
    extra=True,
)
class Spatter:
    """Drops on the lens: water that shines at severities 1 to 3, mud that covers at 4 and 5."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Drops:
        assert isinstance(level, tuple)
        mean, spread, sigma, threshold, strength, mud = level
        liquid = blurred(noise.normal("liquid", (1, *images.shape[2:])) * spread + mean, sigma)
        if mud:
            cover = blurred((liquid > threshold).float(), strength)
            return Drops(torch.where(cover < SOLID, 0.0, cover), mud=True)
        layer = (torch.where(liquid < threshold, 0.0, liquid) * LEVELS).floor().clamp(0, LEVELS)
        shine = layer * relief(layer)
        most = shine.amax(dim=(1, 2, 3), keepdim=True)
        return Drops(shine / torch.where(most == 0, 1.0, most) * strength, mud=False)

    def apply(self, images: Tensor, drawn: Drops) -> Tensor:
        cover, mud = drawn
        colour = tinted(cover, MUD if mud else WATER, images.shape[1])
        return images * (1 - cover) + colour if mud else images + colour


def relief(layer: Tensor) -> Tensor:
    """How drops catch the light: lit from one side, by the distance to their rims."""
    distance = distances(edges(layer, 50.0, 150.0), FAR)
    even = equalised(box_mean(distance).floor())
    lit = F.conv2d(mirrored(even, 1), layer.new_tensor(EMBOSS)[None, None]).clamp(0, LEVELS)
    return box_mean(lit).round()
