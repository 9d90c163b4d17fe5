"""Hugging Face datasets: by name through the `datasets` package, or Parquet files on disk without it."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.home import data_home
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.datasets.decoded_cache import times
from holdfast.datasets.image_files import Framing, ImageFiles, Opened, framing_of, image_size, listing_digest
from holdfast.datasets.in_memory import first_duplicate, numbered
from holdfast.datasets.label_maps import ClassMapOption, Label, map_labels, numbered_labels

SOURCE = "https://huggingface.co/docs/datasets"
ROWS = 256  # copied at once


@dataclass(frozen=True, slots=True)
class Columns:
    """A split as columns: labels and ids in memory, one image at a time from disk."""

    labels: Sequence[Label | None]
    classes: Sequence[str]
    ids: Sequence[str] | None
    picture: Callable[[int], Any]
    facts: str


@register("dataset", "hf", source=SOURCE, tags=("yours",), later=("answers",))
def hf(
    name: str,
    *,
    split: str = "test",
    config: str = "",
    revision: str = "",
    image: str = "image",
    label: str = "label",
    identity: str = "",
    size: int | None = None,
    resize: int | None = None,
    channels: Literal[1, 3] = 3,
    answers: int | str | tuple[int | str, ...] | None = None,
) -> ImageFiles:
    """A Hugging Face dataset of labelled images, by its name, or a folder: of its Parquet files, or of `save_to_disk`.

    `hf:uoft-cs/cifar10,image=img` needs `pip install datasets`; `hf:/data/cifar10,split=test` reads
    `test-*.parquet` there, in `data/` or in `config/`, without it, and keeps a copy that can be mapped under the data
    folder. Class names come from the features. Ids are positions in the split, `test-00042`, or the column `identity`.
    Give a `revision` (a tag or a commit) so that the same name stays the same data. Framing and `answers` as in
    `folder`.
    """
    framing = framing_of(channels, size, resize)
    folder = Path(name).expanduser()
    names = (image, label, identity)
    if folder.is_dir() and (saved := saved_split(folder, split)) is not None:
        columns = _from_saved(saved, names)
    elif folder.is_dir():
        columns = _from_folder(folder, split, config, names)
    elif name.startswith(("/", ".", "~")):
        raise Misuse(f"there is no folder {folder}", hint="give a folder of Parquet files, or the name of a dataset")
    else:
        columns = _from_hub(name, split, config, revision, names)
    return _encoded(name, split, columns, framing, answers)


def _encoded(name: str, split: str, columns: Columns, framing: Framing, answers: ClassMapOption) -> ImageFiles:
    if not len(columns.labels):
        raise HoldfastError(f"the split `{split}` of {name} is empty")
    given: list[Label] = []
    for row, value in enumerate(columns.labels):
        if value is None or value == -1:  # a test split without labels has -1
            raise HoldfastError(f"row {row} of `{split}` of {name} has no label", hint="choose a split with labels")
        given.append(value)
    labels, classes = numbered_labels(given, name, names=columns.classes)
    ids = columns.ids or numbered(range(len(given)), width=5, prefix=f"{split}-")
    if (twice := first_duplicate(ids)) is not None:
        raise HoldfastError(f"the id `{twice}` appears twice in {name}", hint="choose another column for `identity`")

    def opened(position: int) -> Opened:
        value = columns.picture(position)
        if isinstance(value, dict) and value.get("bytes") is not None:
            return io.BytesIO(value["bytes"])
        if isinstance(value, bytes):
            return io.BytesIO(value)
        if isinstance(value, dict) and value.get("path"):
            return Path(value["path"])
        return io.BytesIO()  # no image at all

    card = DatasetCard(
        name=f"{Path(name).name}-{split}",
        classes=classes,
        channels=framing.channels,
        size=image_size(framing, ids, opened, ref="hf", path=name),
        fingerprint=listing_digest([(columns.facts,), *zip(ids, labels.tolist(), strict=True)]),
        source=name,
    )
    known = map_labels(labels, classes, answers, name)
    return ImageFiles(known.on_card(card), ids, known.labels, opened, framing)


def _from_hub(name: str, split: str, config: str, revision: str, names: tuple[str, str, str]) -> Columns:
    try:
        package = importlib.import_module("datasets")
    except ImportError as problem:
        raise HoldfastError(
            "`datasets` is not installed",
            hint="pip install datasets; or get the Parquet files and give their folder: hf:/data/cifar10",
        ) from problem
    try:
        table = package.load_dataset(name, config or None, split=split, revision=revision or None)
    except (ValueError, OSError, RuntimeError) as problem:
        raise HoldfastError(f"`{name}` cannot be loaded: {str(problem).partition(chr(10))[0]}") from problem
    image, label, identity = names
    _refuse_other_columns(names, table.column_names, name)
    pictures = table.select_columns([image]).cast_column(image, package.Image(decode=False))
    return Columns(
        list(table[label]),
        getattr(table.features[label], "names", None) or (),
        [str(value) for value in table[identity]] if identity else None,
        lambda row: pictures[row][image],
        str(getattr(table, "_fingerprint", "")),
    )


def _from_folder(folder: Path, split: str, config: str, names: tuple[str, str, str]) -> Columns:
    import pyarrow as pa
    from pyarrow import parquet

    files = _files(folder, split, config)
    try:
        schema = parquet.read_schema(files[0])
        _refuse_other_columns(names, schema.names, files[0].name)
        small = list(filter(None, names[1:]))
        known = pa.concat_tables([parquet.ParquetFile(file).read(columns=small) for file in files])
        pictures = _mapped(files, names[0])
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).partition("\n")[0]
        raise HoldfastError(
            f"the Parquet files in {folder} cannot be read: {reason}", hint="get them again"
        ) from problem
    return _from_arrow(known, schema.metadata, pictures, files, names)


def _from_arrow(
    known: Any, metadata: dict[bytes, bytes] | None, pictures: Any, files: Sequence[Path], names: tuple[str, str, str]
) -> Columns:
    _, label, identity = names
    return Columns(
        known.column(label).to_pylist(),
        _class_names(metadata, label),
        [str(value) for value in known.column(identity).to_pylist()] if identity else None,
        lambda row: pictures[row].as_py(),
        " ".join(str(file.stat().st_size) for file in files),
    )


def _refuse_other_columns(names: Sequence[str], known: Sequence[str], where: str) -> None:
    for column in filter(None, names):
        if column not in known:
            raise unknown(f"column of {where}", column, known)


def saved_split(folder: Path, split: str) -> Path | None:
    """The folder that `save_to_disk` wrote a split to; None where it did not write this folder."""
    if (folder / "state.json").is_file():
        return folder
    splits = sorted(each.parent.name for each in folder.glob("*/state.json"))
    if not splits:
        return None
    if split not in splits:
        raise unknown(f"split of {folder}", split, splits)
    return folder / split


def _from_saved(folder: Path, names: tuple[str, str, str]) -> Columns:
    """A split as `save_to_disk` writes it: Arrow streams, mapped, and the features beside them."""
    import pyarrow as pa

    try:
        listed = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        files = [folder / each["filename"] for each in listed["_data_files"]]
        if listed.get("_indices_files") or listed.get("_indices_data_files"):
            hint = "`dataset.flatten_indices()` before `save_to_disk` writes the rows themselves"
            raise HoldfastError(f"{folder} holds a selection of another dataset's rows", hint=hint)
        table = pa.concat_tables([pa.ipc.open_stream(pa.memory_map(str(file))).read_all() for file in files])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
        reason = str(problem).partition("\n")[0]
        raise HoldfastError(
            f"the dataset saved in {folder} cannot be read: {reason}", hint="save it again"
        ) from problem
    _refuse_other_columns(names, table.column_names, folder.name)
    return _from_arrow(table, table.schema.metadata, table.column(names[0]), files, names)


def _files(root: Path, split: str, config: str) -> list[Path]:
    """The shards of a split, where Hugging Face puts them."""
    folders = [root / config, root / config / "data"] if config else [root, root / "data", root / "default"]
    for folder in folders:
        shards = sorted(file for file in folder.glob(f"{split}*.parquet") if file.name[len(split)] in "-.")
        shards += sorted((folder / split).glob("*.parquet"))
        if shards:
            return shards
    splits = {file.name.partition("-")[0].removesuffix(".parquet") for file in root.rglob("*.parquet")}
    if not splits:
        raise HoldfastError(f"no Parquet files in {root}", hint="its files are named like test-00000-of-00001.parquet")
    raise unknown(f"split of {root}", split, splits)


def _class_names(metadata: dict[bytes, bytes] | None, label: str) -> tuple[str, ...]:
    """The names of the classes, from the features that Hugging Face writes into the schema."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(map(str, features[label].get("names") or ()))
    except (KeyError, ValueError, AttributeError, TypeError):
        return ()


def _mapped(files: Sequence[Path], image: str) -> Any:
    """The column of images, mapped from an uncompressed copy: Parquet gives no single row without its row group."""
    import pyarrow as pa
    from pyarrow import parquet

    facts = [(str(file.resolve()), *times(file.stat()), image) for file in files]
    copy = data_home() / "hf" / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:20]}.arrow"
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}.part")
        try:
            schema = pa.schema([parquet.read_schema(files[0]).field(image)])
            with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for file in files:
                    for batch in parquet.ParquetFile(file).iter_batches(batch_size=ROWS, columns=[image]):
                        writer.write_batch(batch.cast(schema))
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)
    return pa.ipc.open_file(pa.memory_map(str(copy))).read_all().column(image)
