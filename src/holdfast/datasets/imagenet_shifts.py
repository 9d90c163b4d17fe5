"""Natural shifts of ImageNet that come as folders by class: V2, A, R, Sketch and Stylized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.core.values import value_text
from holdfast.datasets.class_folders import Selection, checked_dataset, image_files_in, locate_images
from holdfast.datasets.downloads import Download, form, register_download
from holdfast.datasets.image_files import Framing, ImageFiles, framing_of
from holdfast.datasets.imagenet import RESIZE, SIZE, imagenet_card, reference
from holdfast.datasets.imagenet_classes import Classes, MapMode, class_scheme, classes_in_words, groups, names

Variant = Literal["matched-frequency", "threshold-0.7", "top-images"]
Two = Literal["subset", "full", "model"]

V2_NAMES = {  # some were published under two spellings
    "matched-frequency": ("imagenetv2-matched-frequency",),
    "threshold-0.7": ("imagenetv2-threshold0.7", "imagenetv2-threshold-0.7"),
    "top-images": ("imagenetv2-top-images", "imagenetv2-topimages"),
}
V2_SUM = "sha256:a32004f9e773279307499059d320336a23ccdc62cb32063da29bae9bd04c122c"  # a plain tar, whatever its name
BERKELEY = "https://people.eecs.berkeley.edu/~hendrycks/{name}"
SKETCH_FOLDERS = ("sketch", "ImageNet-Sketch", "imagenet-sketch")
STYLIZED_FOLDERS = ("val", "stylized_imagenet")

V2 = register_download(
    "imagenet-v2",
    form(
        {"imagenetv2-matched-frequency.tar.gz": V2_SUM},
        "https://s3-us-west-2.amazonaws.com/imagenetv2public/{name}",
    ),
    megabytes=1196,
    licence="MIT (the collection)",
    folders=tuple(f"{name}{end}" for names in V2_NAMES.values() for name in names for end in ("-format-val", "")),
)
A = register_download(
    "imagenet-a",
    form({"imagenet-a.tar": "sha256:3bb3632277e6ba6392ea64c02ddbf4dd2266c9caffd6bc09c9656d28f012589e"}, BERKELEY),
    megabytes=655,
    licence="MIT (the collection)",
    folders=("imagenet-a", "n01498041"),
)
R = register_download(
    "imagenet-r",
    form({"imagenet-r.tar": "sha256:18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52"}, BERKELEY),
    megabytes=2090,
    licence="MIT (the collection)",
    folders=("imagenet-r", "n01443537"),
)
SKETCH = register_download(
    "imagenet-sketch",
    megabytes=7100,
    licence="MIT (the collection)",
    folders=(*SKETCH_FOLDERS, "n01440764"),
    by_hand="get it as https://github.com/HaohanWang/ImageNet-Sketch says",
)
STYLIZED = register_download(
    "imagenet-stylized",
    licence="as ImageNet",
    folders=(*STYLIZED_FOLDERS, "n01440764"),
    by_hand="make its validation images from ImageNet's with https://github.com/rgeirhos/Stylized-ImageNet",
)


@register("dataset", "imagenet-v2", source="arXiv:1902.10811", tags=("natural", "colour"))
def imagenet_v2(
    *,
    variant: Variant = "matched-frequency",
    form: Literal["val", "original"] = "val",
    classes: Classes = "all",
    answers: MapMode = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """ImageNet-V2: 10,000 new images of ImageNet's classes, chosen in one of three ways.

    `form=val` are the images in the sizes and quality of ImageNet's own, `original` as they were found. `holdfast data
    get` brings the first way; the archives of the others are linked at the authors' repository.
    """
    number = {wnid: str(i) for i, wnid in enumerate(names())}
    folders = [f"{name}-format-val" if form == "val" else name for name in V2_NAMES[variant]]
    return shifted(
        V2,
        folders,
        classes,
        answers,
        framing_of(3, size, resize),
        Selection(ids, first),
        tars=V2_NAMES[variant] if form == "val" else (),
        name=f"imagenet-v2 {variant}" if form == "val" else f"imagenet-v2 {variant}, original",
        folder=number.__getitem__,
    )


def _in_200_classes(download: Download, what: str) -> Callable[..., ImageFiles]:
    """The loader of a set that has images of 200 classes."""
    own = download.name

    def load(
        *,
        classes: Classes = own,
        answers: Two = "subset",
        size: int = SIZE,
        resize: int | None = RESIZE,
        ids: str | None = None,
        first: int | None = None,
    ) -> ImageFiles:
        framing = framing_of(3, size, resize)
        return shifted(download, (own,), _within(classes, own), answers, framing, Selection(ids, first))

    load.__doc__ = f"""{what}

    `answers=subset` lets a model answer with the 200 classes alone (ImageNet testbed), `full` with all 1,000
    (OODRobustBench).
    """
    return load


register("dataset", "imagenet-a", source="arXiv:1907.07174", tags=("natural", "colour"), later=("classes",))(
    _in_200_classes(A, "ImageNet-A: 7,500 photographs of 200 classes that fooled a ResNet-50.")
)
register("dataset", "imagenet-r", source="arXiv:2006.16241", tags=("natural", "colour"), later=("classes",))(
    _in_200_classes(R, "ImageNet-R: 30,000 renditions of 200 classes in art, cartoons, toys, tattoos and more.")
)


@register("dataset", "imagenet-sketch", source="arXiv:1905.13549", tags=("natural", "colour"))
def imagenet_sketch(
    *,
    classes: Classes = "all",
    answers: MapMode = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """ImageNet-Sketch: 50,889 black-and-white sketches of ImageNet's classes."""
    return shifted(SKETCH, SKETCH_FOLDERS, classes, answers, framing_of(3, size, resize), Selection(ids, first))


@register("dataset", "imagenet-stylized", source="arXiv:1811.12231", tags=("natural", "colour"))
def imagenet_stylized(
    *,
    classes: Classes = "all",
    answers: MapMode = "subset",
    size: int = SIZE,
    resize: int | None = RESIZE,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """Stylized ImageNet: the validation images with their texture replaced by that of a painting."""
    return shifted(STYLIZED, STYLIZED_FOLDERS, classes, answers, framing_of(3, size, resize), Selection(ids, first))


def _within(classes: Classes, own: str) -> Classes:
    """The classes, refused where the set has no images of one."""
    if classes != own:
        has = {wnid for members in groups(own).values() for wnid in members}
        members = [wnid for group in groups(classes).values() for wnid in group]
        outside = [wnid for wnid in members if wnid not in has]
        if outside:
            raise Misuse(
                f"`{own}` has no images of {len(outside)} of the {len(members)} classes of "
                f"{classes_in_words(classes)}, `{names()[outside[0]]}` first",
                hint=f"take those that both have: classes={value_text(classes)}&{own}",
            )
    return classes


def shifted(
    download: Download,
    folders: Sequence[str],
    classes: Classes,
    answers: MapMode,
    framing: Framing,
    selection: Selection,
    *,
    name: str = "",
    folder: Callable[[str], str] = str,
    inside: str = "",
    compared_with: str = "",
    tars: Sequence[str] | None = None,
) -> ImageFiles:
    """A set in class folders, which lie in one of `folders`; `folder` gives the name of a class folder for a wnid."""
    scheme, size = class_scheme(classes, answers), framing.size or SIZE
    compared_with = compared_with or reference(classes, answers, size=size, resize=framing.resize)
    card = imagenet_card(name or download.name, scheme, size, download.licence, download.origin, compared_with)
    labels = {folder(wnid): label for wnid, label in scheme.labels.items()}
    expected = [f"{inside}/{label}" for label in labels] if inside else labels
    path = locate_images(download, folders, expected, tars=tars)
    files, known = image_files_in(path, inside), [folder(wnid) for wnid in names()]
    return checked_dataset(card, labels, files, path, selection, framing=framing, known=known)
