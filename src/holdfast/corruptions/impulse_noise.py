"""Impulse noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import corruption


class Chances(NamedTuple):
    """A uniform number for every channel of every pixel, and the share of them that is hit."""

    chance: Tensor
    share: float


@corruption(
    "impulse-noise",
    category="noise",
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
)
class ImpulseNoise:
    """Sets a share of all channels of all pixels to black or white, half and half, as dead or hot pixels are."""

    def draw(self, images: Tensor, level: float, noise: Noise) -> Chances:
        return Chances(noise.uniform("pixels", images.shape[1:]), level)

    def apply(self, images: Tensor, drawn: Chances) -> Tensor:
        half = drawn.share / 2  # from both ends, so that what a severity hits the next hits the same way
        salted = torch.where(drawn.chance < half, 1.0, images)
        return torch.where(drawn.chance > 1 - half, 0.0, salted)
