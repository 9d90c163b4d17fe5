"""Contrast."""

from __future__ import annotations

from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import Level, corruption


@corruption("contrast", category="digital", cifar=(0.75, 0.5, 0.4, 0.3, 0.15), imagenet=(0.4, 0.3, 0.2, 0.1, 0.05))
class Contrast:
    """Pulls every channel towards its mean over the image, as haze or a flat exposure does."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Tensor:  # noqa: ARG002
        return images.new_full((len(images), 1, 1, 1), float(level))  # type: ignore[arg-type]

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        mean = images.mean(dim=(2, 3), keepdim=True)
        return (images - mean) * drawn + mean
