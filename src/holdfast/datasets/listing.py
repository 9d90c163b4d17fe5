"""Image files and the folders they lie in, whether unpacked or in a tar, which is read where it lies."""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.datasets.decoding import SUFFIXES, Opened
from holdfast.datasets.files import Download
from holdfast.datasets.folder import image_files, spelled

SHOWN = 5


class Part(NamedTuple):
    """A file inside a tar: where its bytes begin, and how many there are."""

    archive: Path
    start: int
    length: int

    def opened(self) -> io.BytesIO:
        with self.archive.open("rb") as file:
            file.seek(self.start)
            return io.BytesIO(file.read(self.length))


class Piece(NamedTuple):
    """An image file by the name of its folder and its own; `folder` is empty where files lie flat."""

    folder: str
    name: str
    size: int
    where: Path | Part

    @property
    def id(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    def opened(self) -> Opened:
        return self.where.opened() if isinstance(self.where, Part) else self.where


def pieces_in(place: Path, inside: str = "") -> list[Piece]:
    """The images of a folder or a tar, by folder and name; `inside`: only those below that path."""
    found = _in_tar(place, inside) if place.is_file() else _in_folder(place / inside if inside else place)
    return sorted(found, key=lambda piece: (piece.folder, piece.name))


def place_of(
    download: Download, names: Sequence[str], expected: Collection[str], *, tars: Sequence[str] | None = None
) -> Path:
    """The folder or tar that holds a dataset's class folders, one of which is `expected`, under one of these names.

    Tars have the names of folders unless given.
    """
    tars = names if tars is None else tars
    for root in (download.folder, *download.places):
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
    return any((root / other).exists() for root in (download.folder, *download.places) for other in others)


def misplaced(download: Download, name: str, layout: str) -> HoldfastError:
    """The error for a dataset that was not found: because it is not here, or lies there in no layout that is known."""
    there = download.folder.iterdir() if download.folder.is_dir() else ()
    found = sorted(inner.name for inner in there if inner.name[0] != "." and inner.suffix != ".part")
    if not found:
        return download.missing(name)
    return HoldfastError(
        f"{download.folder} is not laid out as `{download.name}`: it holds {_some(found)}", hint=layout
    )


def _in_folder(place: Path) -> Iterator[Piece]:
    if not place.is_dir():
        raise HoldfastError(f"there is no folder {place}")
    for folder in (place, *(inner for inner in place.iterdir() if inner.is_dir() and inner.name[0] != ".")):
        name = "" if folder == place else spelled(folder.name, place)
        for file in image_files(folder):
            yield Piece(name, spelled(file.name, folder), file.stat().st_size, file)


def _in_tar(archive: Path, inside: str) -> Iterator[Piece]:
    about = archive.stat()
    for name, start, length in _members(archive, about.st_size, about.st_mtime_ns):
        *above, folder, own = ("", *PurePosixPath(name).parts)
        below = "/".join(above).removeprefix("/")
        if not inside or below == inside or below.endswith(f"/{inside}"):
            yield Piece(spelled(folder, archive), spelled(own, archive), length, Part(archive, start, length))


@functools.lru_cache(maxsize=4)
def _members(archive: Path, size: int, time: int) -> tuple[tuple[str, int, int], ...]:  # noqa: ARG001 - part of the key
    """Names of the image files of a tar with their places; a tar of a million files takes a minute, once."""
    try:
        with tarfile.open(archive, "r:") as tar:
            found = tuple(
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
    if found and found[-1][1] + found[-1][2] > size:
        raise HoldfastError(f"{archive} is not whole: its last file goes beyond its end", hint="get it again")
    return found


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
