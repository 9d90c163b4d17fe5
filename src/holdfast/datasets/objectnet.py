"""ObjectNet: everyday objects in odd places, seen from odd sides, for the classes that ImageNet has too."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.datasets.class_folders import Selection, checked_dataset, image_files_in, locate_images
from holdfast.datasets.downloads import register_download
from holdfast.datasets.image_files import ImageFiles, framing_of
from holdfast.datasets.imagenet import RESIZE, SIZE, imagenet_card, reference
from holdfast.datasets.imagenet_classes import MapMode, class_scheme, groups

SOURCE = "https://objectnet.dev"
FOLDERS = ("images", "objectnet-1.0/images", "objectnet-1.0", "objectnet")

OBJECTNET = register_download(
    "objectnet",
    megabytes=188000,
    licence="for testing only: no training, no tuning",
    folders=(*FOLDERS, "banana"),
    by_hand=f"agree to the licence at {SOURCE} and unpack objectnet-1.0.zip, whose password stands there",
)


@register("dataset", "objectnet", source=SOURCE, tags=("natural", "colour"))
def objectnet(
    *,
    classes: Literal["objectnet", "objectnet-104"] = "objectnet",
    answers: MapMode = "subset",
    border: int = 2,
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """ObjectNet: the 113 classes that ImageNet has too; each may be several of ImageNet's, and any of them is right.

    `answers=subset` lets a model answer with their 125 classes alone (ImageNet testbed), `full` with all 1,000.
    `classes=objectnet-104,answers=full,border=0` are the images of OODRobustBench: those whose class is one of
    ImageNet's, answered by its number. `border` pixels are cut off first: the published images have a red frame of 2.
    Class folders are named as published, or by wnid.
    """
    if border < 0:
        raise Misuse(f"`border` is 0 or more, got {border}")
    scheme = class_scheme(classes, answers)
    by_folder = {folder: scheme.labels[wnids[0]] for folder, wnids in groups(classes).items()}
    path = locate_images(OBJECTNET, FOLDERS, [*by_folder, *scheme.labels])
    files = image_files_in(path)
    folders = {file.folder for file in files} - {""}
    name = "objectnet" if classes == "objectnet" else f"objectnet, {len(by_folder)} classes"
    compared_with = reference(classes, answers, size=size, resize=resize)
    return checked_dataset(
        imagenet_card(name, scheme, size, OBJECTNET.licence, SOURCE, compared_with),
        by_folder if folders & by_folder.keys() else scheme.labels,
        files,
        path,
        Selection(ids, first),
        framing=replace(framing_of(3, size, resize), border=border),
        known=folders,  # the other classes of its 313
    )
