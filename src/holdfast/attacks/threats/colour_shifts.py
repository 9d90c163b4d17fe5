"""Attacks on the colours of a whole image: hue, saturation, brightness, contrast; the operations are kornia's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.threats.whole_image import WholeImage, register_whole_image


def turned(images: Tensor, angle: Tensor) -> Tensor:
    """Images with their hue turned by an angle in radians; a full turn is 2π."""
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    sixths = hue(images, value, chroma) + wide(angle * (3.0 / math.pi), images)
    # how far each channel lies below the value: red, green and blue see the same wheel from three sides
    sides = torch.arange(5, 0, -2, dtype=images.dtype, device=images.device)[:, None, None]
    side = (sixths + sides).remainder(6.0)
    return value - chroma * torch.minimum(side, 4.0 - side).clamp(0.0, 1.0)


def hue(images: Tensor, value: Tensor, chroma: Tensor) -> Tensor:
    """The place on the wheel of colours in sixths of a turn, red at 0; any place where there is no colour."""
    red, green, blue = images[:, :1], images[:, 1:2], images[:, 2:]
    least = chroma.clamp_min(TINY)
    near_blue = (red - green) / least + 4.0
    near_green = torch.where(green == value, (blue - red) / least + 2.0, near_blue)
    return torch.where(red == value, (green - blue) / least, near_green)


def saturated(images: Tensor, change: Tensor) -> Tensor:
    """Images with their saturation times 1 + change, at most full; hue and value stay.

    At fixed hue and value, what a channel lacks to the value is proportional to the saturation: no way through HSV.
    """
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    full = value / chroma.clamp_min(TINY)
    return value - (value - images) * (1.0 + wide(change, images)).clamp_min(0.0).minimum(full)


def brightened(images: Tensor, change: Tensor) -> Tensor:
    """Images with the same added to every channel."""
    return (images + wide(change, images)).clamp(0.0, 1.0)


def contrasted(images: Tensor, change: Tensor) -> Tensor:
    """Images times 1 + change: distances from black grow, not those from the mean."""
    return (images * (1.0 + wide(change, images))).clamp(0.0, 1.0)


register_whole_image(
    "hue-attack",
    WholeImage(name="hue", numbers=1, renderer=turned, colour=True),
    0.25,
    summary="Turns the hue of the whole image by an angle of up to `radius`.",
    units="The radius is in radians: π reaches every hue.",
)
register_whole_image(
    "saturation-attack",
    WholeImage(name="saturation", numbers=1, renderer=saturated, colour=True),
    0.25,
    summary="Scales the saturation of the whole image by a factor in 1 ± `radius`.",
    units="Saturation is that of HSV and at most full.",
)
register_whole_image(
    "brightness-attack",
    WholeImage(name="brightness", numbers=1, renderer=brightened, grows=True),
    0.15,
    summary="Adds up to `radius` to every channel of the whole image.",
    units="Images only grow brighter, as in the source.",
)
register_whole_image(
    "contrast-attack",
    WholeImage(name="contrast", numbers=1, renderer=contrasted),
    0.25,
    summary="Scales the whole image by a factor in 1 ± `radius`.",
    units="The factor applies to distances from black, as in the source, not from the mean.",
)
