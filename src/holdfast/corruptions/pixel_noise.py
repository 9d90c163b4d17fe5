"""Noise in every pixel: Gaussian, speckle, impulse and shot noise."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import LEVELS, corruption


@corruption(
    "gaussian-noise",
    category="noise",
    cifar=(0.04, 0.06, 0.08, 0.09, 0.10),
    imagenet=(0.08, 0.12, 0.18, 0.26, 0.38),
)
class GaussianNoise:
    """Adds normal noise to every channel of every pixel, as a sensor does in low light."""

    def draw(self, images: Tensor, level: float, noise: Noise) -> Tensor:
        return noise.normal("pixels", images.shape[1:]).mul_(level)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        return images + drawn


@corruption(
    "speckle-noise",
    category="noise",
    cifar=(0.06, 0.1, 0.12, 0.16, 0.2),
    imagenet=(0.15, 0.2, 0.35, 0.45, 0.6),
    extra=True,
)
class SpeckleNoise(GaussianNoise):
    """Adds normal noise that grows with the pixel, as radar and ultrasound show it."""

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        return images + images * drawn


class Chances(NamedTuple):
    """A uniform number for every channel of every pixel, and the share of them that is hit."""

    chance: Tensor
    share: float


@corruption(
    "impulse-noise",
    category="noise",
    cifar=(0.01, 0.02, 0.03, 0.05, 0.07),
    imagenet=(0.03, 0.06, 0.09, 0.17, 0.27),
)
class ImpulseNoise:
    """Sets a share of all channels of all pixels to black or white, half and half, as dead or hot pixels are."""

    def draw(self, images: Tensor, level: float, noise: Noise) -> Chances:
        return Chances(noise.uniform("pixels", images.shape[1:]), level)

    def apply(self, images: Tensor, drawn: Chances) -> Tensor:
        half = drawn.share / 2  # from both ends, so that what a severity hits the next hits the same way
        salted = torch.where(drawn.chance < half, 1.0, images)
        return torch.where(drawn.chance > 1 - half, 0.0, salted)


LAST_BITS = 2.0**-22  # upwards, so that truncating keeps whole levels
BINS = 4096  # of the uniform numbers: most lie in one where the count is the same throughout


class Photons(NamedTuple):
    """A uniform number for every channel of every pixel, and how many photons a white one takes in the mean."""

    chance: Tensor
    white: float


@corruption("shot-noise", category="noise", cifar=(500, 250, 100, 75, 50), imagenet=(60, 25, 12, 5, 3), version=2)
class ShotNoise:
    """Counts photons: every channel of every pixel is a Poisson draw around its value, as a sensor in the dark has it.

    Images are read as 8 bits first, as in the published generator.
    """

    def draw(self, images: Tensor, level: float, noise: Noise) -> Photons:
        return Photons(noise.uniform("pixels", images.shape[1:]), float(level))

    def apply(self, images: Tensor, drawn: Photons) -> Tensor:
        # many values lie on or half way between levels; a GPU multiplies by the inverse, and must not round otherwise
        return _counts(images, drawn.chance, drawn.white).mul_((1 + LAST_BITS) / drawn.white)


def _counts(images: Tensor, chance: Tensor, white: float) -> Tensor:
    """The smallest count whose cumulative probability reaches the chance.

    A table has it for the start of every bin; where it changes inside a bin, counts go up one by one.
    """
    table = _table(white, str(images.device))
    shades, chance = (images * LEVELS).round().to(torch.int32).flatten(), chance.flatten()
    cells = (chance * BINS).to(torch.int32).add_(shades, alpha=BINS)
    counts = table.first.index_select(0, cells)
    low = table.unsure.index_select(0, cells).nonzero().squeeze(1)
    while len(low):
        reached = table.chances[shades[low].long(), counts[low].long()]
        low = low[chance[low] > reached]
        counts[low] += 1
    return counts.view_as(images)


class _Table(NamedTuple):
    """By shade: cumulative probabilities; by shade and bin: the count at its start, and whether that may be another."""

    chances: Tensor
    first: Tensor
    unsure: Tensor


@functools.lru_cache(maxsize=16)
def _table(white: float, device: str) -> _Table:
    from scipy.stats import poisson

    means = torch.arange(int(LEVELS) + 1, dtype=torch.float64)[:, None] / LEVELS * white
    most = int(poisson.isf(1e-9, white)) + 1
    chances = torch.from_numpy(poisson.cdf(torch.arange(most + 1).numpy(), means.numpy()))
    edges = torch.arange(BINS + 1, dtype=torch.float64).div(BINS).clamp_max(1 - 1e-8).expand(len(means), -1)
    at_edges = torch.searchsorted(chances, edges.contiguous())
    first, last = at_edges[:, :-1], at_edges[:, 1:]
    return _Table(
        chances.to(device),
        first.flatten().float().to(device),
        (first != last).flatten().to(device),
    )
