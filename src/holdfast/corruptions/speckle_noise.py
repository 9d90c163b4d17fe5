"""Speckle noise."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.gaussian_noise import GaussianNoise
from holdfast.corruptions.ladder import corruption


@corruption(
    "speckle-noise",
    category="noise",
    cifar=(0.06, 0.1, 0.12, 0.16, 0.2),
    imagenet=(0.15, 0.2, 0.35, 0.45, 0.6),
    extra=True,
)
class SpeckleNoise(GaussianNoise):
    """Adds normal noise that grows with the pixel, as radar and ultrasound show it."""

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        return images + images * drawn
