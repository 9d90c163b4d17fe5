"""Saturation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.colour import COLOUR
from holdfast.corruptions.ladder import Level, corruption


class Dye(NamedTuple):
    """What saturation is multiplied by, and what is added to it then."""

    scale: float
    shift: float


@corruption(
    "saturate",
    category="digital",
    cifar=((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)),
    imagenet=((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)),
    extra=True,
)
class Saturate:
    """Scales and shifts the saturation of HSV: paler at severities 1 and 2, then more and more vivid.

    What is grey has hue 0 there, so that a shift tints it red. Grey datasets stay as they are.
    """

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Dye:  # noqa: ARG002
        assert isinstance(level, tuple)
        return Dye(*level)

    def apply(self, images: Tensor, drawn: Dye) -> Tensor:
        if images.shape[1] != COLOUR:
            return images
        # at fixed hue and value, what a channel lacks to the value is proportional to the saturation
        value = images.amax(dim=1, keepdim=True)
        chroma = value - images.amin(dim=1, keepdim=True)
        grey = chroma == 0
        saturation = chroma / torch.where(value == 0, 1.0, value)
        new = (saturation * drawn.scale + drawn.shift).clamp(0.0, 1.0)
        red = images.new_tensor([0.0, 1.0, 1.0]).view(1, COLOUR, 1, 1)
        lacking = torch.where(grey, red, (value - images) / torch.where(grey, 1.0, chroma))
        return value * (1 - new * lacking)
