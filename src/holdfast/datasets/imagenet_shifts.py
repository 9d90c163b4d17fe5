"""Natural shifts of ImageNet that come as folders by class: V2, A, R, Sketch and Stylized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from holdfast.core.registry import register
from holdfast.datasets.class_folders import Choice, Plan, pictures, pieces_in, place_of
from holdfast.datasets.downloads import Download, File, Form, Mirror, published
from holdfast.datasets.image_files import Encoded, Framing, framed
from holdfast.datasets.imagenet import RESIZE, SIZE, reference
from holdfast.datasets.imagenet_classes import Answers, Classes, names, scheme

Variant = Literal["matched-frequency", "threshold-0.7", "top-images"]
Two = Literal["subset", "full"]

V2_NAMES = {  # some were published under two spellings
    "matched-frequency": ("imagenetv2-matched-frequency",),
    "threshold-0.7": ("imagenetv2-threshold0.7", "imagenetv2-threshold-0.7"),
    "top-images": ("imagenetv2-top-images", "imagenetv2-topimages"),
}
V2_SUM = "sha256:a32004f9e773279307499059d320336a23ccdc62cb32063da29bae9bd04c122c"  # a plain tar, whatever its name
BERKELEY = "https://people.eecs.berkeley.edu/~hendrycks/{name}"
A_SUM = "sha256:3bb3632277e6ba6392ea64c02ddbf4dd2266c9caffd6bc09c9656d28f012589e"
R_SUM = "sha256:18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52"
SKETCH_SOURCE = "https://github.com/HaohanWang/ImageNet-Sketch"
SKETCH_PLACES = ("sketch", "ImageNet-Sketch", "imagenet-sketch")
STYLIZED_PLACES = ("val", "stylized_imagenet")
STYLIZED_SOURCE = "https://github.com/rgeirhos/Stylized-ImageNet"

V2 = published(
    Download(
        "imagenet-v2",
        (
            Form(
                (File("imagenetv2-matched-frequency.tar.gz", V2_SUM),),
                (Mirror("https://s3-us-west-2.amazonaws.com/imagenetv2public/{name}"),),
            ),
        ),
        megabytes=1196,
        licence="MIT (the collection)",
        folders=tuple(f"{name}{end}" for names in V2_NAMES.values() for name in names for end in ("-format-val", "")),
    )
)
A = published(
    Download(
        "imagenet-a",
        (Form((File("imagenet-a.tar", A_SUM),), (Mirror(BERKELEY),)),),
        megabytes=655,
        licence="MIT (the collection)",
        folders=("imagenet-a", "n01498041"),
    )
)
R = published(
    Download(
        "imagenet-r",
        (Form((File("imagenet-r.tar", R_SUM),), (Mirror(BERKELEY),)),),
        megabytes=2090,
        licence="MIT (the collection)",
        folders=("imagenet-r", "n01443537"),
    )
)
SKETCH = published(
    Download(
        "imagenet-sketch",
        (),
        megabytes=7100,
        licence="MIT (the collection)",
        folders=(*SKETCH_PLACES, "n01440764"),
        by_hand=f"get it as {SKETCH_SOURCE} says",
    )
)
STYLIZED = published(
    Download(
        "imagenet-stylized",
        (),
        licence="as ImageNet",
        folders=(*STYLIZED_PLACES, "n01440764"),
        by_hand=f"make its validation images from ImageNet's with {STYLIZED_SOURCE}",
    )
)


@register("dataset", "imagenet-v2", source="arXiv:1902.10811", tags=("natural", "colour"))
def imagenet_v2(
    *,
    variant: Variant = "matched-frequency",
    form: Literal["val", "original"] = "val",
    classes: Classes = "all",
    answers: Answers = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ImageNet-V2: 10,000 new images of ImageNet's classes, chosen in one of three ways.

    `form=val` are the images in the sizes and quality of ImageNet's own, `original` as they were found. `holdfast data
    get` brings the first way; the archives of the others are linked at the authors' repository.
    """
    number = {wnid: str(i) for i, wnid in enumerate(names())}
    folders = [f"{name}-format-val" if form == "val" else name for name in V2_NAMES[variant]]
    return shifted(
        V2,
        folders,
        tars=V2_NAMES[variant] if form == "val" else (),
        classes=classes,
        answers=answers,
        framing=framed(3, size, resize),
        choice=Choice(ids, first),
        name=f"imagenet-v2 {variant}" if form == "val" else f"imagenet-v2 {variant}, original",
        folder=number.__getitem__,
    )


@register("dataset", "imagenet-a", source="arXiv:1907.07174", tags=("natural", "colour"))
def imagenet_a(
    *,
    answers: Two = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ImageNet-A: 7,500 photographs of 200 classes that fooled a ResNet-50.

    `answers=subset` lets a model answer with the 200 classes alone (ImageNet testbed), `full` with all 1,000
    (OODRobustBench).
    """
    framing, choice = framed(3, size, resize), Choice(ids, first)
    return shifted(A, ("imagenet-a",), classes="imagenet-a", answers=answers, framing=framing, choice=choice)


@register("dataset", "imagenet-r", source="arXiv:2006.16241", tags=("natural", "colour"))
def imagenet_r(
    *,
    answers: Two = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ImageNet-R: 30,000 renditions of 200 classes in art, cartoons, toys, tattoos and more.

    `answers=subset` lets a model answer with the 200 classes alone (ImageNet testbed), `full` with all 1,000
    (OODRobustBench).
    """
    framing, choice = framed(3, size, resize), Choice(ids, first)
    return shifted(R, ("imagenet-r",), classes="imagenet-r", answers=answers, framing=framing, choice=choice)


@register("dataset", "imagenet-sketch", source="arXiv:1905.13549", tags=("natural", "colour"))
def imagenet_sketch(
    *,
    classes: Classes = "all",
    answers: Answers = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """ImageNet-Sketch: 50,889 black-and-white sketches of ImageNet's classes."""
    framing, choice = framed(3, size, resize), Choice(ids, first)
    return shifted(SKETCH, SKETCH_PLACES, classes=classes, answers=answers, framing=framing, choice=choice)


@register("dataset", "imagenet-stylized", source="arXiv:1811.12231", tags=("natural", "colour"))
def imagenet_stylized(
    *,
    classes: Classes = "all",
    answers: Answers = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """Stylized ImageNet: the validation images with their texture replaced by that of a painting."""
    framing, choice = framed(3, size, resize), Choice(ids, first)
    return shifted(STYLIZED, STYLIZED_PLACES, classes=classes, answers=answers, framing=framing, choice=choice)


def shifted(
    download: Download,
    places: Sequence[str],
    *,
    classes: Classes,
    answers: Answers,
    framing: Framing,
    choice: Choice,
    name: str = "",
    folder: Callable[[str], str] = str,
    inside: str = "",
    compared: str = "",
    tars: Sequence[str] | None = None,
) -> Encoded:
    """A set in folders by class, named as `folder` says of a wnid, in one of these places."""
    found, size = scheme(classes, answers), framing.size or SIZE
    plan = Plan(
        name=name or download.name,
        classes=found.names,
        labels={folder(wnid): label for wnid, label in found.labels.items()},
        known=[folder(wnid) for wnid in names()],
        framing=framing,
        size=size,
        answers=found.answers,
        reference=compared or reference(classes, answers, size=size, resize=framing.resize),
        licence=download.licence,
        source=download.origin,
    )
    expected = [f"{inside}/{label}" for label in plan.labels] if inside else plan.labels
    place = place_of(download, places, expected, tars=tars)
    return pictures(plan, pieces_in(place, inside), place, choice)
