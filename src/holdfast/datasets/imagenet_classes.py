"""ImageNet's 1,000 classes, the sets of classes that shifted sets have, and how a model's classes answer for them.

classes=imagenet-r                   the classes of a shifted set, by its name
classes=[n01440764,n01443537]        a list: wnids, names or numbers
classes=common.txt                   a file: one of these per line, or `name: wnid wnid …` for a class made of several
classes=(folder:/data/captions)      the classes that a dataset has images of
classes=imagenet-r&objectnet         those that all of them have; any of the above may be joined so
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.labels import OTHER, LabelMap, LabelMapChoice, by_model, merged, subset, whole
from holdfast.core.registry import registry
from holdfast.core.values import parse_value, shortened, split

Classes = str | tuple[str | int, ...]
MapMode = Literal["subset", "full", "sum", "model"]
ClassGroups = dict[str, tuple[str, ...]]
FOLDER = Path(__file__).parent / "classes"
OF_ALL = ("imagenet", "imagenet-synonyms")  # the files that name ImageNet's 1,000 classes
BUILT_IN = tuple(sorted({"all", "objectnet-104", *(file.stem for file in FOLDER.glob("*.txt"))} - {*OF_ALL}))
KNOWN = 1000
CIFAR_SIDE = 32
MOST_BYTES = 1_000_000  # of a file of classes


class ClassScheme(NamedTuple):
    """Classes by name, the label of each ImageNet class (by wnid) that belongs to one, and how models answer."""

    names: tuple[str, ...]
    labels: dict[str, int]
    label_map: LabelMap | LabelMapChoice


def class_scheme(classes: Classes, how: MapMode) -> ClassScheme:
    """The classes of a set, answered by them alone (`subset`, `sum`), by all 1,000 (`full`), or by the model's kind."""
    members, label_map = groups(classes), imagenet_label_map(classes, "subset" if how == "model" else how)
    answers: LabelMap | LabelMapChoice = label_map
    if how == "model":
        words = f"{len(members)} classes as they are, or ImageNet's {KNOWN:,} by those of {classes_in_words(classes)}"
        answers = by_model(len(members), label_map, words=words, side=CIFAR_SIDE if classes == "cifar10" else None)
    if label_map.is_whole:
        number = {wnid: i for i, wnid in enumerate(names())}
        return ClassScheme(tuple(names().values()), {wnid: number[wnid] for (wnid,) in members.values()}, answers)
    labels = {wnid: label for label, group in enumerate(members.values()) for wnid in group}
    shown = tuple(name.replace("_", " ") for name in members)
    return ClassScheme((*shown, OTHER) if label_map.other else shown, labels, answers)


def imagenet_label_map(classes: Classes, how: MapMode) -> LabelMap:
    """How a model of ImageNet's classes answers for a set of classes."""
    number = {wnid: i for i, wnid in enumerate(names())}
    members = [[number[wnid] for wnid in group] for group in groups(classes).values()]
    count, which = sum(map(len, members)), classes_in_words(classes)
    if all(len(group) == 1 for group in members):
        if how == "full" or count == KNOWN:
            return whole(KNOWN, words=f"the largest of all {KNOWN} logits")
        words = f"the logits of the {count} classes of {which} alone, of {KNOWN}"
        return subset(KNOWN, [group[0] for group in members], words=words)
    if how == "full":
        words = f"the largest of {KNOWN} logits, in the {len(members)} groups of {which} and the rest"
        return merged(KNOWN, members, words=words, other=True)
    what = "the largest logit" if how == "subset" else "the total probability"
    words = f"{what} of each of the {len(members)} groups of {which}, made of {count} of {KNOWN} classes"
    return merged(KNOWN, members, words=words, merge="sum" if how == "sum" else "max")


def classes_in_words(classes: Classes) -> str:
    """A set of classes as rows and cards name it."""
    return classes if isinstance(classes, str) else f"a list of {len(classes)}"


@functools.cache
def names() -> dict[str, str]:
    """Name by wnid, in the order of models."""
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in _lines("imagenet")}


@functools.cache
def synonyms() -> dict[str, tuple[str, ...]]:
    """Every name of each class by wnid, in the order of models; a name may be that of two, as `crane` is."""
    pairs = (line.split(" ", 1) for line in _lines("imagenet-synonyms"))
    return {wnid: tuple(word.strip() for word in words.split(",")) for wnid, words in pairs}


def groups(classes: Classes) -> ClassGroups:
    """The ImageNet classes (wnids) of each class of a set; a plain list is of classes by their own names.

    `objectnet-104` are the classes of ObjectNet that are one class of ImageNet: those of OODRobustBench.
    """
    if not isinstance(classes, str):
        return _listed(classes, "the list of classes")
    parts = [part.strip() for part in split(classes, "&")]
    sets = [_named(part) for part in parts]
    return sets[0] if len(sets) == 1 else _common(sets, parts)


def _named(text: str) -> ClassGroups:
    """One set of classes: of a shifted set, of a dataset, or of a file."""
    if text in BUILT_IN:
        return _built_in(text)
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    if inner != text or (":" in text and text.split(":")[0] in registry.entries("dataset")):
        return _of_dataset(inner)
    if text in names():
        return _listed([text], "the class")
    if text.startswith("[") and isinstance(listed := parse_value(text), tuple):
        return _listed([str(item) for item in listed], "the list of classes")
    file = Path(text).expanduser()
    if not file.is_file():
        otherwise = "give one of these, a list, a file with one class per line, or several joined by &"
        raise unknown("set of classes", shortened(text), BUILT_IN, otherwise=otherwise)
    return _from_file(file)


