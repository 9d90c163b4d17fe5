"""ObjectNet: everyday objects in odd places, seen from odd sides, for the classes that ImageNet has too."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.datasets.class_folders import Choice, Plan, pictures, pieces_in, place_of
from holdfast.datasets.downloads import Download, published
from holdfast.datasets.image_files import Encoded, framed
from holdfast.datasets.imagenet import RESIZE, SIZE, reference
from holdfast.datasets.imagenet_classes import Answers, groups, scheme

SOURCE = "https://objectnet.dev"
PLACES = ("images", "objectnet-1.0/images", "objectnet-1.0", "objectnet")

OBJECTNET = published(
    Download(
        "objectnet",
        (),
        megabytes=188000,
        licence="for testing only: no training, no tuning",
        folders=(*PLACES, "banana"),
        by_hand=f"agree to the licence at {SOURCE} and unpack objectnet-1.0.zip, whose password stands there",
    )
)


@register("dataset", "objectnet", source=SOURCE, tags=("natural", "colour"))
def objectnet(
    *,
    classes: Literal["objectnet", "objectnet-104"] = "objectnet",
    answers: Answers = "subset",
    border: int = 2,
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ObjectNet: the 113 classes that ImageNet has too; each may be several of ImageNet's, and any of them is right.

    `answers=subset` lets a model answer with their 125 classes alone (ImageNet testbed), `full` with all 1,000.
    `classes=objectnet-104,answers=full,border=0` are the images of OODRobustBench: those whose class is one of
    ImageNet's, answered by its number. `border` pixels are cut off first: the published images have a red frame of 2.
    Class folders are named as published, or by wnid.
    """
    if border < 0:
        raise Misuse(f"`border` is 0 or more, got {border}")
    found = scheme(classes, answers)
    by_folder = {folder: found.labels[wnids[0]] for folder, wnids in groups(classes).items()}
    place = place_of(OBJECTNET, PLACES, [*by_folder, *found.labels])
    pieces = pieces_in(place)
    folders = {piece.folder for piece in pieces} - {""}
    plan = Plan(
        name="objectnet" if classes == "objectnet" else f"objectnet, {len(by_folder)} classes",
        classes=found.names,
        labels=by_folder if folders & by_folder.keys() else found.labels,
        known=folders,  # the other classes of its 313
        framing=replace(framed(3, size, resize), border=border),
        size=size,
        answers=found.answers,
        reference=reference(classes, answers, size=size, resize=resize),
        licence=OBJECTNET.licence,
        source=SOURCE,
    )
    return pictures(plan, pieces, place, Choice(ids, first))
