"""A folder with one folder of image files per class, read as they are needed."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard, Images
from holdfast.datasets.decoding import SUFFIXES, Framing, Unreadable, decoded, dimensions, in_parallel
from holdfast.datasets.memory import repeated


@dataclass(slots=True, eq=False)
class Folder:
    """Images in files; those that cannot be read are black and have a reason."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    files: tuple[Path, ...]
    framing: Framing

    def images(self, index: Sequence[int]) -> Images:
        import torch

        places = [int(place) for place in index]
        pixels = np.zeros((len(places), self.card.channels, *self.card.size), dtype=np.uint8)

        def fill(position: int) -> str | None:
            try:
                image = decoded(self.files[places[position]], self.framing)
            except Unreadable as reason:
                return f"{self.ids[places[position]]} {reason}"
            if image.shape != pixels.shape[1:]:
                return f"{self.ids[places[position]]} is no longer {_sides(self.card.size)}"
            pixels[position] = image
            return None

        reasons = in_parallel(fill, range(len(places)))
        return Images(torch.from_numpy(pixels), {i: reason for i, reason in enumerate(reasons) if reason is not None})


@register("dataset", "folder", tags=("yours",))
def folder(path: str, *, size: int | None = None, resize: int | None = None, channels: Literal[1, 3] = 3) -> Folder:
    """Your own images: a folder with one folder of JPEG, PNG, WebP or BMP files per class.

    Sorted folder names are the labels, ids are `class/name.jpg`. The shorter side becomes `resize` (default: `size`),
    then the centre square of side `size` is taken; without `size` every image must have one size already.
    """
    root = Path(path).expanduser()
    if size is not None and size < 1:
        raise Misuse(f"`size` must be at least 1, got {size}")
    if resize is not None and (size is None or resize < size):
        raise Misuse(
            f"`resize={resize}` must be at least `size`, got size={size or 'none'}", hint="resize=256,size=224"
        )
    classes = _class_folders(root)
    files = {name: _image_files(place) for name, place in classes.items()}
    empty = [name for name, found in files.items() if not found]
    if empty:
        raise HoldfastError(f"no images in the class folder `{empty[0]}` of {root}", hint=_empty_hint(root / empty[0]))
    listed = tuple(file for found in files.values() for file in found)
    ids = tuple(_id(f"{file.parent.name}/{file.name}", root) for file in listed)
    twice = repeated(ids)
    if twice is not None:
        raise HoldfastError(f"two files of {root} have the id `{twice}`", hint="rename one of them")
    labels = np.repeat(np.arange(len(files), dtype=np.int64), [len(found) for found in files.values()])
    card = DatasetCard(
        name=root.resolve().name,
        classes=tuple(classes),
        channels=channels,
        size=(size, size) if size is not None else _common_size(listed, ids, path),
        fingerprint=_fingerprint(ids, listed),
        source=str(root),
    )
    return Folder(card, ids, labels, listed, Framing(channels, size, resize))


def _class_folders(root: Path) -> dict[str, Path]:
    if not root.exists():
        raise Misuse(f"there is no folder {root}", hint="give a folder that holds one folder of images per class")
    if not root.is_dir():
        other = "read arrays with `arrays:PATH`" if root.suffix in (".npz", ".npy") else "give a folder"
        raise Misuse(f"{root} is a file, not a folder", hint=other)
    found = {_id(place.name, root): place for place in root.iterdir() if place.is_dir() and place.name[0] != "."}
    if not found:
        raise HoldfastError(
            f"no class folders in {root}", hint="put the images of each class into a folder named after the class"
        )
    return dict(sorted(found.items()))


def _image_files(place: Path) -> list[Path]:
    found = (file for file in place.iterdir() if file.suffix.lower() in SUFFIXES and file.name[0] != ".")
    return sorted((file for file in found if not file.is_dir()), key=lambda file: _id(file.name, place))


def _empty_hint(place: Path) -> str:
    if any(inner.is_dir() for inner in place.iterdir()):
        return f"it holds folders; did you mean `folder:{place}`?"
    return f"remove it, or add files that end in {', '.join(SUFFIXES)}"


def _id(name: str, place: Path) -> str:
    """The name as every machine spells it: some file systems decompose accents."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise HoldfastError(f"a name in {place} is not UTF-8: {name!r}", hint="rename it") from None
    return unicodedata.normalize("NFC", name)


def _common_size(files: Sequence[Path], ids: Sequence[str], path: str) -> tuple[int, int]:
    sizes: dict[tuple[int, int], str] = {}
    for name, size in zip(ids, in_parallel(dimensions, files), strict=True):
        if size is not None:
            sizes.setdefault(size, name)
    if not sizes:
        raise HoldfastError(f"not one of the {len(files)} images in {path} can be read")
    if len(sizes) > 1:
        (one, first), (other, second), *_ = sizes.items()
        raise HoldfastError(
            f"the images in {path} differ in size: {first} is {_sides(one)}, {second} is {_sides(other)}",
            hint=f"say the size you want: `folder:{path},size=224`",
        )
    return next(iter(sizes))


def _sides(size: tuple[int, int]) -> str:
    return f"{size[1]}x{size[0]}"


def _fingerprint(ids: Sequence[str], files: Sequence[Path]) -> str:
    listing = sorted(f"{name}\0{file.stat().st_size}" for name, file in zip(ids, files, strict=True))
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()[:20]
