"""Contrast."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.ladder import Renderer, corruption


@corruption("contrast", category="digital", cifar=(0.75, 0.5, 0.4, 0.3, 0.15), imagenet=(0.4, 0.3, 0.2, 0.1, 0.05))
class Contrast(Renderer):
    """Pulls every channel towards its mean over the image, as haze or a flat exposure does."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        mean = images.mean(dim=(2, 3), keepdim=True)
        return (images - mean) * drawn + mean
