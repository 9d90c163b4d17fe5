"""ImageNet's validation images, in any of the usual layouts: all of them, or the classes that a shifted set has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.core.values import value_text
from holdfast.datasets.class_folders import (
    ImageFile,
    Selection,
    checked_dataset,
    image_files_in,
    misplaced,
)
from holdfast.datasets.downloads import Download, register_download
from holdfast.datasets.image_files import ImageFiles, framing_of
from holdfast.datasets.imagenet_classes import Classes, ClassScheme, MapMode, class_scheme, classes_in_words, names

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

IMAGENET = register_download(
    "imagenet",
    megabytes=6744,
    licence="for research, on request",
    folders=(*FOLDERS[:-1], "n01440764"),
    by_hand=f"sign in at {SOURCE} and get {TARS[0]} and the development kit of ILSVRC 2012",
)


@register("dataset", "imagenet", source=SOURCE, tags=("standard", "colour"))
def imagenet(
    *,
    classes: Classes = "all",
    answers: MapMode | Literal["own"] = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """ImageNet: the 50,000 validation images, or those of the classes that a shifted set has.

    `classes` is the name of a shifted set, a list of wnids, names or numbers, a file of them, `(REF)` for those of a
    dataset, or several of these joined by `&` for what they have in common. `answers=subset` lets a model answer with
    those classes alone, `full` with all 1,000, `sum` merges classes by their total probability; `own` is for models
    that have the set's classes and no others, such as those of CIFAR-10, and `model` takes either kind by the number of
    classes on the model's card. `ids` names a file with one id per line, `first` takes the first so many.
    """
    scheme = class_scheme(classes, "subset" if answers == "own" else answers)
    files, path = validation_images(IMAGENET)
    name = "imagenet" if classes == "all" else f"imagenet, classes of {classes_in_words(classes)}"
    card = imagenet_card(name, scheme, size, IMAGENET.licence, SOURCE)
    card = replace(card, answers=None) if answers == "own" else card
    framing = framing_of(3, size, resize)
    return checked_dataset(card, scheme.labels, files, path, Selection(ids, first), framing=framing, known=names())


def imagenet_card(
    name: str, scheme: ClassScheme, size: int, licence: str, source: str, compared_with: str = ""
) -> DatasetCard:
    """The card of a set in ImageNet's classes, without its fingerprint yet."""
    return DatasetCard(name, scheme.names, 3, (size, size), "", licence, source, scheme.label_map, compared_with)


def reference(classes: Classes, answers: MapMode, *, size: int = SIZE, resize: int | None = RESIZE) -> str:
    """The validation images to compare a shifted set with: its classes, answered its way, framed like its images."""
    options = [] if classes == "all" else [f"classes={value_text(classes)}", f"answers={answers}"]
    options += [] if (size, resize) == (SIZE, RESIZE) else [f"size={size}", f"resize={resize or 'none'}"]
    return f"imagenet:{','.join(options)}" if options else "imagenet"


def validation_images(download: Download) -> tuple[list[ImageFile], Path]:
    """Every image under its class's wnid, whatever the layout, and the place they were found in."""
    for path in _image_roots(download):
        files = image_files_in(path)
        flat = [file for file in files if not WNID.fullmatch(file.folder)]
        if files and not flat:
            return files, path
        if files and len(flat) == len(files):
            return _with_classes(flat, path, download.folder), path
        if files:
            raise HoldfastError(
                f"{path} holds class folders and other images, {flat[0].id} first", hint="keep one layout"
            )
    layout = f"it should hold folders like `val/n01440764`, images in `val/` and a list, or `{TARS[0]}` and a list"
    raise misplaced(download, "val", layout)


def _image_roots(download: Download) -> Iterator[Path]:
    for root in (download.folder, *download.roots):
        yield from (root / name for name in FOLDERS if (root / name).is_dir())
        yield from (root / name for name in TARS if (root / name).is_file())


def _with_classes(files: Sequence[ImageFile], path: Path, root: Path) -> list[ImageFile]:
    beside = path if path.is_dir() else path.parent
    folders = dict.fromkeys((base / inner).resolve() for base in (beside, root) for inner in LIST_FOLDERS)
    listing = next((folder / name for folder in folders for name in LISTS if (folder / name).is_file()), None)
    if listing is None:
        raise HoldfastError(
            f"the images in {path} are in no class folders, and no list names their classes",
            hint=f"put one of {', '.join(LISTS)} beside them, or sort them into folders by wnid",
        )
    classes = classes_in(listing, [file.name for file in files])
    missing = [file.name for file in files if file.name not in classes]
    if missing:
        raise HoldfastError(
            f"{listing} does not name {len(missing)} of {len(files)} images in {path}, {missing[0]} first"
        )
    return sorted(file._replace(folder=classes[file.name]) for file in files)


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
        words = [line[0] for line in lines]
        if any(word.isdecimal() for word in words):
            words = _by_development_kit(words, file)
        pairs = dict(zip(sorted(images), words, strict=True))
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