@functools.cache
def _built_in(name: str) -> ClassGroups:
    if name == "all":
        return {shown: (wnid,) for wnid, shown in names().items()}
    if name == "objectnet-104":
        return {shown: members for shown, members in _built_in("objectnet").items() if len(members) == 1}
    return _read(_lines(name), name)


def _read(lines: Sequence[str], where: str) -> ClassGroups:
    """Lines `name: wnid wnid …`, or wnids alone."""
    if lines and ":" in lines[0]:
        pairs = (line.split(":", 1) for line in lines)
        return {name.strip(): tuple(members.split()) for name, members in pairs}
    words = [line.split() if names().keys() >= set(line.split()) else [line] for line in lines]
    return _listed(list(chain.from_iterable(words)), where)


def _from_file(file: Path) -> ClassGroups:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise HoldfastError(f"{file} has {file.stat().st_size:,} bytes, a list of classes at most {MOST_BYTES:,}")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(
            f"{file} is no list of classes: {error}", hint="one wnid, name or number per line"
        ) from error
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    made = _read(lines, str(file))
    for name, members in made.items():
        strange = next((wnid for wnid in members if wnid not in names()), None)
        if strange is not None or not members:
            problem = f"`{shortened(strange)}`, which is no class of ImageNet" if strange else "nothing"
            raise HoldfastError(f"{file} gives the class `{shortened(name)}` {problem}", hint="name: wnid wnid …")
    if not made:
        raise HoldfastError(f"{file} lists no classes", hint="one wnid, name or number per line")
    _refuse_twice([wnid for members in made.values() for wnid in members], str(file))
    return made


def _listed(items: Sequence[str | int], where: str) -> ClassGroups:
    """Classes of ImageNet by wnid, name or number."""
    order, wnids = tuple(names()), _by_spelling()
    exact = {name: wnid for wnid, name in names().items()}
    made: list[str] = []
    for item in items:
        text = str(item).strip()
        if text in names() or text in exact:
            made.append(exact.get(text, text))
        elif text.isdecimal() and int(text) < KNOWN:
            made.append(order[int(text)])
        elif len(fitting := wnids.get(spelled_alike(text), ())) == 1:
            made.append(fitting[0])
        else:
            what = "two classes" if fitting else "no class"
            hint = f"say which by wnid: {' or '.join(fitting)}" if fitting else "give a wnid, a name or a number"
            raise Misuse(f"`{shortened(text)}` of {where} is {what} of ImageNet", hint=hint)
    _refuse_twice(made, where)
    return {names()[wnid]: (wnid,) for wnid in made}


def _refuse_twice(wnids: Sequence[str], where: str) -> None:
    twice = next((wnid for i, wnid in enumerate(wnids) if wnid in wnids[:i]), None)
    if twice is not None:
        raise Misuse(f"{where} has `{names()[twice]}` ({twice}) twice")


@functools.cache
def _by_spelling() -> dict[str, tuple[str, ...]]:
    """The classes by name, or by a synonym that no other class has."""
    first, every = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for wnid, name in names().items():
        first[spelled_alike(name)].append(wnid)
    for wnid, words in synonyms().items():
        for word in dict.fromkeys(map(spelled_alike, words)):
            every[word].append(wnid)
    return {word: tuple(wnids) for word, wnids in (every | first).items()}


def spelled_alike(name: str) -> str:
    """A class name without case, underscores, hyphens and extra spaces: names that are alike so are the same class."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


@functools.lru_cache(maxsize=32)
def _of_dataset(ref: str) -> ClassGroups:
    """The classes that a dataset has images of, in ImageNet's: by its label map, or by their names."""
    import numpy as np

    from holdfast.datasets import load

    dataset = load(ref)
    present = np.unique(dataset.labels).tolist()
    answers, order = dataset.card.answers, tuple(names())
    label_map = answers.of(KNOWN) if isinstance(answers, LabelMapChoice) else answers
    if label_map is None or label_map.known != KNOWN:
        return _listed([dataset.card.classes[label] for label in present], f"`{ref}`")
    return {
        dataset.card.classes[label]: tuple(order[number] for number in label_map.groups[label])
        for label in present
        if label < len(label_map.groups) and label_map.groups[label]
    }


def _common(sets: Sequence[ClassGroups], parts: Sequence[str]) -> ClassGroups:
    """The classes that all sets have: groups of the set that has the largest, with the members that all others have."""
    kept = [set().union(*(members for members in each.values())) for each in sets]
    shared = set.intersection(*kept)
    grouped = [each for each in sets if any(len(members) > 1 for members in each.values())]
    for other in grouped[1:]:
        if _as_sets(members_among(grouped[0], shared)) != _as_sets(members_among(other, shared)):
            raise Misuse(
                f"two sets of `{' & '.join(parts)}` make classes of several of ImageNet's, and not the same ones",
                hint="write the common classes into a file: name: wnid wnid …",
            )
    first = grouped[0] if grouped else sets[0]
    made = members_among(first, shared)
    if not made:
        raise Misuse(f"`{' & '.join(parts)}` have no class in common")
    return made


def members_among(sets: ClassGroups, wnids: Collection[str]) -> ClassGroups:
    """The classes with those of their members that are among these wnids, where they have any."""
    kept = {name: tuple(wnid for wnid in members if wnid in wnids) for name, members in sets.items()}
    return {name: members for name, members in kept.items() if members}


def _as_sets(sets: ClassGroups) -> set[frozenset[str]]:
    return set(map(frozenset, sets.values()))


def _lines(name: str) -> list[str]:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
