"""Images and labels in numpy files: an `.npz`, or `images.npy` beside `labels.npy`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import no_labels
from holdfast.core.registry import register
from holdfast.datasets.in_memory import InMemory, Pixels, in_memory, numbered
from holdfast.datasets.label_maps import MOST_CLASSES, map_labels

Layout = Literal["auto", "nhwc", "nchw"]
ArraysByRole = dict[str, NDArray[Any]]
NAMES = {"images": ("images", "x", "X"), "labels": ("labels", "y"), "ids": ("ids",), "classes": ("classes",)}
CHANNELS = (1, 3)
MOST_PACKED, SPARE = 1100, 1 << 16  # deflate makes 1,032 bytes of one at most


@register("dataset", "arrays", tags=("yours",), later=("answers", "labels"))
def arrays(
    path: str,
    *,
    layout: Literal["auto", "nhwc", "nchw"] = "auto",
    answers: int | str | tuple[int | str, ...] | None = None,
    labels: Literal["array"] | None = "array",
) -> InMemory:
    """Your own arrays: `x.npz` with images and labels, or a folder with images.npy and labels.npy.

    Images are uint8, or floats in [0, 1]; NHWC, NCHW or NHW. Optional arrays `ids` and `classes` name the samples and
    the labels; otherwise an id is the position. Also read: `fog.npy` with `labels.npy` beside it (the files of
    CIFAR-10-C), and the stem of `test-images.npy` and `test-labels.npy`. `answers=1000` says that labels are the class
    numbers of a model of 1,000 classes; it also takes what `folder` takes. `labels=none` reads no labels.
    """
    file = Path(path).expanduser()
    content = _read(file)
    is_labelled = labels is not None
    if answers is not None and not is_labelled:
        raise Misuse("`answers` says what labels mean, and `labels=none` takes none", hint="leave one of them out")
    for needed in ("images", "labels") if is_labelled else ("images",):
        if needed not in content:
            way = "; where nobody labelled the images: `labels=none`" if needed == "labels" else ""
            names = " or ".join(f"`{name}`" for name in NAMES[needed])
            raise HoldfastError(f"{file} has no {needed}", hint=f"name that array {names}{way}")
    pixels = channels_first(content["images"], layout, file)
    numbers = whole_labels(content["labels"], file) if is_labelled else no_labels(len(pixels))
    classes = _words(content["classes"], "classes", file) if "classes" in content else None
    ids = _words(content["ids"], "ids", file) if "ids" in content else None
    dataset = in_memory(
        file.stem if file.suffix in (".npz", ".npy") else file.resolve().name,
        pixels,
        numbers,
        ids=ids or numbered(range(len(pixels)), width=len(str(max(0, len(pixels) - 1)))),
        classes=(classes or numbered(range(int(numbers.max(initial=0)) + 1), width=1)) if is_labelled else (),
        source=str(file),
    )
    known = map_labels(dataset.labels, dataset.card.classes, answers, str(file))
    return InMemory(known.on_card(dataset.card), dataset.ids, known.labels, dataset.pixels)


def channels_first(images: NDArray[Any], layout: Layout, file: Path) -> Pixels:
    """The same images as NCHW, without a copy."""
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise HoldfastError(
            f"images must be uint8, or floats in [0, 1], got {images.dtype} in {file}",
            hint="save them with `.astype(numpy.uint8)`",
        )
    if images.ndim == 3:
        return images[:, None]
    if images.ndim != 4:
        raise HoldfastError(f"images must be NHWC, NCHW or NHW, got the shape {images.shape} in {file}")
    last, first = images.shape[3] in CHANNELS, images.shape[1] in CHANNELS
    if layout == "auto" and last == first:
        raise HoldfastError(
            f"the shape {images.shape} in {file} does not tell where the channels are",
            hint="say it: `layout=nhwc` or `layout=nchw`",
        )
    return images.transpose(0, 3, 1, 2) if layout == "nhwc" or (layout == "auto" and last) else images


def whole_labels(labels: NDArray[Any], file: Path) -> NDArray[np.int64]:
    """Labels as whole numbers from 0; an (n, 1) column is flattened."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise HoldfastError(
            f"labels must be whole numbers, one per image, got {labels.dtype} of shape {labels.shape} in {file}",
            hint="save class indices, like `labels.astype(numpy.int64)`; for one-hot rows take `labels.argmax(1)`",
        )
    if labels.size and labels.min() < 0:
        raise HoldfastError(f"labels must not be negative, got {labels.min()} in {file}", hint="labels count from 0")
    if labels.size and labels.max() >= MOST_CLASSES:
        raise HoldfastError(
            f"the label {labels.max()} in {file} is too large: a dataset has at most {MOST_CLASSES:,} classes",
            hint="labels count the classes from 0, without gaps",
        )
    return labels.astype(np.int64)


