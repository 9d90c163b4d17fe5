"""Fog."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import corruption
from holdfast.corruptions.plasma import plasma, side_for, stretched


class Cloud(NamedTuple):
    """A cloud from 0 to 1 for each sample, (n, 1, height, width), and how thick it is."""

    cloud: Tensor
    strength: float


@corruption(
    "fog",
    category="weather",
    cifar=((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
    imagenet=((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
)
class Fog:
    """Adds a fractal cloud, then scales back to the brightest pixel of the image.

    From level to level of the fractal the wibbles count decay² times less: the published generator applies its
    shrinking factor twice.
    """

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Cloud:
        strength, decay = level
        height, width = images.shape[2:]
        side = side_for(max(height, width))
        wibble = noise.uniform("wibble", (side, side)) * 2 - 1
        cloud = stretched(plasma(wibble, decay=decay**2))
        return Cloud(cloud[:, None, :height, :width], strength)

    def apply(self, images: Tensor, drawn: Cloud) -> Tensor:
        brightest = images.amax(dim=(1, 2, 3), keepdim=True)
        return (images + drawn.strength * drawn.cloud) * (brightest / (brightest + drawn.strength))
