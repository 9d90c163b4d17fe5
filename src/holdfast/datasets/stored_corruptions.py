"""Corrupted images as their authors stored them: CIFAR-10-C in arrays, ImageNet-C as JPEG files.

The corruptions of the same names change images in memory; these have been through a file, and JPEG is a change itself.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.datasets.arrays import channels_first, load_numpy, whole_labels
from holdfast.datasets.cifar import CifarClassMap, cifar_reference, cifar_set
from holdfast.datasets.class_folders import Selection
from holdfast.datasets.downloads import Mirror, form, register_download
from holdfast.datasets.image_files import ImageFiles, framing_of
from holdfast.datasets.imagenet import reference
from holdfast.datasets.imagenet_classes import Classes, MapMode
from holdfast.datasets.imagenet_shifts import shifted
from holdfast.datasets.in_memory import InMemory, numbered

Corruption = Literal[
    "brightness",
    "contrast",
    "defocus-blur",
    "elastic-transform",
    "fog",
    "frost",
    "gaussian-blur",
    "gaussian-noise",
    "glass-blur",
    "impulse-noise",
    "jpeg",
    "motion-blur",
    "pixelate",
    "saturate",
    "shot-noise",
    "snow",
    "spatter",
    "speckle-noise",
    "zoom-blur",
]
FILE_NAMES = {"jpeg": "jpeg_compression"}
TARS = {
    "blur": ("defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    "digital": ("contrast", "elastic-transform", "jpeg", "pixelate"),
    "extra": ("gaussian-blur", "saturate", "spatter", "speckle-noise"),
    "noise": ("gaussian-noise", "impulse-noise", "shot-noise"),
    "weather": ("brightness", "fog", "frost", "snow"),
}
SOURCE = "arXiv:1903.12261"
SEVERITIES = 5


def published_name(corruption: str) -> str:
    """What its authors call a corruption: `glass_blur`, `jpeg_compression`."""
    return FILE_NAMES.get(corruption, corruption.replace("-", "_"))


CIFAR10_C = register_download(
    "cifar10-c",
    form(
        {**{f"{published_name(name)}.npy": "" for names in TARS.values() for name in names}, "labels.npy": ""},
        Mirror(
            "https://zenodo.org/record/2535967/files/CIFAR-10-C.tar",
            "CIFAR-10-C/{name}",
            "md5:56bf5dcef84df0e2308c6dcbcbbd8499",
        ),
    ),
    megabytes=2920,
    licence="CC BY 4.0",
)
IMAGENET_C = register_download(
    "imagenet-c",
    form(
        {
            "blur.tar": "md5:2d8e81fdd8e07fef67b9334fa635e45c",
            "digital.tar": "md5:89157860d7b10d5797849337ca2e5c03",
            "extra.tar": "md5:d492dfba5fc162d8ec2c3cd8ee672984",
            "noise.tar": "md5:e80562d7f6c3f8834afb1ecf27252745",
            "weather.tar": "md5:33ffea4db4d93fe4a428c40a6ce0c25d",
        },
        "https://zenodo.org/record/2235448/files/{name}",
    ),
    megabytes=70000,
    licence="CC BY 4.0",
    folders=tuple(published_name(name) for names in TARS.values() for name in names),
)


@register("dataset", "cifar10-c", source=SOURCE, tags=("stored", "colour"))
def cifar10_c(*, corruption: Corruption, severity: int = 3, answers: CifarClassMap = "cifar10") -> InMemory:
    """CIFAR-10-C as stored by its authors: CIFAR-10's test images under one corruption at one severity."""
    _check(severity)
    name = f"{published_name(corruption)}.npy"
    path = CIFAR10_C.required(f"CIFAR-10-C/{name}" if CIFAR10_C.located(name) is None else name)
    stack = load_numpy(path)
    labels = whole_labels(np.asarray(load_numpy(path.with_name("labels.npy"))), path)
    if stack.ndim != 4 or not len(stack) or len(stack) % SEVERITIES or len(labels) not in (len(stack), len(stack) // 5):
        raise HoldfastError(
            f"{path} should hold five severities of the same images, got the shape {stack.shape} "
            f"and {len(labels)} labels",
            hint="get it again: `holdfast data get cifar10-c`",
        )
    each = len(stack) // SEVERITIES
    part = slice((severity - 1) * each, severity * each)
    return cifar_set(
        f"cifar10-c {corruption} {severity}",
        channels_first(stack[part], "nhwc", path),
        labels[part] if len(labels) == len(stack) else labels,
        ids=numbered(range(each), width=5, prefix="test-"),
        answers=answers,
        licence=CIFAR10_C.licence,
        source=SOURCE,
        reference=cifar_reference(answers),
    )


@register("dataset", "imagenet-c", source=SOURCE, tags=("stored", "colour"))
def imagenet_c(
    *,
    corruption: Corruption,
    severity: int = 3,
    classes: Classes = "all",
    answers: MapMode = "subset",
    size: int = 224,
    resize: int | None = None,
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """ImageNet-C as stored by its authors: ImageNet's validation images under one corruption, as 224x224 JPEG files."""
    _check(severity)
    group = next(name for name, members in TARS.items() if corruption in members)
    return shifted(
        IMAGENET_C,
        (group, "ImageNet-C", f"ImageNet-C/{group}"),
        classes,
        answers,
        framing_of(3, size, resize),
        Selection(ids, first),
        name=f"imagenet-c {corruption} {severity}",
        inside=f"{published_name(corruption)}/{severity}",
        compared_with=reference(classes, answers),
    )


def _check(severity: int) -> None:
    if not 1 <= severity <= SEVERITIES:
        raise Misuse(f"`severity` is 1 to {SEVERITIES}, got {severity}")