def load_numpy(file: Path) -> Any:
    """What `numpy.load` gives, refusing pickles: no code of the file ever runs."""
    try:
        return np.load(file, mmap_mode="r" if file.suffix == ".npy" else None, allow_pickle=False)
    except DAMAGED as problem:
        raise _unreadable(file, problem) from problem


def load_npz(file: Path, *, only: Sequence[str] = ()) -> Mapping[str, NDArray[Any]]:
    """The arrays of an `.npz`, all or only some of them, refusing pickled objects."""
    archive = load_numpy(file)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise HoldfastError(f"{file} is not an .npz of arrays", hint="write it with `numpy.savez_compressed`")
    with archive:
        try:
            _check_sizes(archive, file, only)
            return {name: archive[name] for name in archive.files if not only or name in only}
        except DAMAGED as problem:
            raise _unreadable(file, problem) from problem


def _check_sizes(archive: Any, file: Path, only: Sequence[str]) -> None:
    """Refuses members that claim more than they can hold, and arrays that no memory holds."""
    members = [info for info in archive.zip.infolist() if not only or info.filename.removesuffix(".npy") in only]
    lying = next((info for info in members if info.file_size > MOST_PACKED * info.compress_size + SPARE), None)
    if lying is not None:
        raise HoldfastError(f"{file} is damaged: `{lying.filename}` claims {lying.file_size:,} bytes")
    total, most = sum(info.file_size for info in members), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total > most:
        raise HoldfastError(
            f"{file} unpacks to {total:,} bytes, this machine has {most:,}",
            hint="save the arrays as images.npy and labels.npy in a folder: those are read piece by piece",
        )
    for info in members:
        with archive.zip.open(info) as stream:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, _, kind = read.get(version, np.lib.format.read_array_header_2_0)(stream)
        if not kind.hasobject and math.prod(shape) * kind.itemsize > info.file_size:
            raise HoldfastError(f"{file} is damaged: `{info.filename}` is shorter than its shape {shape}")


def _unreadable(file: Path, problem: Exception) -> HoldfastError:
    if "pickle" in str(problem) or "Python objects" in str(problem):
        hint = "save plain arrays of numbers and strings; pickled objects can run code and are never read"
        return HoldfastError(f"{file} holds pickled objects", hint=hint)
    return HoldfastError(f"{file} cannot be read: {problem}")


def _read(file: Path) -> ArraysByRole:
    if file.suffix == ".npz" and file.is_file():
        content = load_npz(file)
        named = {
            role: [content[name] for name in names if name in content and content[name].ndim]
            for role, names in NAMES.items()
        }
        return {role: given[0] for role, given in named.items() if given}
    files = _npy_files(file)
    return {role: load_numpy(file) for role, file in files.items() if file.is_file()}


def _npy_files(file: Path) -> dict[str, Path]:
    if file.is_dir():
        return {role: file / f"{role}.npy" for role in NAMES}
    if file.suffix == ".npy" and file.is_file():
        return {role: file if role == "images" else file.parent / f"{role}.npy" for role in NAMES}
    stem = {role: file.with_name(f"{file.name}-{role}.npy") for role in NAMES}
    if stem["images"].is_file():
        return stem
    raise Misuse(f"there are no arrays at {file}", hint="give an .npz, or a folder with images.npy and labels.npy")


def _words(words: NDArray[Any], what: str, file: Path) -> tuple[str, ...]:
    if words.ndim != 1 or words.dtype.kind not in "UiuS":
        raise HoldfastError(f"{what} must be strings, got {words.dtype} of shape {words.shape} in {file}")
    return tuple(word.decode() if isinstance(word, bytes) else str(word) for word in words.tolist())
