"""Snow."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.colour import luma
from holdfast.corruptions.ladder import LEVELS, corruption
from holdfast.corruptions.motion_blur import smeared
from holdfast.corruptions.zoom_blur import enlarged, trimmed


class Flakes(NamedTuple):
    """A layer of falling snow for each sample, (n, 1, height, width), and how much of the image stays as it is."""

    layer: Tensor
    kept: float


@corruption(
    "snow",
    category="weather",
    cifar=(
        (0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95),
        (0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8),
    ),
    imagenet=(
        (0.1, 0.3, 3.0, 0.5, 10.0, 4.0, 0.8),
        (0.2, 0.3, 2.0, 0.5, 12.0, 4.0, 0.7),
        (0.55, 0.3, 4.0, 0.9, 12.0, 8.0, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12.0, 8.0, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12.0, 12.0, 0.55),
    ),
)
class Snow:
    """Flakes that fall to one side, the same again turned upside down, and colours that go pale behind them."""

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Flakes:
        mean, spread, zoom, threshold, radius, sigma, kept = level
        height, width = images.shape[2:]
        high, wide = math.ceil(height / zoom), math.ceil(width / zoom)
        grains = noise.normal("flakes", (1, high, wide)) * spread + mean
        flakes = trimmed(enlarged(grains, zoom), height, width)
        flakes = torch.where(flakes < threshold, 0.0, flakes).clamp_max(1.0)
        angle = (noise.uniform("angle", ()) / 2 - 0.75) * math.pi
        layer = smeared(flakes, angle, radius=radius, sigma=sigma)
        return Flakes((layer * LEVELS).round() / LEVELS, kept)

    def apply(self, images: Tensor, drawn: Flakes) -> Tensor:
        layer, kept = drawn
        pale = torch.maximum(images, 1.5 * luma(images) + 0.5)
        return kept * images + (1 - kept) * pale + (layer + layer.flip(2, 3))
