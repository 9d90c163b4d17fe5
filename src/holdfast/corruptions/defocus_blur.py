"""Defocus blur."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import corruption

LEAST = 8  # pixels from the centre of the kernel to its edge
SMALL = 64  # pixels: up to here a direct sum is quicker than a Fourier transform


@corruption(
    "defocus-blur",
    category="blur",
    cifar=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
    imagenet=((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)),
)
class DefocusBlur:
    """Spreads every pixel over a disk, as a lens out of focus does."""

    def draw(self, images: Tensor, level: tuple[float, float], noise: Noise) -> Tensor:  # noqa: ARG002
        return disk(*level).to(images)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        reach = len(drawn) // 2
        wide = mirrored(images, reach)
        if max(images.shape[2:]) <= SMALL:
            channels = images.shape[1]
            return F.conv2d(wide, drawn.expand(channels, 1, *drawn.shape), groups=channels)
        size = wide.shape[2:]
        product = torch.fft.rfft2(wide) * torch.fft.rfft2(drawn.flip(0, 1), s=size)
        spread: Tensor = torch.fft.irfft2(product, s=size)
        return spread[:, :, 2 * reach :, 2 * reach :]


@functools.cache
def disk(radius: float, sigma: float) -> Tensor:
    """The disk as a kernel: at least 17 pixels wide, its edge softened by a small Gaussian, mirrored at the border."""
    reach = int(max(radius, LEAST))
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    inside = (offsets[:, None] ** 2 + offsets**2 <= radius**2).double()
    around = torch.arange(-2, 3, dtype=torch.float64) if radius > LEAST else torch.arange(-1, 2, dtype=torch.float64)
    soft = torch.exp(-(around**2) / (2 * sigma**2))
    soft = soft / soft.sum()
    wide = mirrored((inside / inside.sum())[None, None], len(around) // 2)
    return F.conv2d(F.conv2d(wide, soft.view(1, 1, -1, 1)), soft.view(1, 1, 1, -1))[0, 0].float()


def mirrored(images: Tensor, reach: int) -> Tensor:
    """Images with a border that mirrors them about their outermost pixels, again and again where they are small."""
    if reach < min(images.shape[2:]):
        return F.pad(images, (reach,) * 4, mode="reflect")
    for axis in (2, 3):
        period = max(1, 2 * images.shape[axis] - 2)
        sources = torch.arange(-reach, images.shape[axis] + reach, device=images.device).remainder(period)
        images = images.index_select(axis, torch.minimum(sources, period - sources))
    return images
