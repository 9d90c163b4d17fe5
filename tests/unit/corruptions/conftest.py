"""Images and a way to corrupt them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed

Corrupt = Callable[..., Changed]


@pytest.fixture
def corrupt() -> Corrupt:
    """Images under a corruption by its ref; ids are numbers from `first` on."""

    def made(images: Tensor, text: str, *, first: int = 0, seed: int = 0) -> Changed:
        ids = tuple(f"s{first + i}" for i in range(len(images)))
        change = registry.build(registry.bind("corruption", text))
        return change(None, Batch(images, torch.zeros(len(images)).long(), ids), Noise.of(seed, ids), width=16)

    return made


@pytest.fixture
def pictures() -> Callable[..., Tensor]:
    """Smooth random colour images in 8 bits, as photographs are, unlike white noise."""

    def made(count: int, height: int, width: int, channels: int = 3) -> Tensor:
        coarse = torch.rand(count, channels, 6, 5, generator=torch.Generator().manual_seed(height * 1000 + width))
        smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=False)
        return (smooth.clamp(0, 1) * 255).round() / 255

    return made
