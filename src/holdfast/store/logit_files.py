"""Logits from files of any origin: npy, csv, Parquet, or rows of our own. No labels needed, any modality."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.store.decoding import decoded_rows
from holdfast.store.footer import FOOTER_KEY
from holdfast.store.parquet_bytes import parquet_table
from holdfast.store.rows import Rows

FORMATS = (".npy", ".csv", ".parquet")
IDS = ("id", "sample", "sample_id")
LABELS = ("label", "labels", "target")
LOGITS = "logits"  # a Parquet column of lists


@dataclass(frozen=True, slots=True, eq=False)
class LogitFile:
    """Logits (samples, classes), with ids, labels and class names where the file has them."""

    name: str
    logits: NDArray[np.floating]
    ids: tuple[str, ...] | None = None
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] | None = None


def read_logits(path: Path) -> LogitFile | Rows:
    """Logits by the file's ending; a file of our own rows comes back as rows."""
    if not path.is_file():
        raise Misuse(f"no file {path}", hint="give a .npy, .csv or .parquet file, or the key of a run in the store")
    with _reading(path):
        ending = path.suffix.lower()
        if ending == ".npy":
            return LogitFile(path.name, _array(path))
        if ending == ".csv":
            return _from_table(path, _csv(path))
        if ending == ".parquet":
            data = _bytes(path)
            try:
                table = parquet_table(data)
            except (pa.ArrowException, OSError) as error:
                raise HoldfastError(f"{path} is not a Parquet file: {error}") from error
            is_ours = FOOTER_KEY in (table.schema.metadata or {})
            return decoded_rows(data, str(path), is_kept=False) if is_ours else _from_table(path, table)
        raise Misuse(f"logits are read from {', '.join(FORMATS)}, got {path.name}")


def read_labels(path: Path) -> NDArray[np.int64]:
    """Whole numbers, one per sample: an npy of one dimension, or a csv with one column or a column `label`."""
    if not path.is_file():
        raise Misuse(f"no file {path}")
    with _reading(path):
        if path.suffix.lower() == ".npy":
            values = _array(path)
        else:
            table = _csv(path)
            name = next((name for name in table.column_names if name.lower() in LABELS), None)
            if name is None and table.num_columns != 1:
                raise Misuse(f"{path} has {table.num_columns} columns and none named `label`")
            values = _numbers(path, table, [name or table.column_names[0]])[:, 0]
        if values.ndim != 1 or (values != np.floor(values)).any():
            raise Misuse(f"labels are whole numbers, one per sample; {path} has the shape {values.shape}")
        return values.astype(np.int64)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes a library raise is an error that names the file."""
    try:
        yield
    except (pa.ArrowException, *DAMAGED) as error:
        raise HoldfastError(f"{path} cannot be read: {error}", hint="is it whole, and what its ending says?") from error


def paired(one: LogitFile, other: LogitFile) -> tuple[LogitFile, LogitFile]:
    """Both in the order of the first: by id and class name where both files have them, else as they stand."""
    if one.ids is not None and other.ids is not None and one.ids != other.ids:
        other = _reordered(one, other)
    if one.classes is not None and other.classes is not None and one.classes != other.classes:
        if sorted(one.classes) != sorted(other.classes):
            odd = sorted(set(one.classes) ^ set(other.classes))
            raise Misuse(f"{one.name} and {other.name} have different classes, `{odd[0]}` is in one of them only")
        columns = [other.classes.index(name) for name in one.classes]
        other = LogitFile(other.name, other.logits[:, columns], other.ids, other.labels, one.classes)
    return one, other


def _reordered(one: LogitFile, other: LogitFile) -> LogitFile:
    assert one.ids is not None
    assert other.ids is not None
    index_of = {name: i for i, name in enumerate(other.ids)}
    missing = [name for name in one.ids if name not in index_of]
    if missing or len(one.ids) != len(other.ids):
        only = missing[0] if missing else next(name for name in other.ids if name not in set(one.ids))
        raise Misuse(
            f"{one.name} and {other.name} are of different samples: `{only}` is in one of them only",
            hint="keep the samples both have, in both files",
        )
    order = [index_of[name] for name in one.ids]
    labels = None if other.labels is None else other.labels[order]
    return LogitFile(other.name, other.logits[order], one.ids, labels, other.classes)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HoldfastError(f"cannot read {path}: {error.strerror or error}") from error


def _array(path: Path) -> NDArray[np.floating]:
    data = _bytes(path)
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise HoldfastError(f"{path} is not an npy file of numbers: {error}") from error
    if array.dtype.kind not in "fiu":
        raise Misuse(f"{path} holds {array.dtype}, not numbers")
    made: NDArray[np.floating] = array if array.dtype.kind == "f" else array.astype(np.float64)
    return made


def _csv(path: Path) -> pa.Table:
    with path.open(newline="", encoding="utf-8") as file:
        first = next(csv.reader(file), None)
    if not first:
        raise Misuse(f"{path} is empty")
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=all(map(_is_number, first)))
    try:
        return pyarrow.csv.read_csv(path, read_options=options)
    except pa.ArrowException as error:
        raise HoldfastError(f"{path} does not read as csv: {error}") from error


def _from_table(path: Path, table: pa.Table) -> LogitFile:
    named = {name.lower(): name for name in table.column_names}
    ids = next((named[name] for name in IDS if name in named), None)
    labels = next((named[name] for name in LABELS if name in named), None)
    rest = [name for name in table.column_names if name not in (ids, labels)]
    classes: tuple[str, ...] | None = None
    if LOGITS in rest and pa.types.is_list(table.schema.field(LOGITS).type):
        logits = _lists(path, table.column(LOGITS).to_pylist())
    else:
        logits = _numbers(path, table, rest)
        # names that the reader made up (f0, f1, …) say nothing
        classes = None if all(name == f"f{i}" for i, name in enumerate(rest)) else tuple(rest)
    names = None if ids is None else tuple(str(name) for name in table.column(ids).to_pylist())
    if names is not None and len(set(names)) != len(names):
        raise Misuse(f"an id stands twice in {path}", hint="ids name samples: each stands once")
    truth = None if labels is None else _numbers(path, table, [labels])[:, 0].astype(np.int64)
    return LogitFile(path.name, logits, names, truth, classes)


def _lists(path: Path, rows: Sequence[Sequence[float] | None]) -> NDArray[np.float64]:
    widths = {len(row) if row is not None else 0 for row in rows}
    if len(widths) > 1:
        raise Misuse(f"the samples of {path} have different numbers of logits: {sorted(widths)}")
    return np.array(rows, dtype=np.float64)


def _numbers(path: Path, table: pa.Table, names: Sequence[str]) -> NDArray[np.float64]:
    columns = []
    for name in names:
        kind = table.schema.field(name).type
        # a csv column of nothing but NaN reads as null: the caller says what is wrong with it
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise Misuse(
                f"the column `{name}` of {path} holds {kind}, not numbers",
                hint="a column of names must be called `id`; every other column is a class",
            )
        columns.append(table.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False))
    if not columns:
        raise Misuse(f"{path} has no columns of logits")
    return np.stack(columns, axis=1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
