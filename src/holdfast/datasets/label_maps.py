"""`answers=` of a user's own dataset: which classes of a model answer for its classes, as a label map.

answers=[281,207]            the number of the model's class for each class, in label order
answers=[cat,dog,horse]      the names of the model's classes in its order; the dataset's are found by name
answers=classes.txt          the same from a file, one per line; or CSV lines `class,number`, several for one class
answers=imagenet             ImageNet's 1,000 classes by wnid or by name; only those of the dataset may be answered
answers=imagenet-full        the same, and an answer outside the dataset's classes is wrong
answers=1000                 a model of 1,000 classes, whose numbers the labels are
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import OTHER, LabelMap, merged, subset, whole
from holdfast.core.refs import digest
from holdfast.core.types import DatasetCard
from holdfast.core.values import FLOAT, shortened
from holdfast.datasets.imagenet_classes import KNOWN, names, spelled_alike
from holdfast.datasets.in_memory import numbered

ClassMapOption = int | str | tuple[int | str, ...] | None
FULL = "imagenet-full"
BUILT_IN = ("imagenet", FULL)
MOST_CLASSES = 100_000  # that a dataset or a model has
MOST_BYTES = 10_000_000  # of a file of classes
SHOWN_NAMES = 5  # names in an error
Label = int | str


class MappedLabels(NamedTuple):
    """Labels and classes of a dataset, and the label map from a model's classes; None: they are the same."""

    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    label_map: LabelMap | None

    def on_card(self, card: DatasetCard) -> DatasetCard:
        """The card with these classes and a fingerprint that depends on the label map."""
        if self.label_map is None:
            return card
        facts = [self.label_map.known, self.label_map.groups, self.label_map.other, self.label_map.merge]
        fingerprint = digest(["answers", card.fingerprint, facts])
        return replace(card, classes=self.classes, answers=self.label_map, fingerprint=fingerprint)


def map_labels(labels: NDArray[np.int64], classes: Sequence[str], answers: ClassMapOption, where: str) -> MappedLabels:
    """The labels and classes with what `answers` makes of them."""
    classes = tuple(classes)
    if answers is None:
        return MappedLabels(labels, classes, None)
    if isinstance(answers, int):
        return _own_numbers(labels, classes, answers, where)
    if isinstance(answers, str) and answers in BUILT_IN:
        return MappedLabels(labels, *_imagenet(classes, where, is_full=answers == FULL))
    listed = answers if isinstance(answers, tuple) else _from_file(answers, classes)
    return MappedLabels(labels, classes, listed if isinstance(listed, LabelMap) else _from_list(listed, classes, where))


def _own_numbers(labels: NDArray[np.int64], classes: tuple[str, ...], known: int, where: str) -> MappedLabels:
    """Labels that are the numbers of the model's classes; folders may be named by them."""
    if not 1 <= known <= MOST_CLASSES:
        raise Misuse(f"`answers={known}`: a model has from 1 to {MOST_CLASSES:,} classes")
    numbers = [int(name) for name in classes if name.isdecimal() and len(name) < 10]
    if len(numbers) < len(classes) and len(classes) != known:
        word = next((name for name in classes if not name.isdecimal()), classes[0])
        raise Misuse(
            f"the classes of {where} are named, such as `{shortened(word)}`, not numbered",
            hint="give the number or name of the model's class for each: answers=[…], or a file",
        )
    if len(numbers) < len(classes):
        return MappedLabels(labels, classes, whole(known, words=f"the largest of all {known:,} logits"))
    if max(numbers, default=0) >= known:
        raise Misuse(f"{where} has class {max(numbers)}, a model of {known:,} classes knows 0 to {known - 1}")
    own = np.array(numbers, dtype=np.int64)[labels]
    return MappedLabels(own, tuple(map(str, range(known))), whole(known, words=f"the largest of all {known:,} logits"))


