"""Shot noise."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import LEVELS, corruption

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
