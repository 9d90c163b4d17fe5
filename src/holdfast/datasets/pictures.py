"""A dataset from image files whose folders name their classes: the natural shifts share this."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import LabelMap
from holdfast.core.types import DatasetCard
from holdfast.datasets.decoding import Framing
from holdfast.datasets.encoded import Encoded, listing_digest
from holdfast.datasets.listing import Piece
from holdfast.datasets.memory import repeated


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
