"""Brightness."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.corruptions.ladder import Renderer, corruption


@corruption("brightness", category="weather", cifar=(0.05, 0.1, 0.15, 0.2, 0.3), imagenet=(0.1, 0.2, 0.3, 0.4, 0.5))
class Brightness(Renderer):
    """Raises the value channel of HSV, as brighter daylight does; hue and saturation stay."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        # at fixed hue and saturation RGB is proportional to the value, so no round trip through HSV is needed
        value = images.amax(dim=1, keepdim=True)
        brighter = (value + drawn).clamp(0.0, 1.0)
        lit = value > 0
        return torch.where(lit, images * (brighter / torch.where(lit, value, 1.0)), brighter)
