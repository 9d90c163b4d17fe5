"""Datasets whose folders name the classes, unpacked or in a tar that is read in place: the natural shifts."""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import DatasetCard
from holdfast.datasets.decoded_cache import file_stamp, path_stamp, times
from holdfast.datasets.downloads import Download
from holdfast.datasets.folder import image_files, spelled
from holdfast.datasets.image_files import SUFFIXES, Framing, ImageFiles, Opened, listing_digest
from holdfast.datasets.in_memory import first_duplicate

SHOWN = 5


class TarMember(NamedTuple):
    """A file inside a tar: where its bytes begin, and how many there are."""

    archive: Path
    start: int
    length: int

    def opened(self) -> io.BytesIO:
        with self.archive.open("rb") as file:
            file.seek(self.start)
            return io.BytesIO(file.read(self.length))

    def stamp(self) -> int:
        """Stands for the file as it is: its place in the tar, and the tar's last change."""
        try:
            about = self.archive.stat()
        except OSError:
            return 0
        member = str(self.archive.absolute()), self.start, self.length
        return file_stamp((*member, *times(about)), about.st_mtime)


class ImageFile(NamedTuple):
    """An image file by the name of its folder and its own; `folder` is empty where files are in no folder."""

    folder: str
    name: str
    size: int
    where: Path | TarMember

    @property
    def id(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    def opened(self) -> Opened:
        return self.where.opened() if isinstance(self.where, TarMember) else self.where

    def stamp(self) -> int:
        return self.where.stamp() if isinstance(self.where, TarMember) else path_stamp(self.where)


def image_files_in(path: Path, inside: str = "") -> list[ImageFile]:
    """The images of a folder or a tar, by folder and name; `inside`: only those below that path."""
    images = _in_tar(path, inside) if path.is_file() else _in_folder(path / inside if inside else path)
    return sorted(images, key=lambda image: (image.folder, image.name))


def locate_images(
    download: Download, names: Sequence[str], expected: Collection[str], *, tars: Sequence[str] | None = None
) -> Path:
    """The folder or tar that holds a dataset's class folders, one of which is `expected`, under one of these names.

    Tars have the names of folders unless given.
    """
    tars = names if tars is None else tars
    for root in (download.folder, *download.roots):
        for folder in (*(root / name for name in names), root):
            if any((folder / name).is_dir() for name in expected):
                return folder
        for tar in (root / f"{name}{end}" for name in tars for end in (".tar", ".tar.gz")):
            if tar.is_file():
                return tar
    if _has_others(download, {*names, *tars, *(name.split("/")[0] for name in expected)}):
        raise download.missing(names[0])
    raise misplaced(
        download, names[0], f"it should hold `{names[0]}.tar`, or folders like `{names[0]}/{min(expected)}`"
    )


def _has_others(download: Download, names: Collection[str]) -> bool:
    """Whether other variants of a dataset lie there, so that this one is not misplaced but absent."""
    files = [file.name for form in download.forms for file in form.files]
    others = {*download.folders, *files} - {name + end for name in names for end in ("", ".tar", ".tar.gz")}
    return any((root / other).exists() for root in (download.folder, *download.roots) for other in others)


def misplaced(download: Download, name: str, layout: str) -> HoldfastError:
    """The error for a dataset whose images were not found: they are not here, or in an unknown layout."""
    there = download.folder.iterdir() if download.folder.is_dir() else ()
    names = sorted(inner.name for inner in there if inner.name[0] != "." and inner.suffix != ".part")
    if not names:
        return download.missing(name)
    return HoldfastError(
        f"{download.folder} is not laid out as `{download.name}`: it holds {_some(names)}", hint=layout
    )


def _in_folder(path: Path) -> Iterator[ImageFile]:
    if not path.is_dir():
        raise HoldfastError(f"there is no folder {path}")
    for folder in (path, *(inner for inner in path.iterdir() if inner.is_dir() and inner.name[0] != ".")):
        name = "" if folder == path else spelled(folder.name, path)
        for file in image_files(folder):
            yield ImageFile(name, spelled(file.name, folder), file.stat().st_size, file)


def _in_tar(archive: Path, inside: str) -> Iterator[ImageFile]:
    about = archive.stat()
    for name, start, length in _members(archive, about.st_size, about.st_mtime_ns):
        *above, folder, own = ("", *PurePosixPath(name).parts)
        below = "/".join(above).removeprefix("/")
        if not inside or below == inside or below.endswith(f"/{inside}"):
            yield ImageFile(spelled(folder, archive), spelled(own, archive), length, TarMember(archive, start, length))


@functools.lru_cache(maxsize=4)
def _members(archive: Path, size: int, time: int) -> tuple[tuple[str, int, int], ...]:  # noqa: ARG001 - part of the key
    """Names of the image files of a tar with their positions; a tar of a million files takes a minute, once."""
    try:
        with tarfile.open(archive, "r:") as tar:
            members = tuple(
                (member.name, member.offset_data, member.size)
                for member in tar
                if member.isfile() and member.name.lower().endswith(SUFFIXES) and "/." not in f"/{member.name}"[2:]
            )
    except tarfile.ReadError as problem:
        with archive.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        why = "is compressed" if packed else f"is no tar, or not whole: {problem}"
        hint = "unpack it" if packed else "get it again"
        raise HoldfastError(f"{archive} {why}", hint=f"{hint}: `tar -xf {archive.name}`") from problem
    if members and members[-1][1] + members[-1][2] > size:
        raise HoldfastError(f"{archive} is not whole: its last file goes beyond its end", hint="get it again")
    return members


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which images are taken: those a file lists, one id per line, in its order; of them, or of all, the first ones."""

    ids: str | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise Misuse(f"`first` is 1 or more, got {self.first}")


def checked_dataset(
    card: DatasetCard,
    labels: Mapping[str, int],
    files: Sequence[ImageFile],
    path: Path,
    selection: Selection,
    *,
    framing: Framing,
    known: Collection[str] = (),
) -> ImageFiles:
    """The dataset, checked: every folder a class, every class a folder, no id twice.

    `labels` are those of the folders; `known` are folders that may be there besides.
    """
    named = {*labels, *known}
    stray = next((file for file in files if file.folder not in named), None)
    if stray is not None:
        raise HoldfastError(
            f"{path} is not laid out as `{card.name}`: {stray.id} lies in no class folder",
            hint=f"its class folders are named like `{next(iter(labels))}`",
        )
    kept = [file for file in files if file.folder in labels]
    if (twice := first_duplicate([file.id for file in kept])) is not None:
        raise HoldfastError(f"two files of {path} have the id `{twice}`", hint="remove or rename one of them")
    if selection.ids is not None:
        kept = selected_by_file(kept, Path(selection.ids).expanduser(), path)
    elif absent := labels.keys() - {file.folder for file in kept}:
        first = next(folder for folder in labels if folder in absent)
        raise HoldfastError(
            f"{path} has no images for {len(absent)} of the {len(labels)} class folders of `{card.name}`, "
            f"`{first}` first",
            hint="the set is not whole: get it again, or choose images with `ids=FILE`",
        )
    kept = kept[: selection.first]
    return dataset_of(card, kept, [file.id for file in kept], [labels[file.folder] for file in kept], framing)


def dataset_of(
    card: DatasetCard, files: Sequence[ImageFile], ids: Sequence[str], labels: Sequence[int], framing: Framing
) -> ImageFiles:
    """The dataset of these files; its card gets the fingerprint of ids, labels and sizes in bytes."""
    facts = zip(ids, labels, (file.size for file in files), strict=True)
    card = replace(card, fingerprint=listing_digest(facts))
    kept = np.asarray(labels, dtype=np.int64)
    return ImageFiles(card, tuple(ids), kept, lambda i: files[i].opened(), framing, lambda i: files[i].stamp())


def selected_by_file(files: Sequence[ImageFile], file: Path, path: Path) -> list[ImageFile]:
    """The images that a file lists, in its order."""
    if not file.is_file():
        raise Misuse(f"there is no list of ids at {file}")
    ids = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if (twice := first_duplicate(ids)) is not None:
        raise HoldfastError(f"the id `{twice}` appears twice in {file}", hint="an id names one image")
    by_id = {file.id: file for file in files}
    missing = [name for name in ids if name not in by_id]
    alike = f"ids look like `{next(iter(by_id), 'class/name.jpg')}`"
    if not ids:
        raise HoldfastError(f"{file} lists no images", hint=alike)
    if missing:
        raise HoldfastError(
            f"{len(missing)} of the {len(ids)} images in {file} are not in {path}, `{missing[0]}` first", hint=alike
        )
    return [by_id[name] for name in ids]
