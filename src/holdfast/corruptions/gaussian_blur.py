"""Gaussian blur."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.axes import blurred
from holdfast.corruptions.ladder import Renderer, corruption


@corruption(
    "gaussian-blur", category="blur", cifar=(0.4, 0.6, 0.7, 0.8, 1.0), imagenet=(1.0, 2.0, 3.0, 4.0, 6.0), extra=True
)
class GaussianBlur(Renderer):
    """Blurs by a Gaussian, cut off at four standard deviations."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        return blurred(images, drawn)
