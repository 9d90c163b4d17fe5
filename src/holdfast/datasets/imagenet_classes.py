"""ImageNet's 1,000 classes, the sets of classes that shifted sets have, and how a model's classes answer for them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.core.labels import OTHER, LabelMap, merged, subset, whole

Classes = Literal[
    "all",
    "cifar10",
    "imagenet-125",
    "imagenet-a",
    "imagenet-r",
    "imagenet-vid-robust",
    "objectnet",
    "objectnet-104",
    "ytbb-robust",
]
MapMode = Literal["subset", "full", "sum"]
FOLDER = Path(__file__).parent / "classes"
KNOWN = 1000


class ClassScheme(NamedTuple):
    """Classes by name, the label of each ImageNet class (by wnid) that belongs to one, and how models answer."""

    names: tuple[str, ...]
    labels: dict[str, int]
    label_map: LabelMap


def class_scheme(classes: str, how: MapMode) -> ClassScheme:
    """The classes of a set, answered by its classes alone (`subset`, `sum`) or by all 1,000 (`full`)."""
    members, label_map = groups(classes), imagenet_label_map(classes, how)
    if label_map.is_whole:
        number = {wnid: i for i, wnid in enumerate(names())}
        return ClassScheme(tuple(names().values()), {wnid: number[wnid] for (wnid,) in members.values()}, label_map)
    labels = {wnid: label for label, group in enumerate(members.values()) for wnid in group}
    shown = tuple(name.replace("_", " ") for name in members)
    return ClassScheme((*shown, OTHER) if label_map.other else shown, labels, label_map)


def imagenet_label_map(classes: str, how: MapMode) -> LabelMap:
    """How a model of ImageNet's classes answers for a set of classes."""
    number = {wnid: i for i, wnid in enumerate(names())}
    members = [[number[wnid] for wnid in group] for group in groups(classes).values()]
    count = sum(map(len, members))
    if all(len(group) == 1 for group in members):
        if how == "full" or count == KNOWN:
            return whole(KNOWN, words=f"the largest of all {KNOWN} logits")
        words = f"the logits of the {count} classes of {classes} alone, of {KNOWN}"
        return subset(KNOWN, [group[0] for group in members], words=words)
    if how == "full":
        words = f"the largest of {KNOWN} logits, in the {len(members)} groups of {classes} and the rest"
        return merged(KNOWN, members, words=words, other=True)
    what = "the largest logit" if how == "subset" else "the total probability"
    words = f"{what} of each of the {len(members)} groups of {classes}, made of {count} of {KNOWN} classes"
    return merged(KNOWN, members, words=words, merge="sum" if how == "sum" else "max")


@functools.cache
def names() -> dict[str, str]:
    """Name by wnid, in the order of models."""
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in _lines("imagenet")}


@functools.cache
def groups(classes: str) -> dict[str, tuple[str, ...]]:
    """The ImageNet classes (wnids) of each class of a set; a plain list is of classes by their own names.

    `objectnet-104` are the classes of ObjectNet that are one class of ImageNet: those of OODRobustBench.
    """
    if classes == "all":
        return {name: (wnid,) for wnid, name in names().items()}
    if classes == "objectnet-104":
        return {name: members for name, members in groups("objectnet").items() if len(members) == 1}
    lines = _lines(classes)
    if ":" in lines[0]:
        pairs = (line.split(":", 1) for line in lines)
        return {name: tuple(members.split()) for name, members in pairs}
    return {names()[wnid]: (wnid,) for line in lines for wnid in line.split()}


def _lines(name: str) -> list[str]:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
