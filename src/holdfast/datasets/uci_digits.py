"""Handwritten digits of the UCI repository, framed as MNIST frames its own: the same task from other writers."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.downloads import File, Form, Mirror, register_download, unpacked
from holdfast.datasets.in_memory import InMemory, in_memory, numbered
from holdfast.datasets.mnist import DIGITS

UCI = "https://doi.org/10.24432/C50P49"
FILE = File("digits.csv", "sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8")
INKS = 16  # levels of grey in the file
FRAME, BOX = 28, 20  # pixels of an MNIST image, and of the box that its digit fills


def _installed() -> tuple[Path, ...]:
    """Where an installed scikit-learn has the file; the package is not imported."""
    spec = importlib.util.find_spec("sklearn")
    folders = spec.submodule_search_locations if spec is not None else None
    return tuple(Path(folder) / "datasets" / "data" for folder in folders or ())


UCI_DIGITS = register_download(
    "uci-digits",
    # no checksum of the wheel: every platform has its own, with the same file inside
    Form((FILE,), (Mirror("pypi:scikit-learn", inside="sklearn/datasets/data/{name}.gz"),)),
    roots=_installed(),
    megabytes=9,
    licence="CC BY 4.0",
)


@register("dataset", "uci-digits", source=UCI, tags=("natural", "grey"))
def uci_digits() -> InMemory:
    """UCI digits: 1,797 handwritten digits of 43 people, 8x8, framed as MNIST: a natural shift of `mnist`.

    As MNIST was made: the digit's bounding box fitted to 20x20 pixels with its proportions kept, then placed in 28x28
    with its centre of mass in the middle. The file comes with scikit-learn; it is read where that is installed, and
    `holdfast data get uci-digits` takes it from the package otherwise.
    """
    path = UCI_DIGITS.required(FILE.name)
    with unpacked(path) as stream:
        table = np.loadtxt(stream, delimiter=",", dtype=np.int64, ndmin=2)
    if table.shape[1] != 65 or table.min() < 0 or table[:, :64].max() > INKS or table[:, 64].max() > 9:
        raise HoldfastError(f"{path} is not the table of 8x8 digits", hint="run `holdfast data verify uci-digits`")
    small = np.rint(table[:, :64].reshape(-1, 8, 8) * (255 / INKS)).astype(np.uint8)
    dataset = in_memory(
        "uci-digits",
        np.stack([as_mnist(image) for image in small])[:, None],
        table[:, 64],
        ids=numbered(range(len(table)), width=4, prefix="uci-"),
        classes=DIGITS,
        licence=UCI_DIGITS.licence,
        source=UCI,
    )
    dataset.card = replace(dataset.card, reference="mnist")
    return dataset


def as_mnist(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A digit on black as MNIST frames it: its longer side 20 pixels, its centre of mass in the middle of 28x28."""
    box = bounding_box(image, above=0)
    frame = np.zeros((FRAME, FRAME), dtype=np.uint8)
    if box is None:
        return frame
    digit = fitted(box, BOX)
    mass = digit.astype(np.float64)
    centre = [
        float((np.arange(side) * mass.sum(axis=1 - axis)).sum() / mass.sum()) for axis, side in enumerate(mass.shape)
    ]
    top, left = (
        min(max(0, round((FRAME - 1) / 2 - middle)), FRAME - side)
        for middle, side in zip(centre, digit.shape, strict=True)
    )
    frame[top : top + digit.shape[0], left : left + digit.shape[1]] = digit
    return frame


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