def _imagenet(classes: tuple[str, ...], where: str, *, is_full: bool) -> tuple[tuple[str, ...], LabelMap]:
    """ImageNet's classes by wnid or by name."""
    wnids = {wnid: number for number, wnid in enumerate(names())}
    if all(name in wnids for name in classes):
        numbers = [wnids[name] for name in classes]
        shown = tuple(names()[name] for name in classes)
    else:
        numbers = _by_name(classes, tuple(names().values()), where, "ImageNet's 1,000")
        shown = classes
    if is_full and len(numbers) < KNOWN:
        words = f"the largest of {KNOWN} logits, in the {len(numbers)} classes of the dataset and the rest"
        return (*shown, OTHER), merged(KNOWN, [(number,) for number in numbers], words=words, other=True)
    return shown, subset(
        KNOWN, numbers, words=f"the logits of the {len(numbers)} classes of the dataset alone, of {KNOWN}"
    )


def _from_list(listed: Sequence[int | str], classes: tuple[str, ...], where: str) -> LabelMap:
    """Numbers: the model's class of each class. Names: the model's classes in its order."""
    numbers = [item for item in listed if isinstance(item, int)]
    if numbers and len(numbers) < len(listed):
        raise Misuse("`answers` has both names and numbers", hint="give one number per class, or all names of a model")
    if not numbers:
        known = [str(item) for item in listed]
        matches = _by_name(classes, known, where, f"the {len(known)} listed")
        return subset(len(known), matches, words=f"the logits of {len(matches)} classes by name, of {len(known)}")
    if len(numbers) != len(classes):
        raise Misuse(
            f"`answers` has {len(numbers):,} numbers and {where} has {len(classes):,} classes",
            hint="give the number of the model's class for each class, in the order of the labels",
        )
    return subset(None, numbers, words=f"the logits of {len(numbers)} classes by number")


def _by_name(classes: Sequence[str], known: Sequence[str], where: str, whose: str) -> list[int]:
    """The number of the one class with each name."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(known):
        numbers[spelled_alike(name)].append(number)
    matches = [numbers.get(spelled_alike(name), []) for name in classes]
    for problem, count in (("are none of", 0), ("are more than one of", 2)):
        odd = [name for name, match in zip(classes, matches, strict=True) if min(len(match), 2) == count]
        if odd:
            shown = ", ".join(f"`{shortened(name)}`" for name in odd[:SHOWN_NAMES])
            more = f" and {len(odd) - SHOWN_NAMES:,} more" if len(odd) > SHOWN_NAMES else ""
            raise Misuse(
                f"{len(odd):,} of {len(classes):,} classes of {where} {problem} {whose} classes by name: {shown}{more}",
                hint="rename them, or give the number of the model's class for each: answers=[…], or a file",
            )
    return [match[0] for match in matches]


def _from_file(path: str, classes: tuple[str, ...]) -> tuple[int | str, ...] | LabelMap:
    """One name or number per line, or lines `class,number`."""
    file = Path(path).expanduser()
    lines = [line for line in _rows_of(file) if any(line)]
    if not lines:
        raise HoldfastError(f"{file} lists no classes", hint="give one name or number per line")
    if all(len(line) == 2 for line in lines):
        rows = lines if lines[0][1].isdecimal() else lines[1:]  # the first line may be a heading
        if rows and all(number.isdecimal() for _, number in rows):
            return _pairs([(name, _class_number(number, file)) for name, number in rows], classes, file)
    texts = [",".join(line) for line in lines]
    return tuple(_class_number(text, file) for text in texts) if all(map(str.isdecimal, texts)) else tuple(texts)


def _rows_of(file: Path) -> list[list[str]]:
    try:
        if not file.is_file():
            problem = f"`answers`: there is no file {shortened(str(file), 200)}"
            raise Misuse(problem, hint=f"give a list, a file, how many classes a model has, or {' or '.join(BUILT_IN)}")
        if file.stat().st_size > MOST_BYTES:
            raise HoldfastError(f"{file} has {file.stat().st_size:,} bytes, a list of classes at most {MOST_BYTES:,}")
        text = file.read_text(encoding="utf-8-sig")
        return [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text))]
    except OSError as error:
        raise HoldfastError(f"{shortened(str(file), 200)} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HoldfastError(f"{file} is not a list of classes: {error}", hint="one name or number per line") from error


def _pairs(pairs: Sequence[tuple[str, int]], classes: tuple[str, ...], file: Path) -> LabelMap:
    groups: dict[str, list[int]] = defaultdict(list)
    for name, number in pairs:
        groups[spelled_alike(name)].append(number)
    lacking = [name for name in classes if spelled_alike(name) not in groups]
    if lacking:
        raise Misuse(
            f"{file} has no line for the class `{shortened(lacking[0])}` ({len(lacking):,} of {len(classes):,})"
        )
    members = [groups[spelled_alike(name)] for name in classes]
    count = sum(map(len, members))
    return merged(None, members, words=f"the largest logit of each of {len(members)} groups, made of {count} classes")


def _class_number(text: str, file: Path) -> int:
    if len(text) > 9:
        raise HoldfastError(f"{file} has the number {shortened(text)}", hint=f"at most {MOST_CLASSES:,} classes")
    return int(text)


def numbered_labels(
    labels: Sequence[Label], where: str, *, file: str = "", names: Sequence[str] = ()
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Every label as an index of the classes, and the classes.

    Classes are the lines of `file`, else `names`; else the words in sorted order, or the numbers up to the largest.
    """
    known = _lines(file) if file else tuple(names)
    words = [label for label in labels if isinstance(label, str)]
    if words and len(words) < len(labels):
        raise HoldfastError(f"some labels of {where} are words and some are numbers, such as `{words[0]}`")
    odd = [label for label in labels if not isinstance(label, str) and not _is_whole(label)]
    if odd:
        raise HoldfastError(
            f"the label {shortened(str(odd[0]))} of {where} is no class number", hint="labels count the classes from 0"
        )
    if not words:
        return _class_numbers([int(label) for label in labels], known, where)
    if not known:
        _refuse_odd_numbers(words, where)
    classes = known or tuple(sorted(set(words)))
    numbers = {name: number for number, name in enumerate(classes)}
    twice = next((word for word in words if word in numbers and classes.count(word) > 1), None)
    if twice is not None:
        raise HoldfastError(f"the label `{twice}` of {where} is the name of several classes", hint="number the labels")
    strange = next((word for word in words if word not in numbers), None)
    if strange is not None:
        raise HoldfastError(f"the label `{strange}` of {where} is none of the {len(classes)} classes")
    return np.array([numbers[word] for word in words], dtype=np.int64), classes


