"""A labelled test set from images with captions or tags: a class is the one whose name the text holds."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.labels import merged
from holdfast.core.refs import digest
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.datasets.image_files import Framing, ImageFiles, framing_of, image_size, listing_digest
from holdfast.datasets.imagenet_classes import KNOWN, Classes, classes_in_words, groups, members_among, synonyms
from holdfast.datasets.imagenet_classes import names as wnids
from holdfast.datasets.in_memory import first_duplicate
from holdfast.datasets.subsample import keyed_choice

SOURCE = "Shi et al. 2023, arXiv:2302.01381, Appendix B.2"
Words = tuple[str, ...]
IMAGENET = "imagenet"
TAGS = re.compile(r"[,;|]")


@register("dataset", "matched", source=SOURCE, tags=("built", "yours"), later=("only", "rest", "longest"))
def matched_dataset(
    table: str,
    *,
    classes: str,
    by: Literal["caption", "tags"] = "caption",
    text: str = "",
    image: str = "image",
    root: str = "",
    per_class: int = 50,
    at_least: int = 100,
    size: int | None = None,
    resize: int | None = None,
    channels: Literal[1, 3] = 3,
    seed: int = 0,
    only: Classes | None = None,
    rest: bool = False,
    longest: bool = False,
) -> ImageFiles:
    """A balanced test set from captioned or tagged images, labelled where exactly one class is named.

    `table` is .csv, .parquet or .jsonl with a column `image` of paths (under `root`, default: the table's folder) and
    a column `caption` or `tags` (or `text=NAME`). `classes` is `imagenet`, for its 1,000 classes with all their names,
    or a file: .txt with one class per line and its synonyms after commas, or .json. A caption matches a class when it
    holds one of its names as whole words; a tag when it is the name. Case, accents and punctuation do not count. An
    image that matches two classes has no label. Of every class with `at_least` images `per_class` are kept, chosen by
    seed and id; other classes keep their number and have no images. The image's path is the id.

    With `longest` a name inside a longer one does not count: `tiger shark` is no tiger. `only` keeps the images of some
    of ImageNet's classes, written as for the dataset `imagenet` (`all`: all that have any), and a model answers with
    those alone. `rest` is what the test set leaves: labelled images to train on.
    """
    if not 1 <= per_class <= at_least:
        raise Misuse(f"`per_class` must lie in 1…`at_least`, got {per_class} of {at_least}")
    file = Path(table).expanduser()
    framing = framing_of(channels, size, resize)
    if classes == IMAGENET:  # each class under its one name with all the words of its synset, in the order of models
        names = {name: (name, *synonyms()[wnid]) for wnid, name in wnids().items()}
    else:
        names = class_names(Path(classes).expanduser())
    if only is not None and classes != IMAGENET:
        raise Misuse("`only` takes some of ImageNet's classes, and `classes` is a file", hint="classes=imagenet")
    columns = table_columns(file, (image, text or by))
    ids = [str(path) for path in columns[image]]
    if (twice := first_duplicate(ids)) is not None:
        raise HoldfastError(f"the image `{twice}` appears twice in {file}", hint="keep one row per image")
    labels = matches(columns[text or by], names, by=by, longest=longest)
    kept, counts = balanced_choice(ids, labels, len(names), per_class=per_class, at_least=at_least, seed=seed)
    if not len(kept):
        raise HoldfastError(
            f"no class of {classes} has {at_least} images in {file}; "
            f"{int(counts.sum())} of {len(ids)} images match exactly one, at most {int(counts.max(initial=0))} a class",
            hint="lower `at_least` and `per_class`, or give the classes more synonyms",
        )
    if rest:
        labelled = np.array([i for i, label in enumerate(labels) if label is not None], dtype=np.int64)
        kept = np.setdiff1d(labelled, kept)
    base = Path(root).expanduser() if root else file.parent
    some = tuple(ids[i] for i in kept)
    files = tuple(base / name for name in some)
    card = DatasetCard(
        name=f"{file.stem}, the rest" if rest else file.stem,
        classes=tuple(names),
        channels=channels,
        size=image_size(framing, some, files.__getitem__, ref="matched", path=table),
        fingerprint=listing_digest((name, labels[i], _bytes(base / name)) for name, i in zip(some, kept, strict=True)),
        source=str(file),
    )
    given = np.array([labels[i] for i in kept], dtype=np.int64)
    if only is None:
        return ImageFiles(card, some, given, files.__getitem__, framing)
    return _of_classes(card, some, given, files, framing, only)


def _of_classes(
    card: DatasetCard,
    ids: tuple[str, ...],
    labels: NDArray[np.int64],
    files: tuple[Path, ...],
    framing: Framing,
    only: Classes,
) -> ImageFiles:
    """The images of some of ImageNet's classes, of those that have any; a model answers with these alone."""
    order = tuple(wnids())
    has = {order[label] for label in np.unique(labels).tolist()}
    chosen = members_among(groups(only), has)
    if not chosen:
        raise HoldfastError(f"`{card.name}` has no images of the classes of {classes_in_words(only)}")
    number = {wnid: i for i, wnid in enumerate(order)}
    meaning = {number[wnid]: label for label, members in enumerate(chosen.values()) for wnid in members}
    positions = [i for i, label in enumerate(labels.tolist()) if label in meaning]
    members = [[number[wnid] for wnid in group] for group in chosen.values()]
    words = (
        f"the largest logit of each of {len(members)} classes of {classes_in_words(only)} that have images, of {KNOWN}"
    )
    kept = tuple(files[i] for i in positions)
    made = replace(
        card,
        classes=tuple(chosen),
        answers=merged(KNOWN, members, words=words),
        fingerprint=digest([card.fingerprint, list(chosen), [meaning[int(labels[i])] for i in positions]]),
    )
    own = np.array([meaning[int(labels[i])] for i in positions], dtype=np.int64)
    return ImageFiles(made, tuple(ids[i] for i in positions), own, kept.__getitem__, framing)


def matches(
    texts: Sequence[Any],
    names: Mapping[str, Sequence[str]],
    *,
    by: Literal["caption", "tags"],
    longest: bool = False,
) -> list[int | None]:
    """For every text the number of the one class it names; None where it names none, or more than one.

    With `longest` a name does not count where it stands inside a longer one.
    """
    owners: dict[Words, set[int]] = {}
    for label, spellings in enumerate(names.values()):
        for spelling in spellings:
            if words := plain_words(spelling):
                owners.setdefault(words, set()).add(label)
    most = max(map(len, owners), default=0)
    labels: list[int | None] = []
    for text in texts:
        if by == "tags":
            phrases = _tags(text)
        elif longest:
            phrases = _longest_phrases(plain_words(str(text or "")), most, owners)
        else:
            phrases = _phrases(plain_words(str(text or "")), most)
        named: set[int] = set().union(*(owners[phrase] for phrase in phrases if phrase in owners))
        labels.append(named.pop() if len(named) == 1 else None)
    return labels


def balanced_choice(
    ids: Sequence[str], labels: Sequence[int | None], classes: int, *, per_class: int, at_least: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of `per_class` samples of every class that has `at_least`, and how many each class has."""
    given = np.array([-1 if label is None else label for label in labels], dtype=np.int64)
    counts = np.bincount(given[given >= 0], minlength=classes)
    parts = [
        keyed_choice(ids, per_class, seed, among=np.flatnonzero(given == label))
        for label in np.flatnonzero(counts >= at_least)
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts]), counts


def class_names(file: Path) -> dict[str, tuple[str, ...]]:
    """Classes in label order with all their spellings, the name first."""
    if not file.is_file():
        raise Misuse(f"there is no file of classes {file}", hint="give a .txt with one class per line, or a .json")
    content = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        listed = _json_names(content, file)
    else:
        listed = [[word.strip() for word in line.split(",")] for line in content.splitlines() if line.strip()]
    names = [spellings[0] for spellings in listed if spellings]
    twice = first_duplicate(names)
    if twice is not None or len(names) != len(listed) or not names:
        what = f"names `{twice}` twice" if twice is not None else "has a class without a name"
        raise HoldfastError(f"{file} {what}", hint="one line per class: name, synonym, synonym")
    return dict(zip(names, map(tuple, listed), strict=True))


def _json_names(content: str, file: Path) -> list[list[str]]:
    """`["a", ["b", "synonym"]]`, or `{"a": ["synonym"]}`."""
    try:
        read = json.loads(content)
    except ValueError as problem:
        raise HoldfastError(f"{file} is not JSON: {problem}") from problem
    if isinstance(read, dict):
        return [[str(name), *map(str, others)] for name, others in read.items()]
    if isinstance(read, list):
        return [[str(word) for word in (item if isinstance(item, list) else [item])] for item in read]
    raise HoldfastError(f"{file} must hold a list of classes, or an object of class → synonyms")


def plain_words(text: str) -> Words:
    """The words of a text without case, accents and punctuation; `_` and `+` part words, as in file names and tags."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return tuple(re.findall(r"[^\W_]+", kept.replace("'", "").replace("’", "")))


def _tags(tags: Any) -> set[Words]:
    listed = TAGS.split(tags) if isinstance(tags, str) else tags or ()
    return {plain_words(str(tag)) for tag in listed}


def _phrases(words: Words, longest: int) -> set[Words]:
    return {words[i : i + length] for length in range(1, longest + 1) for i in range(len(words) - length + 1)}


def _longest_phrases(words: Words, longest: int, owners: Mapping[Words, set[int]]) -> set[Words]:
    """The names in a text that no longer name covers."""
    spans = [
        (i, i + length)
        for length in range(1, longest + 1)
        for i in range(len(words) - length + 1)
        if words[i : i + length] in owners
    ]
    return {words[i:j] for i, j in spans if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in spans)}


def _bytes(file: Path) -> int:
    return file.stat().st_size if file.is_file() else -1


def table_columns(file: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """The named columns, as lists of plain values."""
    import pyarrow as pa

    if not file.is_file():
        raise Misuse(f"there is no table {file}", hint=f"give a file that ends in {', '.join(READERS)}")
    if file.suffix not in READERS:
        raise Misuse(f"{file} is not a table that can be read", hint=f"give a file that ends in {', '.join(READERS)}")
    try:
        table = READERS[file.suffix](file)
        for name in names:
            if name not in table.column_names:
                raise unknown(f"column of {file.name}", name, table.column_names)
        return {name: table.column(name).to_pylist() for name in names}
    except (pa.ArrowException, *DAMAGED) as problem:
        raise HoldfastError(f"{file} cannot be read: {str(problem).partition(chr(10))[0]}") from problem


def _csv(file: Path) -> Any:
    from pyarrow import csv

    return csv.read_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True))


def _parquet(file: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(file).read()


def _json_lines(file: Path) -> Any:
    """By Python's own reader: Arrow's ends the process over some files that are not JSON."""
    import pyarrow as pa

    with file.open(encoding="utf-8") as lines:
        return pa.Table.from_pylist([json.loads(line) for line in lines if line.strip()])


READERS: dict[str, Callable[[Path], Any]] = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
