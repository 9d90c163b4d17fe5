"""Augmentation on the device: every image by draws of its own, keyed by image and epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise

CUTOUT = 0.5  # side of the hole, as a share of the image's (Devries & Taylor 2017, arXiv:1708.04552: 16 of 32 pixels)
OPERATIONS = 2  # of RandAugment, per image (Cubuk et al. 2020, arXiv:1909.13719)
STRENGTH = 0.5  # of RandAugment, as a share of the largest change


def shifted_and_flipped(images: Tensor, noise: Noise, *, shift: int, flip: bool) -> Tensor:
    """Shifts by up to `shift` pixels, black outside, and mirrors half of the images."""
    n, _, height, width = images.shape
    padded = F.pad(images, (shift,) * 4)
    moved = noise.integers("shift", (2,), low=0, high=2 * shift + 1)
    rows = moved[:, :1] + torch.arange(height, device=images.device)
    columns = moved[:, 1:] + torch.arange(width, device=images.device)
    if flip:
        mirrored = noise.integers("flip", (1,), low=0, high=2).bool()
        columns = torch.where(mirrored, columns.flip(1), columns)
    every = torch.arange(n, device=images.device)[:, None, None]
    return padded[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def with_hole(images: Tensor, noise: Noise) -> Tensor:
    """Cutout: a square around a random pixel is grey."""
    height, width = images.shape[2:]
    half = CUTOUT / 2 * height
    centre = noise.uniform("cutout", (2,)) * max(height, width)
    down = (torch.arange(height, device=images.device) + 0.5 - centre[:, :1]).abs() < half
    across = (torch.arange(width, device=images.device) + 0.5 - centre[:, 1:]).abs() < half
    hole = (down[:, :, None] & across[:, None, :])[:, None]
    return torch.where(hole, 0.5, images)


def cut_and_mixed(images: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """CutMix (Yun et al. 2019, arXiv:1905.04899): a rectangle comes from another image of the batch.

    The images, the position of each image's partner, and the share of the image that is still its own.
    """
    n, _, height, width = images.shape
    partner = torch.arange(n, device=images.device).roll(1)
    side = (1.0 - noise.uniform("cutmix share", ())).sqrt()[:, None]  # the share is uniform: Beta(1, 1)
    centre = noise.uniform("cutmix", (2,))
    low = ((centre - side / 2).clamp(0.0, 1.0) * height).round()
    high = ((centre + side / 2).clamp(0.0, 1.0) * height).round()
    down = torch.arange(height, device=images.device)
    across = torch.arange(width, device=images.device) * (height / width)
    rows = (down >= low[:, :1]) & (down < high[:, :1])
    columns = (across >= low[:, 1:]) & (across < high[:, 1:])
    inside = rows[:, :, None] & columns[:, None, :]
    own = 1.0 - inside.float().mean(dim=(1, 2))
    return torch.where(inside[:, None], images[partner], images), partner, own


def randomly_changed(images: Tensor, noise: Noise) -> Tensor:
    """Like RandAugment: two operations per image, each chosen among geometry and colour, at a random strength.

    Differs from the source: all geometry of an image is one bilinear warp, and operations that need a histogram
    (equalise, autocontrast, posterise) are left out.
    """
    chosen = noise.integers("operation", (OPERATIONS,), low=0, high=len(WARPS) + len(COLOURS))
    strength = STRENGTH * (2.0 * noise.uniform("strength", (OPERATIONS,)) - 1.0)
    matrix = torch.eye(2, 3, device=images.device).expand(len(images), 2, 3)
    for turn in range(OPERATIONS):
        for number, warp in enumerate(WARPS):
            much = torch.where(chosen[:, turn] == number, strength[:, turn], 0.0)
            matrix = matrix + warp(much)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    changed = F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    for turn in range(OPERATIONS):
        for number, colour in enumerate(COLOURS, len(WARPS)):
            much = torch.where(chosen[:, turn] == number, strength[:, turn], 0.0)
            changed = colour(changed, much[:, None, None, None])
    return changed.clamp(0.0, 1.0)


def _rotated(much: Tensor) -> Tensor:
    angle, zero = much * math.radians(60), torch.zeros_like(much)
    rows = (angle.cos() - 1, -angle.sin(), zero), (angle.sin(), angle.cos() - 1, zero)
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def _moving(row: int, column: int) -> Callable[[Tensor], Tensor]:
    """A warp that changes one entry of the matrix: a shear, or a shift."""

    def moved(much: Tensor) -> Tensor:
        matrix = much.new_zeros(len(much), 2, 3)
        matrix[:, row, column] = 0.6 * much
        return matrix

    return moved


def _brightened(images: Tensor, much: Tensor) -> Tensor:
    return images * (1.0 + much)


def _contrasted(images: Tensor, much: Tensor) -> Tensor:
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + (images - mean) * (1.0 + much)


def _saturated(images: Tensor, much: Tensor) -> Tensor:
    grey = images.mean(dim=1, keepdim=True)
    return grey + (images - grey) * (1.0 + 1.8 * much)


def _solarised(images: Tensor, much: Tensor) -> Tensor:
    """Pixels above a threshold are inverted; none where `much` is not positive."""
    return torch.where(images > 1.0 - much.clamp_min(0.0), 1.0 - images, images)


WARPS: tuple[Callable[[Tensor], Tensor], ...] = (_rotated, _moving(0, 1), _moving(1, 0), _moving(0, 2))
COLOURS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (_brightened, _contrasted, _saturated, _solarised)
