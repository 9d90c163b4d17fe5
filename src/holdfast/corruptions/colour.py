"""Colour, as the published generators see it."""

from __future__ import annotations

from torch import Tensor

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
