"""Linear maps along the two axes of an image, as matrices: blurs with their borders, box resizing.

A matrix holds the border rule and the resampling at once, so that a blur is two products, whatever its width.
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import torch
from torch import Tensor

Border = Literal["edge", "mirror"]  # beyond `abcd`: edge has `dddd`, mirror `dcba`


def along(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Images (…, height, width) with one matrix applied to their columns and one to their rows.

    Image by image, so that the sums do not depend on the batch.
    """
    flat = images.flatten(0, -3)
    wide = torch.bmm(flat, across.T.expand(len(flat), *across.T.shape))
    high = torch.bmm(down.expand(len(flat), *down.shape), wide)
    return high.view(*images.shape[:-2], *high.shape[-2:])


def blurred(images: Tensor, sigma: float, *, truncate: float = 4.0, border: Border = "edge") -> Tensor:
    """Images through a Gaussian filter, cut off at `truncate` standard deviations."""
    down, across = (gaussian(size, sigma, truncate, border, str(images.device)) for size in images.shape[-2:])
    return along(images, down, across)


@functools.lru_cache(maxsize=64)
def gaussian(size: int, sigma: float, truncate: float, border: Border, device: str) -> Tensor:
    """The Gaussian filter of an axis as a matrix."""
    reach = int(truncate * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    weights = torch.exp(-0.5 * (offsets.double() / sigma) ** 2) if reach else torch.ones(1, dtype=torch.float64)
    sources = torch.arange(size)[:, None] + offsets
    if border == "edge":
        sources = sources.clamp(0, size - 1)
    else:
        sources = sources.remainder(2 * size)
        sources = torch.minimum(sources, 2 * size - 1 - sources)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_add_(1, sources, (weights / weights.sum()).expand(size, -1))
    return matrix.float().to(device)


@functools.lru_cache(maxsize=64)
def box(size: int, smaller: int, device: str) -> Tensor:
    """Pillow's box filter from `size` places to fewer: the plain mean of the places whose centres fall in each."""
    scale = size / smaller
    matrix = torch.zeros(smaller, size, dtype=torch.float64)
    for index in range(smaller):
        centre = (index + 0.5) * scale
        first, last = max(0, int(centre - scale / 2 + 0.5)), min(size, int(centre + scale / 2 + 0.5))
        distances = (torch.arange(first, last, dtype=torch.float64) - centre + 0.5) * (1 / scale)
        matrix[index, first:last] = ((distances > -0.5) & (distances <= 0.5)).double()
    return (matrix / matrix.sum(dim=1, keepdim=True)).float().to(device)


@functools.lru_cache(maxsize=64)
def nearest(size: int, larger: int, device: str) -> Tensor:
    """For every one of more places the place it lies in."""
    return torch.tensor([math.floor((index + 0.5) * size / larger) for index in range(larger)], device=device)
