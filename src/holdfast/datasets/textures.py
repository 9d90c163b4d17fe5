"""Textures made by formula, in grey, that repeat without a seam: blank, tiles, wood, carpet, bricks, lava."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
SIDE = 256  # pixels after which every texture repeats


@functools.lru_cache(maxsize=8)
def texture(name: str) -> Field:
    """The texture of that name, SIDE x SIDE, in [0, 1]; all but blank reach from 0 to 1."""
    return TEXTURES[name]().astype(np.float32)


def crops(name: str, rows: NDArray[np.int64], columns: NDArray[np.int64], side: int) -> Field:
    """Squares of `side` pixels of a texture, one per pair of offsets."""
    windows = np.lib.stride_tricks.sliding_window_view(_continued(name, side), (side, side))
    return windows[rows % SIDE, columns % SIDE]


def blank() -> Field:
    return np.full((SIDE, SIDE), 0.5, dtype=np.float32)


def tiles() -> Field:
    """Squares of 16 pixels, each of its own shade, with dark joints."""
    shade = 0.45 + 0.55 * _scattered("tiles", 16, 16).repeat(16, axis=0).repeat(16, axis=1)
    y, x = _grid()
    return _stretched(np.where((y % 16 < 2) | (x % 16 < 2), 0.0, shade))


def wood() -> Field:
    """Wavy fibres along the rows, with fine grain."""
    y, _ = _grid()
    bend = _clouds("wood bend", 8, 2)
    grain = _clouds("wood grain", 128, 8)
    return _stretched(np.sin(2 * np.pi * (10 * y / SIDE + 1.5 * bend)) + 0.8 * grain)


def carpet() -> Field:
    """A tight weave with loose fibres."""
    y, x = _grid()
    weave = np.sin(2 * np.pi * x / 8) * np.sin(2 * np.pi * y / 8)
    return _stretched(weave + 1.5 * _scattered("carpet", SIDE, SIDE))


def bricks() -> Field:
    """Rows of 16 by 32 pixels, every other one set off by half a brick, with dark mortar."""
    y, x = _grid()
    row = y // 16
    along = (x + 16 * (row % 2)) % SIDE
    shade = 0.5 + 0.5 * _scattered("bricks", 16, 8)[row, along // 32] + 0.1 * _scattered("brick", SIDE, SIDE)
    return _stretched(np.where((y % 16 < 2) | (along % 32 < 2), 0.0, shade))


def lava() -> Field:
    """Bright cracks in dark plates: the ridges of noise over four octaves."""
    field = sum(_clouds(f"lava {cells}", cells, cells) * 4 / cells for cells in (4, 8, 16, 32))
    ridges = 1 - np.abs(np.asarray(field) - np.median(field))
    return _stretched(_stretched(ridges) ** 4)


TEXTURES: dict[str, Callable[[], Field]] = {make.__name__: make for make in (blank, tiles, wood, carpet, bricks, lava)}


@functools.lru_cache(maxsize=8)
def _continued(name: str, side: int) -> Field:
    return np.pad(texture(name), ((0, side), (0, side)), mode="wrap")


def _grid() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    y, x = np.mgrid[:SIDE, :SIDE]
    return y, x


def _scattered(purpose: str, rows: int, columns: int) -> Field:
    """Independent uniform numbers, the same for everyone."""
    from holdfast.core.noise import Noise

    drawn: Field = Noise.of(0, ["texture"]).uniform(purpose, (rows, columns))[0].numpy()
    return drawn


def _clouds(purpose: str, rows: int, columns: int) -> Field:
    """Smooth noise with that many bumps down and across; it repeats without a seam."""
    from scipy import ndimage

    coarse = _scattered(purpose, rows, columns)
    by = (SIDE / rows, SIDE / columns)
    return np.asarray(ndimage.zoom(coarse, by, order=3, mode="grid-wrap", grid_mode=True), dtype=np.float32)


def _stretched(field: NDArray[np.floating]) -> Field:
    low, high = field.min(), field.max()
    return np.asarray((field - low) / (high - low), dtype=np.float32)
