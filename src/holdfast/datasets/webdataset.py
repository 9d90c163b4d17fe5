"""Tar shards in the WebDataset layout: files of one basename are one sample."""

from __future__ import annotations

import json
import math
import re
import tarfile
from pathlib import Path
from typing import BinaryIO, Literal

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.core.values import shortened
from holdfast.datasets.class_folders import TarMember
from holdfast.datasets.image_files import SUFFIXES, ImageFiles, framing_of, image_size, listing_digest
from holdfast.datasets.label_maps import Label, map_labels, numbered_labels

SOURCE = "https://github.com/webdataset/webdataset"
PICTURES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
MOST_DIGITS = 18  # of a number in a range or a label
MOST_SHARDS = 100_000  # that a range stands for
END = tarfile.BLOCKSIZE  # a whole shard ends with blocks of zeros


Sample = dict[str, TarMember]  # by extension


@register("dataset", "webdataset", source=SOURCE, tags=("yours",), later=("answers",))
def webdataset(
    path: str,
    *,
    label: str = "",
    image: str = "",
    field: str = "label",
    classes: str = "",
    size: int | None = None,
    resize: int | None = None,
    channels: Literal[1, 3] = 3,
    answers: int | str | tuple[int | str, ...] | None = None,
) -> ImageFiles:
    """WebDataset tar shards, read in place: one shard, a folder of them, or a range such as val-{0000..0009}.tar.

    A sample is the files of one basename: an image and its label, the number or word in `.cls`, or the `field` of
    `.json`. `image` and `label` name other extensions. Numbers are labels; words are classes in sorted order, or the
    lines of the file `classes`. Ids are the basenames with their folders. Framing and `answers` as in `folder`.
    """
    framing = framing_of(channels, size, resize)
    shards = _shards(path)
    samples: dict[str, Sample] = {}
    for shard in shards:
        _index(shard, samples)
    if not samples:
        raise HoldfastError(f"no samples in {path}", hint="a sample is two files such as 000042.jpg and 000042.cls")
    pictures = [_picture(name, sample, image, path) for name, sample in samples.items()]
    given = [_label(name, sample, label, field, path) for name, sample in samples.items()]
    labels, names = numbered_labels(given, path, file=classes)
    ids = tuple(samples)

    def opened(position: int) -> BinaryIO:
        return pictures[position].opened()

    card = DatasetCard(
        name=RANGE.sub("", Path(path).name).removesuffix(".tar").strip("-_.") or "webdataset",
        classes=names,
        channels=channels,
        size=image_size(framing, ids, opened, ref="webdataset", path=path),
        fingerprint=listing_digest(zip(ids, labels.tolist(), (where.length for where in pictures), strict=True)),
        source=path,
    )
    known = map_labels(labels, names, answers, path)
    return ImageFiles(known.on_card(card), ids, known.labels, opened, framing)


def _shards(path: str) -> list[Path]:
    names = _names(path)
    paths = [Path(name).expanduser() for name in names]
    if len(paths) == 1 and paths[0].is_dir():
        shards = sorted(paths[0].glob("*.tar"))
        if not shards:
            raise HoldfastError(f"no .tar files in {path}", hint="give a shard, a folder of them, or {0000..0009}.tar")
        return shards
    for file in paths:
        if not file.is_file():
            raise Misuse(f"there is no shard {file}", hint="give a shard, a folder of them, or {0000..0009}.tar")
        if file.suffix in (".gz", ".tgz", ".bz2", ".xz", ".zst"):
            raise Misuse(f"{file} is packed, and cannot be read in place", hint="unpack it to a plain .tar")
    return paths


def _names(path: str) -> list[str]:
    """The paths that a path with ranges stands for."""
    ranges = [(match, _numbers(match[0], match[1], match[2])) for match in RANGE.finditer(path)]
    if math.prod(len(numbers) for _, numbers in ranges) > MOST_SHARDS:
        raise Misuse(f"{shortened(path)} stands for more than {MOST_SHARDS:,} shards", hint="give a smaller range")
    names, at = [""], 0
    for match, numbers in ranges:
        before = path[at : match.start()]
        names = [f"{name}{before}{str(number).zfill(len(match[1]))}" for name in names for number in numbers]
        at = match.end()
    return [name + path[at:] for name in names]


def _numbers(text: str, low: str, high: str) -> range:
    if max(len(low), len(high)) > MOST_DIGITS:
        raise Misuse(f"the range {shortened(text)} is too long", hint=f"a number has at most {MOST_DIGITS} digits")
    if int(low) > int(high):
        raise Misuse(f"the range {text} runs backwards")
    return range(int(low), int(high) + 1)


def _index(shard: Path, samples: dict[str, Sample]) -> None:
    """Adds the samples of a shard: every member by its header alone."""
    try:
        with shard.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            members = tar.getmembers()
            file.seek(tar.offset)
            whole = file.read(END) == bytes(END)
    except (tarfile.TarError, OSError, EOFError) as damage:
        raise _damaged(shard, str(damage)) from damage
    if not whole:
        raise _damaged(shard, "its end is missing")
    done = set(samples)
    for member in members:
        if not member.isfile():
            continue
        folder, _, base = member.name.rpartition("/")
        stem, _, extension = base.partition(".")
        if not stem:  # hidden files
            continue
        name = f"{folder}/{stem}" if folder and folder != "." else stem
        if name in done or extension.lower() in samples.get(name, {}):
            raise HoldfastError(
                f"the key `{name}` appears twice in the shards, the second time in {shard}",
                hint="a key names one sample; make them unique",
            )
        samples.setdefault(name, {})[extension.lower()] = TarMember(shard, member.offset_data, member.size)


def _damaged(shard: Path, why: str) -> HoldfastError:
    return HoldfastError(f"{shard} is not a whole tar file: {why}", hint="get the shard again")


def _picture(name: str, sample: Sample, image: str, path: str) -> TarMember:
    images = [sample[extension] for extension in ((image,) if image else PICTURES) if extension in sample]
    if len(images) != 1:
        has = ", ".join(f".{extension}" for extension in sample)
        what = "has no image" if not images else "has more than one image"
        raise HoldfastError(f"the sample `{name}` in {path} {what}: it has {has}", hint="name its extension: image=jpg")
    return images[0]


def _label(name: str, sample: Sample, label: str, field: str, path: str) -> Label:
    extensions = (label,) if label else ("cls", "json")
    extension = next((extension for extension in extensions if extension in sample), None)
    if extension is None:
        has = ", ".join(f".{extension}" for extension in sample)
        names = " or ".join(f".{extension}" for extension in extensions)
        raise HoldfastError(
            f"the sample `{name}` in {path} has no label {names}: it has {has}", hint="name its extension: label=cls"
        )
    text = sample[extension].opened().read().decode("utf-8", errors="replace").strip()
    if not extension.endswith("json"):
        return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise HoldfastError(f"`{name}.{extension}` in {path} is not JSON: {problem}") from problem
    value = record.get(field) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise HoldfastError(
            f"`{name}.{extension}` in {path} has no label in `{field}`, got {value!r}", hint="name it: field=class_id"
        )
    return value
