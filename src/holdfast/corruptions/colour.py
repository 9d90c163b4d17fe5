"""Lightness and colour, as the published generators see them, and the corruptions that change them."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.corruptions.ladder import Renderer, corruption

LUMA = (0.299, 0.587, 0.114)
COLOUR = 3  # channels


def luma(images: Tensor) -> Tensor:
    """Lightness as television has it, (n, 1, height, width); a grey image is its own."""
    if images.shape[1] != COLOUR:
        return images
    red, green, blue = (images[:, i : i + 1] for i in range(COLOUR))
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def tinted(grey: Tensor, colour: tuple[float, float, float], channels: int) -> Tensor:
    """A grey layer (n, 1, height, width) in a colour, or in the lightness of that colour for grey images."""
    if channels != COLOUR:
        return grey * sum(part * weight for part, weight in zip(colour, LUMA, strict=True))
    return grey * grey.new_tensor(colour).view(1, COLOUR, 1, 1)


@corruption("brightness", category="weather", cifar=(0.05, 0.1, 0.15, 0.2, 0.3), imagenet=(0.1, 0.2, 0.3, 0.4, 0.5))
class Brightness(Renderer):
    """Raises the value channel of HSV, as brighter daylight does; hue and saturation stay."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        # at fixed hue and saturation RGB is proportional to the value, so no round trip through HSV is needed
        value = images.amax(dim=1, keepdim=True)
        brighter = (value + drawn).clamp(0.0, 1.0)
        lit = value > 0
        return torch.where(lit, images * (brighter / torch.where(lit, value, 1.0)), brighter)


@corruption(
    "saturate",
    category="digital",
    cifar=((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
    imagenet=((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
    extra=True,
)
class Saturate(Renderer):
    """Scales and shifts the saturation of HSV: paler at severities 1 and 2, then more and more vivid.

    What is grey has hue 0 there, so that a shift tints it red. Grey datasets stay as they are.
    """

    def apply(self, images: Tensor, drawn: tuple[float, float]) -> Tensor:
        scale, shift = drawn
        if images.shape[1] != COLOUR:
            return images
        # at fixed hue and value, what a channel lacks to the value is proportional to the saturation
        value = images.amax(dim=1, keepdim=True)
        chroma = value - images.amin(dim=1, keepdim=True)
        grey = chroma == 0
        saturation = chroma / torch.where(value == 0, 1.0, value)
        new = (saturation * scale + shift).clamp(0.0, 1.0)
        red = images.new_tensor([0.0, 1.0, 1.0]).view(1, COLOUR, 1, 1)
        lacking = torch.where(grey, red, (value - images) / torch.where(grey, 1.0, chroma))
        return value * (1 - new * lacking)


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
