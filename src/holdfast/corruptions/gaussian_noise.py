"""Gaussian noise."""

from __future__ import annotations

from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import corruption


@corruption(
    "gaussian-noise",
    category="noise",
    cifar=(0.04, 0.06, 0.08, 0.09, 0.10),
    imagenet=(0.08, 0.12, 0.18, 0.26, 0.38),
)
class GaussianNoise:
    """Adds normal noise to every channel of every pixel, as a sensor does in low light."""

    def draw(self, images: Tensor, level: float, noise: Noise) -> Tensor:
        return noise.normal("pixels", images.shape[1:]).mul_(level)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        return images + drawn
