"""Brightness."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import Level, corruption


@corruption("brightness", category="weather", cifar=(0.05, 0.1, 0.15, 0.2, 0.3), imagenet=(0.1, 0.2, 0.3, 0.4, 0.5))
class Brightness:
    """Raises the value channel of HSV, as brighter daylight does; hue and saturation stay."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Tensor:  # noqa: ARG002
        return images.new_full((len(images), 1, 1, 1), float(level))  # type: ignore[arg-type]

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        # at fixed hue and saturation RGB is proportional to the value, so no round trip through HSV is needed
        value = images.amax(dim=1, keepdim=True)
        brighter = (value + drawn).clamp(0.0, 1.0)
        lit = value > 0
        return torch.where(lit, images * (brighter / torch.where(lit, value, 1.0)), brighter)
