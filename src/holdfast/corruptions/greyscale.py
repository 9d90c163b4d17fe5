"""Greyscale."""

from __future__ import annotations

from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.colour import luma
from holdfast.corruptions.ladder import Level, corruption


@corruption(
    "greyscale",
    category="digital",
    cifar=(1.0,),
    imagenet=(1.0,),
    source="Taori et al. 2020, arXiv:2007.00644",
    extra=True,
)
class Greyscale:
    """Puts lightness in all channels; one severity. Grey datasets stay as they are."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> None:
        pass

    def apply(self, images: Tensor, drawn: None) -> Tensor:  # noqa: ARG002
        return luma(images).expand_as(images)
