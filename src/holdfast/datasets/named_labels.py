"""Labels as sources have them, numbers or words, as places in a list of classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.values import shortened
from holdfast.datasets.label_maps import MOST_CLASSES
from holdfast.datasets.memory import numbered

Label = int | str


def numbered_labels(
    labels: Sequence[Label], where: str, *, file: str = "", names: Sequence[str] = ()
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Every label as a place in the classes, and the classes.

    Classes are the lines of `file`, else `names`; else the words in sorted order, or the numbers up to the largest.
    """
    known = _lines(file) if file else tuple(names)
    words = [label for label in labels if isinstance(label, str)]
    if words and len(words) < len(labels):
        raise HoldfastError(f"some labels of {where} are words and some are numbers, such as `{words[0]}`")
    if not words:
        return _whole([int(label) for label in labels], known, where)
    classes = known or tuple(sorted(set(words)))
    place = {name: number for number, name in enumerate(classes)}
    strange = next((word for word in words if word not in place), None)
    if strange is not None:
        raise HoldfastError(f"the label `{strange}` of {where} is none of the {len(classes)} classes")
    return np.array([place[word] for word in words], dtype=np.int64), classes


def _whole(numbers: list[int], known: tuple[str, ...], where: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
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
    place = Path(file).expanduser()
    if not place.is_file():
        raise Misuse(f"there is no file of classes {place}", hint="give a text file with one class per line")
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"the file of classes {place} cannot be read: {error}") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())
