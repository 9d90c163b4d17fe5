"""A folder with one folder of image files per class, read as they are needed."""

from __future__ import annotations

import os
import stat
import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.labels import no_labels
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.datasets.image_files import (
    SUFFIXES,
    ImageFiles,
    framing_of,
    image_size,
    listing_digest,
)
from holdfast.datasets.in_memory import first_duplicate
from holdfast.datasets.label_maps import map_labels

NOT_READ = (".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".ppm", ".pgm")  # images of other formats


@register("dataset", "folder", tags=("yours",), later=("answers", "labels"))
def folder(
    path: str,
    *,
    size: int | None = None,
    resize: int | None = None,
    channels: Literal[1, 3] = 3,
    answers: int | str | tuple[int | str, ...] | None = None,
    labels: Literal["folders"] | None = "folders",
) -> ImageFiles:
    """Your own images: a folder with one folder of JPEG, PNG, WebP or BMP files per class.

    Sorted folder names are the labels, ids are `class/name.jpg`. The shorter side becomes `resize` (default: `size`),
    then the centre square of side `size` is taken; without `size` every image must have one size already. `answers`
    says which classes of a model answer for the folders: `imagenet` by wnid or name, a list of names or numbers, or a
    file of them. `labels=none` takes every image in the folder and in folders inside it, without labels; ids are paths.
    """
    root = Path(path).expanduser()
    framing = framing_of(channels, size, resize)
    classes: dict[str, Path] = {}
    if labels is None:
        if answers is not None:
            raise Misuse("`answers` says what labels mean, and `labels=none` takes none", hint="leave one of them out")
        listed, ids = _without_labels(root)
        numbers = no_labels(len(ids))
    else:
        classes = _class_folders(root)
        files = {name: image_files(folder_path) for name, folder_path in classes.items()}
        if empty := [name for name, images in files.items() if not images]:
            problem = f"no images in the class folder `{empty[0]}` of {root}"
            raise HoldfastError(problem, hint=_empty_hint(root / empty[0]))
        _tell_left_out(root, classes.values())
        listed = tuple(file for images in files.values() for file in images)
        ids = tuple(spelled(f"{file.parent.name}/{file.name}", root) for file in listed)
        if (twice := first_duplicate(ids)) is not None:
            raise HoldfastError(f"two files of {root} have the id `{twice}`", hint="rename one of them")
        numbers = np.repeat(np.arange(len(files), dtype=np.int64), [len(images) for images in files.values()])
    card = DatasetCard(
        name=root.resolve().name,
        classes=tuple(classes),
        channels=channels,
        size=image_size(framing, ids, listed.__getitem__, ref="folder", path=path),
        fingerprint=listing_digest((name, _length(file)) for name, file in zip(ids, listed, strict=True)),
        source=str(root),
    )
    known = map_labels(numbers, card.classes, answers, str(root))
    return ImageFiles(known.on_card(card), ids, known.labels, listed.__getitem__, framing)


def _without_labels(root: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Every image under a folder, whose folders say nothing, and its id."""
    _refuse_other(root, "give a folder that holds images")
    inside = (file for file in root.rglob("*") if not any(part[0] == "." for part in file.relative_to(root).parts))
    images = [file for file in inside if file.suffix.lower() in SUFFIXES and may_be_read(file)]
    named = {spelled(file.relative_to(root).as_posix(), root): file for file in images}
    if not named:
        raise HoldfastError(f"no images in {root}", hint=f"files end in {', '.join(SUFFIXES)}")
    if len(named) < len(images):
        raise HoldfastError(f"two files of {root} differ in how accents are written alone", hint="rename one")
    ids = tuple(sorted(named))
    return tuple(named[name] for name in ids), ids


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        what = "is a link that leads to no file" if file.is_symlink() else f"cannot be read: {error.strerror or error}"
        raise HoldfastError(f"{file} {what}", hint="remove it, or bring the file back") from error


def _refuse_other(root: Path, hint: str) -> None:
    if not root.exists():
        raise Misuse(f"there is no folder {root}", hint=hint)
    if not root.is_dir():
        other = "read arrays with `arrays:PATH`" if root.suffix in (".npz", ".npy") else "give a folder"
        raise Misuse(f"{root} is a file, not a folder", hint=other)


def _class_folders(root: Path) -> dict[str, Path]:
    _refuse_other(root, "give a folder that holds one folder of images per class")
    folders = {
        spelled(folder_path.name, root): folder_path
        for folder_path in root.iterdir()
        if folder_path.is_dir() and folder_path.name[0] != "."
    }
    if not folders:
        raise HoldfastError(
            f"no class folders in {root}",
            hint="put the images of each class into a folder named after the class; where nobody labelled them, "
            "`labels=none` takes them for `predict` and `agree`",
        )
    return dict(sorted(folders.items()))


def image_files(folder_path: Path) -> list[Path]:
    """The image files right inside a folder, by name."""
    images = (file for file in folder_path.iterdir() if file.suffix.lower() in SUFFIXES and file.name[0] != ".")
    return sorted(filter(may_be_read, images), key=lambda file: spelled(file.name, folder_path))


def may_be_read(file: Path) -> bool:
    """Whether a path is a file, or one that is gone or cannot be looked at: no folder, and no pipe to wait for."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return True


def _tell_left_out(root: Path, folders: Iterable[Path]) -> None:
    """Warns of images in class folders that are not taken: in folders further down, or of formats that are not read."""
    left: list[str] = []
    for folder_path in folders:
        with os.scandir(folder_path) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if Path(entry.name).suffix.lower() in NOT_READ:
                    left.append(f"{folder_path.name}/{entry.name}")
                elif entry.is_dir():
                    inside = (file.relative_to(root) for file in Path(entry.path).rglob("*"))
                    left += [str(file) for file in inside if file.suffix.lower() in (*SUFFIXES, *NOT_READ)]
    if left:
        shown = f"{min(left)}{', …' if len(left) > 1 else ''}"
        warnings.warn(
            f"{root} holds {len(left):,} images that are left out ({shown}): images lie right inside the folder of "
            f"their class, and end in {', '.join(SUFFIXES)}",
            HoldfastWarning,
            stacklevel=2,
        )


def _empty_hint(folder_path: Path) -> str:
    if any(inner.is_dir() for inner in folder_path.iterdir()):
        return f"it holds folders; did you mean `folder:{folder_path}`?"
    return f"remove it, or add files that end in {', '.join(SUFFIXES)}"


def spelled(name: str, folder_path: Path) -> str:
    """The name as every machine spells it: some file systems decompose accents."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise HoldfastError(f"a name in {folder_path} is not UTF-8: {name!r}", hint="rename it") from None
    return unicodedata.normalize("NFC", name)
