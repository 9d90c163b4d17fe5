"""A CSV file that lists image files and their labels."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.core.values import shortened
from holdfast.datasets.image_files import ImageFiles, framing_of, image_size, listing_digest
from holdfast.datasets.in_memory import first_duplicate
from holdfast.datasets.label_maps import Label, map_labels, numbered_labels

IMAGE_COLUMNS = ("path", "image", "file", "filename", "filepath", "image_path", "img")
LABEL_COLUMNS = ("label", "class", "target", "y", "category")
MOST_BYTES = 1 << 30


@register("dataset", "csv", tags=("yours",))
def csv_list(
    path: str,
    *,
    image: str = "",
    label: str = "",
    root: str = "",
    classes: str = "",
    size: int | None = None,
    resize: int | None = None,
    channels: Literal[1, 3] = 3,
    answers: int | str | tuple[int | str, ...] | None = None,
) -> ImageFiles:
    """A CSV file with a line per image: its path and its label, a number or a word, under a heading.

    `image` and `label` name the columns, by default `path`, `image`, `file` … and `label`, `class`, `target` …. Paths
    are relative to `root`, by default the folder of the CSV file; a path as written is the id. `classes` is a file of
    class names in label order. Framing and `answers` as in `folder`.
    """
    file = Path(path).expanduser()
    names, labels = _lines(file, image, label)
    folder = Path(root).expanduser() if root else file.parent
    listed = tuple(folder / name for name in names)
    twice = first_duplicate(names) or first_duplicate([os.path.normpath(name) for name in names])
    if twice is not None:
        raise HoldfastError(f"{file} lists `{twice}` twice", hint="an image has one line")
    missing = next((each for each in listed if not each.is_file()), None)
    if missing is not None:
        raise HoldfastError(
            f"{file} lists {missing}, which is not there", hint="say what its paths are relative to: `root=FOLDER`"
        )
    framing = framing_of(channels, size, resize)
    numbers, known = numbered_labels(labels, str(file), file=classes)
    card = DatasetCard(
        name=file.stem,
        classes=known,
        channels=channels,
        size=image_size(framing, names, listed.__getitem__, ref="csv", path=path),
        fingerprint=listing_digest(
            (name, number, each.stat().st_size)
            for name, number, each in zip(names, numbers.tolist(), listed, strict=True)
        ),
        source=str(file),
    )
    mapped = map_labels(numbers, card.classes, answers, str(file))
    return ImageFiles(mapped.on_card(card), names, mapped.labels, listed.__getitem__, framing)


def _lines(file: Path, image: str, label: str) -> tuple[tuple[str, ...], list[Label]]:
    """The paths as written and the labels."""
    if not file.is_file():
        raise Misuse(f"there is no file {file}", hint="give a CSV file with a line per image")
    if file.stat().st_size > MOST_BYTES:
        raise HoldfastError(f"{file} has {file.stat().st_size:,} bytes, at most {MOST_BYTES:,} are read")
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            lines = csv.reader(stream)
            heading = [cell.strip() for cell in next(lines, [])]
            columns = (
                _column(file, heading, image, IMAGE_COLUMNS, "image"),
                _column(file, heading, label, LABEL_COLUMNS, "label"),
            )
            rows = [(lines.line_num, row) for row in lines if row]
    except OSError as error:
        raise HoldfastError(f"{file} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HoldfastError(f"{file} is not CSV in UTF-8: {error}") from error
    if not rows:
        raise HoldfastError(f"{file} lists no images")
    checks: tuple[tuple[str, Callable[[list[str]], bool]], ...] = (
        ("has fewer columns than its heading", lambda row: len(row) <= max(columns)),
        ("has no path", lambda row: not row[columns[0]].strip()),
        ("has no label", lambda row: not row[columns[1]].strip()),
    )
    for problem, is_wrong in checks:
        wrong = next((number for number, row in rows if is_wrong(row)), None)
        if wrong is not None:
            raise HoldfastError(f"line {wrong} of {file} {problem}")
    words = [row[columns[1]].strip() for _, row in rows]
    are_numbers = all(word.isdecimal() and len(word) < 10 for word in words)
    labels: list[Label] = [int(word) for word in words] if are_numbers else list(words)
    return tuple(row[columns[0]].strip() for _, row in rows), labels


def _column(file: Path, heading: list[str], name: str, usual: tuple[str, ...], what: str) -> int:
    if name:
        if name not in heading:
            raise unknown(f"column of {file.name}", shortened(name), heading)
        return heading.index(name)
    known = [each for each in heading if each.lower() in usual]
    if len(known) != 1:
        problem = f"several columns of {file} may be the {what}" if known else f"no column of {file} is the {what}"
        listed = ", ".join(f"`{shortened(each)}`" for each in heading[:12]) or "none"
        if len(heading) == 1 and {";", "\t"} & set(heading[0]):
            raise Misuse(f"{problem}: {listed}", hint="its columns are parted by another sign: part them by commas")
        raise Misuse(f"{problem}: {listed}", hint=f"name it: `csv:{file},{what}=COLUMN`; the first line is a heading")
    return heading.index(known[0])
