"""Small grey images resized by cubic splines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def resampled(image: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The image with `shape` pixels: cubic splines over pixel areas, after a Gaussian where it becomes smaller.

    The Gaussian has (factor - 1) / 2 pixels of standard deviation, the usual choice against aliasing.
    """
    from scipy import ndimage

    factors = [have / want for have, want in zip(image.shape, shape, strict=True)]
    smooth = ndimage.gaussian_filter(
        image.astype(np.float64), [max(0.0, (factor - 1) / 2) for factor in factors], mode="mirror"
    )
    made = ndimage.zoom(smooth, [1 / factor for factor in factors], order=3, mode="mirror", grid_mode=True)
    assert made.shape == shape, f"asked for {shape}, got {made.shape}"
    return np.asarray(made, dtype=np.float64)


def bounding_box(image: NDArray[Any], *, above: int) -> NDArray[Any] | None:
    """The part of the image that holds every pixel brighter than `above`; None where there is none."""
    bright = image > above
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    if not len(rows):
        return None
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def fitted(image: NDArray[Any], side: float) -> NDArray[np.uint8]:
    """The image resampled so that its longer side has `side` pixels, in 8 bits; its proportions stay."""
    scale = side / max(image.shape)
    height, width = (max(1, round(length * scale)) for length in image.shape)
    return np.clip(np.rint(resampled(image, (height, width))), 0, 255).astype(np.uint8)
