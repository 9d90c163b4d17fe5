"""New test sets for CIFAR-10: CIFAR-10.1 and CIFAR-10.2 in arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.datasets.arrays import channels_first, load_npz, load_numpy, whole_labels
from holdfast.datasets.cifar import CifarClassMap, cifar_reference, cifar_set
from holdfast.datasets.downloads import form, register_download
from holdfast.datasets.in_memory import InMemory, numbered

CIFAR10_2_SOURCE = "https://github.com/modestyachts/cifar-10.2"

CIFAR10_1 = register_download(
    "cifar10.1",
    form(
        {
            "cifar10.1_v6_data.npy": "sha256:2997188e5816f5bd545dc77771b6227828c28146049fcecf3fa10775474cacc6",
            "cifar10.1_v6_labels.npy": "sha256:ae40beda001693674edc94d925ee8268cfe68905f8f9aff800c8dcdfcd6c9448",
            "cifar10.1_v4_data.npy": "sha256:5aaedc268df8f4cffca2ac0cf9e608ae1897a8cddb630c7a850a2ea8f6558e75",
            "cifar10.1_v4_labels.npy": "sha256:1f9544300ded199539b6662364ce7fe6c2e1ea9f87408f06db4b1a6184cffb18",
        },
        "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/{name}",
    ),
    megabytes=13,
    licence="MIT (the collection)",
)
CIFAR10_2 = register_download(
    "cifar10.2",
    form(
        {"cifar102_test.npz": "sha256:e4fd6462bd5141ed293acd52ea570952f65d1bfd4ec9b068f87742f75a7a632e"},
        f"{CIFAR10_2_SOURCE}/raw/master/{{name}}",
    ),
    megabytes=7,
    licence="not stated by its authors",
)


@register("dataset", "cifar10.1", source="arXiv:1806.00451", tags=("natural", "colour"))
def cifar10_1(*, version: Literal["v4", "v6"] = "v6", answers: CifarClassMap = "cifar10") -> InMemory:
    """CIFAR-10.1: 2,000 images collected anew as CIFAR-10 was (v4: 2,021)."""
    files = [CIFAR10_1.required(f"cifar10.1_{version}_{part}.npy") for part in ("data", "labels")]
    return cifar_set(
        f"cifar10.1 {version}",
        channels_first(load_numpy(files[0]), "nhwc", files[0]),
        whole_labels(np.asarray(load_numpy(files[1])), files[1]),
        ids=numbered(range(len(load_numpy(files[0]))), width=4, prefix=f"{version}-"),
        answers=answers,
        licence=CIFAR10_1.licence,
        source="arXiv:1806.00451",
        reference=cifar_reference(answers),
    )


@register("dataset", "cifar10.2", source=CIFAR10_2_SOURCE, tags=("natural", "colour"))
def cifar10_2(*, split: Literal["test", "train"] = "test", answers: CifarClassMap = "cifar10") -> InMemory:
    """CIFAR-10.2: images collected anew as CIFAR-10 was, 2,000 to test and 10,000 to train."""
    file = CIFAR10_2.located(f"cifar102_{split}.npz")
    if file is None and split == "train":
        raise HoldfastError(
            f"there is no {CIFAR10_2.folder / 'cifar102_train.npz'}",
            hint=f"put the file of {CIFAR10_2_SOURCE} there; its checksum is not known here, so it is not downloaded",
        )
    file = file or CIFAR10_2.required(f"cifar102_{split}.npz")
    # other arrays of the file, such as its words, may be pickled; only these two are read
    content = load_npz(file, only=("images", "labels"))
    for needed in ("images", "labels"):
        if needed not in content:
            raise HoldfastError(f"{file} has no {needed}", hint="get it again: `holdfast data get cifar10.2`")
    return cifar_set(
        f"cifar10.2-{split}",
        channels_first(content["images"], "nhwc", file),
        whole_labels(content["labels"], file),
        ids=numbered(range(len(content["images"])), width=5, prefix=f"{split}-"),
        answers=answers,
        licence=CIFAR10_2.licence,
        source=CIFAR10_2_SOURCE,
        reference=cifar_reference(answers),
    )
