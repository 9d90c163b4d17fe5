"""The dataset that comes with holdfast: 2,000 images of the Fashion-MNIST test split."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.arrays import load_npz
from holdfast.datasets.files import Download, File, Form, is_whole, published
from holdfast.datasets.memory import InMemory, in_memory, numbered
from holdfast.datasets.mnist import GARMENTS, ZALANDO

FILE = File("fashion-mnist-2k.npz", "sha256:0a46fea6e2ca45052d17c2f622767289b12529069ada8b24cf1af50862ffe985")
FOLDER = Path(__file__).parent / "bundled"
BUNDLED = published(Download("fashion-mnist-2k", (Form((FILE,)),), places=(FOLDER,), megabytes=1, licence="MIT"))


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