def _is_whole(label: object) -> bool:
    return isinstance(label, int | np.integer) or (isinstance(label, float) and label.is_integer())


def _refuse_odd_numbers(words: Sequence[str], where: str) -> None:
    """Refuses labels that are all numbers, but no class numbers: sorted as words they would be other classes."""
    odd = next((word for word in words if not word.isdecimal()), None)
    if odd is not None and all(FLOAT.fullmatch(word) for word in words):
        raise HoldfastError(
            f"the label `{shortened(odd)}` of {where} is a number, but no class number",
            hint="labels count the classes from 0: write 3, not 3.0; or give class names",
        )


def _class_numbers(numbers: list[int], known: tuple[str, ...], where: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if not known and max(numbers, default=0) >= MOST_CLASSES:
        raise HoldfastError(
            f"the label {shortened(str(max(numbers)))} of {where} is too large: "
            f"a dataset has at most {MOST_CLASSES:,} classes",
            hint="labels count the classes from 0, without gaps",
        )
    classes = known or numbered(range(max(numbers, default=0) + 1), width=1)
    wrong = next((number for number in numbers if not 0 <= number < len(classes)), None)
    if wrong is not None:
        raise HoldfastError(
            f"labels of {where} must lie in 0…{len(classes) - 1}, got {shortened(str(wrong))}",
            hint="labels count from 0; give one class name per label",
        )
    return np.array(numbers, dtype=np.int64), classes


def _lines(file: str) -> tuple[str, ...]:
    path = Path(file).expanduser()
    if not path.is_file():
        raise Misuse(f"there is no file of classes {path}", hint="give a text file with one class per line")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"the file of classes {path} cannot be read: {error}") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())
