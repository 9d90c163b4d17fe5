"""ObjectNet: everyday objects in odd places, seen from odd sides, for the classes that ImageNet has too."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.core.values import value_text
from holdfast.datasets.class_folders import Selection, checked_dataset, image_files_in, locate_images
from holdfast.datasets.downloads import register_download
from holdfast.datasets.image_files import ImageFiles, framing_of
from holdfast.datasets.imagenet import RESIZE, SIZE, imagenet_card, reference
from holdfast.datasets.imagenet_classes import (
    Classes,
    ClassScheme,
    MapMode,
    class_scheme,
    classes_in_words,
    groups,
    names,
)

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
    classes: Classes = "objectnet",
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
    ImageNet's, answered by its number; other `classes` are lists, files or common classes as of `imagenet`, of which
    those of ObjectNet are taken. `border` pixels are cut off first: the published images have a red frame of 2.
    Class folders are named as published, or by wnid.
    """
    if border < 0:
        raise Misuse(f"`border` is 0 or more, got {border}")
    scheme = class_scheme(classes, answers)
    by_folder = _folders(scheme, classes)
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


def _folders(scheme: ClassScheme, classes: Classes) -> dict[str, int]:
    """The label of each class folder as published; refused where a class has no folder, or a folder two labels."""
    meant: dict[str, int] = {}
    for folder, wnids in groups("objectnet").items():
        labels = {scheme.labels[wnid] for wnid in wnids if wnid in scheme.labels}
        if len(labels) > 1:
            raise Misuse(
                f"`{folder}` of ObjectNet is {len(labels)} of the classes of {classes_in_words(classes)}",
                hint=f"take its own groups: classes={value_text(classes)}&objectnet",
            )
        if labels:
            meant[folder] = labels.pop()
    lacking = [wnid for wnid, label in scheme.labels.items() if label not in meant.values()]
    if lacking:
        raise Misuse(
            f"ObjectNet has no images of `{names()[lacking[0]]}` and {len(lacking) - 1} more of the classes of "
            f"{classes_in_words(classes)}",
            hint=f"take those that both have: classes={value_text(classes)}&objectnet",
        )
    return meant
