"""ImageNet's validation images, whole or the classes that a shifted set has."""

from __future__ import annotations

from typing import Literal

from holdfast.core.registry import register
from holdfast.datasets.encoded import Encoded, framed
from holdfast.datasets.files import Download, published
from holdfast.datasets.imagenet_classes import Answers, Classes, names, scheme
from holdfast.datasets.pictures import Choice, Plan, pictures
from holdfast.datasets.val_layouts import FOLDERS, TARS, validation_images

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
