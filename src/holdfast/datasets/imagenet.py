"""ImageNet's validation images, in any of the usual layouts: all of them, or the classes that a shifted set has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.class_folders import Choice, Piece, Plan, misplaced, pictures, pieces_in
from holdfast.datasets.downloads import Download, published
from holdfast.datasets.image_files import Encoded, framed
from holdfast.datasets.imagenet_classes import Answers, Classes, names, scheme

FOLDERS = ("val", "validation", "ILSVRC2012_img_val", "ILSVRC/Data/CLS-LOC/val", ".")
TARS = ("ILSVRC2012_img_val.tar", "val.tar", "imagenet-val.tar")
LISTS = (
    "val.txt",
    "val_map.txt",
    "val_labels.txt",
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",
)
LIST_FOLDERS = (".", "..", "data", "../data", "ILSVRC2012_devkit_t12/data", "../ILSVRC2012_devkit_t12/data")
META = "meta.mat"  # of the development kit: says which wnid its class numbers stand for
WNID = re.compile(r"n\d{8}")
SOURCE = "https://image-net.org"
SIZE, RESIZE = 224, 256

IMAGENET = published(
    Download(
        "imagenet",
        (),
        megabytes=6744,
        licence="for research, on request",
        folders=(*FOLDERS[:-1], "n01440764"),
        by_hand=f"sign in at {SOURCE} and get {TARS[0]} and the development kit of ILSVRC 2012",
    )
)


@register("dataset", "imagenet", source=SOURCE, tags=("standard", "colour"))
def imagenet(
    *,
    classes: Classes = "all",
    answers: Answers | Literal["own"] = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ImageNet: the 50,000 validation images, or those of the classes that a shifted set has.

    `answers=subset` lets a model answer with those classes alone, `full` with all 1,000, `sum` merges classes by their
    total probability; `own` is for models that have the set's classes and no others, such as those of CIFAR-10. `ids`
    names a file with one id per line, `first` takes the first so many.
    """
    found = scheme(classes, "subset" if answers == "own" else answers)
    pieces, place = validation_images(IMAGENET)
    plan = Plan(
        name="imagenet" if classes == "all" else f"imagenet, classes of {classes}",
        classes=found.names,
        labels=found.labels,
        known=names(),
        framing=framed(3, size, resize),
        size=size,
        answers=None if answers == "own" else found.answers,
        licence=IMAGENET.licence,
        source=SOURCE,
    )
    return pictures(plan, pieces, place, Choice(ids, first))


def reference(classes: Classes, answers: Answers, *, size: int = SIZE, resize: int | None = RESIZE) -> str:
    """The validation images to compare a shifted set with: its classes, answered its way, framed like its images."""
    said = [] if classes == "all" else [f"classes={classes}", f"answers={answers}"]
    said += [] if (size, resize) == (SIZE, RESIZE) else [f"size={size}", f"resize={resize or 'none'}"]
    return f"imagenet:{','.join(said)}" if said else "imagenet"


def validation_images(download: Download) -> tuple[list[Piece], Path]:
    """Every image under its class's wnid, whatever the layout, and the place they were found in."""
    for place in _places(download):
        pieces = pieces_in(place)
        flat = [piece for piece in pieces if not WNID.fullmatch(piece.folder)]
        if pieces and not flat:
            return pieces, place
        if pieces and len(flat) == len(pieces):
            return _with_classes(flat, place, download.folder), place
        if pieces:
            raise HoldfastError(
                f"{place} holds class folders and other images, {flat[0].id} first", hint="keep one layout"
            )
    layout = f"it should hold folders like `val/n01440764`, images in `val/` and a list, or `{TARS[0]}` and a list"
    raise misplaced(download, "val", layout)


def _places(download: Download) -> Iterator[Path]:
    for root in (download.folder, *download.places):
        yield from (root / name for name in FOLDERS if (root / name).is_dir())
        yield from (root / name for name in TARS if (root / name).is_file())


def _with_classes(pieces: Sequence[Piece], place: Path, root: Path) -> list[Piece]:
    beside = place if place.is_dir() else place.parent
    folders = dict.fromkeys((base / inner).resolve() for base in (beside, root) for inner in LIST_FOLDERS)
    found = next((folder / name for folder in folders for name in LISTS if (folder / name).is_file()), None)
    if found is None:
        raise HoldfastError(
            f"the images in {place} lie flat, and no list tells their classes",
            hint=f"put one of {', '.join(LISTS)} beside them, or sort them into folders by wnid",
        )
    classes = classes_in(found, [piece.name for piece in pieces])
    missing = [piece.name for piece in pieces if piece.name not in classes]
    if missing:
        raise HoldfastError(
            f"{found} does not name {len(missing)} of {len(pieces)} images in {place}, {missing[0]} first"
        )
    return sorted(piece._replace(folder=classes[piece.name]) for piece in pieces)


def classes_in(file: Path, images: Sequence[str]) -> dict[str, str]:
    """The wnid of each image by a list: `name class` lines, or one class per line in the order of sorted names.

    A class is a wnid or, beside a name, its place among the sorted wnids, from 0; the numbers of the development kit,
    one per line, count otherwise and need its meta.mat.
    """
    lines = [line.replace(",", " ").split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if lines and lines[0][0] == "ImageId":
        lines = [[f"{line[0]}.JPEG", line[1]] for line in lines[1:]]
    if all(len(line) == 1 for line in lines):
        if len(lines) != len(images):
            raise HoldfastError(f"{file} has {len(lines)} lines for {len(images)} images")
        said = [line[0] for line in lines]
        if any(word.isdecimal() for word in said):
            said = _by_development_kit(said, file)
        pairs = dict(zip(sorted(images), said, strict=True))
    else:
        pairs = {PurePosixPath(line[0]).name: _class(line[-1 if len(line) == 2 else 1], file) for line in lines}
    for name, wnid in pairs.items():
        if wnid not in names():
            raise HoldfastError(f"{file} says `{wnid}` of {name}, which is no class of ImageNet")
    return pairs


def _class(word: str, file: Path) -> str:
    if not word.isdecimal():
        return word
    if int(word) >= len(names()):
        raise HoldfastError(f"{file} says class {word}; classes count from 0 to 999, in the order of sorted wnids")
    return tuple(names())[int(word)]


def _by_development_kit(numbers: Sequence[str], file: Path) -> list[str]:
    from scipy.io import loadmat

    meta = file.parent / META
    if not meta.is_file():
        raise HoldfastError(
            f"{file} counts classes as the development kit does, and its {META} is not beside it",
            hint=f"copy data/{META} of ILSVRC2012_devkit_t12 to {meta.parent}",
        )
    try:
        synsets = loadmat(str(meta), squeeze_me=True)["synsets"]
        wnid = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
        return [wnid[int(number)] for number in numbers]
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise HoldfastError(f"{meta} is not the one of the development kit: {problem}") from problem
