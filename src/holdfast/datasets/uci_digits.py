"""Handwritten digits of the UCI repository, framed as MNIST frames its own: the same task from other writers."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.downloads import File, Form, Mirror, register_download, unpacked
from holdfast.datasets.in_memory import InMemory, in_memory, numbered
from holdfast.datasets.mnist import DIGITS
from holdfast.datasets.spline_resize import bounding_box, fitted

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
