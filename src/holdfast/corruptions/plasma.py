"""Plasma: the fractal clouds of fog, by midpoint displacement on a torus (diamond-square)."""

from __future__ import annotations

import torch
from torch import Tensor

FLAT = 1e-12


def plasma(wibble: Tensor, *, decay: float, away: int = 1) -> Tensor:
    """Fields (n, side, side) in which every point is the mean of four nearby ones plus its own `wibble`.

    `wibble` has the same shape, `side` a power of two; that of the first point, where the field is zero, has no effect.
    From one level, of half the spacing, to the next the wibbles count `decay` times less. The field is linear in them.
    `away`: how many cells off one of two opposite neighbours is taken from; the next cell unless a source errs.
    """
    side = wibble.shape[-1]
    assert wibble.shape[-2:] == (side, side), f"a plasma is square, got {tuple(wibble.shape)}"
    assert side & (side - 1) == 0, f"a plasma's side is a power of two, got {side}"
    field, spacing, weight = wibble.new_zeros(len(wibble), 1, 1), side, 1.0
    while spacing > 1:
        half = spacing // 2
        right, below = field + field.roll(-1, dims=2), field + field.roll(-1, dims=1)
        middle = (right + right.roll(-1, dims=1)) / 4 + weight * wibble[:, half::spacing, half::spacing]
        across = (right + middle + middle.roll(away, dims=1)) / 4 + weight * wibble[:, ::spacing, half::spacing]
        down = (below + middle + middle.roll(away, dims=2)) / 4 + weight * wibble[:, half::spacing, ::spacing]
        even = torch.stack((field, across), dim=-1).flatten(2)
        odd = torch.stack((down, middle), dim=-1).flatten(2)
        field = torch.stack((even, odd), dim=2).flatten(1, 2)
        spacing, weight = half, weight / decay
    return field


def stretched(field: Tensor) -> Tensor:
    """Each sample's field from 0 to 1; one without any relief is 0."""
    flat = field.flatten(1)
    low, high = flat.amin(dim=1), flat.amax(dim=1)  # aminmax has no derivative before torch 2.12
    low, high = (end.view(-1, *[1] * (field.dim() - 1)) for end in (low, high))
    return (field - low) / (high - low).clamp_min(FLAT)


def side_for(pixels: int) -> int:
    """The smallest side of a plasma that covers this many pixels."""
    return 1 << max(0, pixels - 1).bit_length()
