"""Saturation."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.corruptions.colour import COLOUR
from holdfast.corruptions.ladder import Renderer, corruption


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
