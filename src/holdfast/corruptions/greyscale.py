"""Greyscale."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.colour import luma
from holdfast.corruptions.ladder import Renderer, corruption


@corruption(
    "greyscale",
    category="digital",
    cifar=(1.0,),
    imagenet=(1.0,),
    source="Taori et al. 2020, arXiv:2007.00644",
    extra=True,
)
class Greyscale(Renderer):
    """Puts lightness in all channels; one severity. Grey datasets stay as they are."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:  # noqa: ARG002
        return luma(images).expand_as(images)
