"""Square windows of an image: how large they are, where they lie, and what is painted in them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

SCALE = 10_000
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # arXiv:1912.00049, in a search of SCALE queries
WORD = 31  # bits of a random whole number that a place or a sign is made of


@dataclass(frozen=True, slots=True)
class Sides:
    """How large a query's window is: a `share` of the image's area at first, halved again and again.

    `rescale` stretches the published schedule, which is for 10,000 queries, to the number that there are. `least` is
    the smallest side; `odd` rounds even sides up.
    """

    share: float
    queries: int
    rescale: bool = False
    least: int = 1
    odd: bool = False

    def level(self, query: int) -> int:
        """How often the area has been halved by then."""
        age = int(query / self.queries * SCALE) if self.rescale else query
        return sum(age > halving for halving in HALVINGS)

    def side(self, level: int, height: int, width: int) -> int:
        side = max(round(math.sqrt(self.share / 2**level * height * width)), self.least)
        return min(side + (self.odd and side % 2 == 0), height, width)


class Schedule(NamedTuple):
    """The levels of all queries and the sides of all levels, as tensors to look them up in."""

    levels: Tensor
    sides: Tensor


def schedule(sides: Sides, images: Tensor) -> Schedule:
    return _schedule(sides, images.shape[-2], images.shape[-1], str(images.device))


def starts(words: Tensor, side: Tensor, extent: int) -> Tensor:
    """Where along an axis windows of these sides begin: every place inside the image is as likely as the others."""
    return (words * (extent + 1 - side)) >> WORD


def cover(begin: Tensor, side: Tensor, extent: int) -> Tensor:
    """Which coordinates along an axis lie inside the windows, in a new last dimension."""
    along = torch.arange(extent, device=begin.device) - begin[..., None]
    return (along >= 0) & (along < side[..., None])


def signs(words: Tensor) -> Tensor:
    """One or minus one, by each word's highest bit."""
    return ((words >> (WORD - 1)) * 2 - 1).float()


def bump(side: int, *, power: int, fall: int) -> Tensor:
    """Two mounds of opposite sign, upright and lying: of length one, and as much above zero as below.

    `power` is that of the norm. A mound at distance d from its centre, counted as a king moves, is as high as the sum
    of (k + 1)⁻ᶠᵃˡˡ over all k ≥ d that the window has (arXiv:1912.00049, section 4.2, with fall 2).
    """

    def scaled(part: Tensor) -> Tensor:
        return part / part.abs().pow(power).sum().pow(1 / power)

    halves = scaled(_mound(side // 2, side, fall)), -scaled(_mound(side - side // 2, side, fall))
    upright = scaled(torch.cat(halves)).float()
    return torch.stack([upright, upright.T])


class Stamps(NamedTuple):
    """Bumps of every level, upright and on their side, to be put anywhere on an image by a single look-up."""

    table: Tensor
    grid: Tensor
    extent: tuple[int, int]

    def keys(self, level: Tensor, turned: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """The key of a bump whose window begins there."""
        height, width = self.extent
        return (((level * 2 + turned) * 2 + 1) * height - row) * 2 * width + width - column

    def at(self, key: Tensor) -> Tensor:
        """Images of one channel that are zero but for the bumps."""
        return self.table.take(key[:, None, None, None] + self.grid)


def stamps(sides: Sides, images: Tensor, *, power: int, fall: int) -> Stamps:
    height, width = images.shape[-2:]
    return _stamps(_all_sides(sides, height, width), height, width, str(images.device), power, fall)


@functools.lru_cache(maxsize=8)
def _schedule(sides: Sides, height: int, width: int, device: str) -> Schedule:
    levels = torch.tensor([sides.level(query) for query in range(sides.queries)], device=device)
    return Schedule(levels, torch.tensor(_all_sides(sides, height, width), device=device))


@functools.cache  # kept for good: recorded steps know it by its place in memory
def _stamps(sides: tuple[int, ...], height: int, width: int, device: str, power: int, fall: int) -> Stamps:
    """Each bump lies in the middle of a field of zeros four times the image: any crop of its size is a placement."""
    table = torch.zeros(len(sides), 2, 2 * height, 2 * width)
    for level, side in enumerate(sides):
        table[level, :, height : height + side, width : width + side] = bump(side, power=power, fall=fall)
    grid = torch.arange(height, device=device)[:, None] * 2 * width + torch.arange(width, device=device)
    return Stamps(table.to(device), grid, (height, width))


def _all_sides(sides: Sides, height: int, width: int) -> tuple[int, ...]:
    return tuple(sides.side(level, height, width) for level in range(len(HALVINGS) + 1))


def _mound(height: int, width: int, fall: int) -> Tensor:
    rows = (torch.arange(height) - height // 2).abs()
    columns = (torch.arange(width) - width // 2).abs()
    terms = torch.arange(1, max(height, width) // 2 + 2).double().pow(-fall)
    return terms.flip(0).cumsum(0).flip(0)[torch.maximum(rows[:, None], columns)]
