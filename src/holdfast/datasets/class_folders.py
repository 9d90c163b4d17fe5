"""Datasets whose folders name the classes, unpacked or in a tar that is read in place: the natural shifts."""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import LabelMap
from holdfast.core.types import DatasetCard
from holdfast.datasets.downloads import Download
from holdfast.datasets.folder import image_files, spelled
from holdfast.datasets.image_files import SUFFIXES, Encoded, Framing, Opened, listing_digest
from holdfast.datasets.in_memory import repeated

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


@dataclass(frozen=True, slots=True)
class Choice:
    """Which images are taken: those a file lists, one id per line, in its order; of them, or of all, the first ones."""

    ids: str | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise Misuse(f"`first` is 1 or more, got {self.first}")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a set is to be: its name and classes, the label of each folder, how its images are framed.

    `known` are folders that may lie there besides those with a label; `size` is the side of every image.
    """

    name: str
    classes: tuple[str, ...]
    labels: Mapping[str, int]
    framing: Framing
    size: int
    known: Collection[str] = ()
    answers: LabelMap | None = None
    reference: str = ""
    licence: str = ""
    source: str = ""


def pictures(plan: Plan, pieces: Sequence[Piece], place: Path, choice: Choice) -> Encoded:
    """The dataset, checked: every folder a class, every class a folder, no id twice."""
    named = {*plan.labels, *plan.known}
    stray = next((piece for piece in pieces if piece.folder not in named), None)
    if stray is not None:
        raise HoldfastError(
            f"{place} is not laid out as `{plan.name}`: {stray.id} lies in no class folder",
            hint=f"its class folders are named like `{next(iter(plan.labels))}`",
        )
    kept = [piece for piece in pieces if piece.folder in plan.labels]
    twice = repeated([piece.id for piece in kept])
    if twice is not None:
        raise HoldfastError(f"two files of {place} have the id `{twice}`", hint="remove or rename one of them")
    if choice.ids is None:
        _refuse_gaps(plan, kept, place)
    else:
        kept = listed(kept, Path(choice.ids).expanduser(), place)
    return encoded(plan, kept[: choice.first])


def encoded(plan: Plan, pieces: Sequence[Piece], *, ids: Sequence[str] = (), labels: Sequence[int] = ()) -> Encoded:
    """The dataset of these files; ids and labels are those of their folders unless given."""
    ids = tuple(ids) or tuple(piece.id for piece in pieces)
    labels = labels or [plan.labels[piece.folder] for piece in pieces]
    card = DatasetCard(
        name=plan.name,
        classes=plan.classes,
        channels=plan.framing.channels,
        size=(plan.size, plan.size),
        fingerprint=listing_digest(zip(ids, labels, (piece.size for piece in pieces), strict=True)),
        licence=plan.licence,
        source=plan.source,
        answers=plan.answers,
        reference=plan.reference,
    )
    return Encoded(card, ids, np.asarray(labels, dtype=np.int64), lambda i: pieces[i].opened(), plan.framing)


def listed(pieces: Sequence[Piece], file: Path, place: Path) -> list[Piece]:
    """The images that a file lists, in its order."""
    if not file.is_file():
        raise Misuse(f"there is no list of ids at {file}")
    ids = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    twice = repeated(ids)
    if twice is not None:
        raise HoldfastError(f"the id `{twice}` stands twice in {file}", hint="an id names one image")
    by_id = {piece.id: piece for piece in pieces}
    missing = [name for name in ids if name not in by_id]
    alike = f"ids look like `{next(iter(by_id), 'class/name.jpg')}`"
    if not ids:
        raise HoldfastError(f"{file} lists no images", hint=alike)
    if missing:
        raise HoldfastError(
            f"{len(missing)} of the {len(ids)} images in {file} are not in {place}, `{missing[0]}` first", hint=alike
        )
    return [by_id[name] for name in ids]


def _refuse_gaps(plan: Plan, pieces: Sequence[Piece], place: Path) -> None:
    there = {piece.folder for piece in pieces}
    gone = [folder for folder in plan.labels if folder not in there]
    if gone:
        raise HoldfastError(
            f"{place} has no images for {len(gone)} of the {len(plan.labels)} class folders of `{plan.name}`, "
            f"`{gone[0]}` first",
            hint="the set is not whole: get it again, or choose images with `ids=FILE`",
        )
