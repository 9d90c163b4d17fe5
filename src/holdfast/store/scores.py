"""Scores that others measured: a table, the unit of every setting, and the file that they were read from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.table import Table, table
from holdfast.store.files import Damaged, Foreign
from holdfast.store.parquet_bytes import parquet_encoded, parquet_table, whole_file
from holdfast.store.rows import Rows

SUFFIX = ".parquet"
FOLDER = "scores"
KEY = b"holdfast scores"
PER_HUNDRED = ("percent", "points")
UNITS = ("percent", "points", "fraction", "number", "rank")
TIDY = ("benchmark", "model", "setting", "value", "unit", "n", "source")  # columns of one number
FACT_PREFIX = "fact:"  # of a column that is a fact about the model, where its name is taken
FORBIDDEN = set('/\\:*?"<>|')  # in the name of a file, on one system or another
LONGEST_NAME = 200  # bytes
WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("benchmark", WORD),
        ("model", WORD),
        ("setting", WORD),
        ("value", pa.float64()),
        ("unit", WORD),
        ("n", pa.int64()),
        ("source", WORD),
    ]
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that scores were read from: what makes them checkable."""

    format: str
    file: str
    sha256: str
    date: str

    def __str__(self) -> str:
        return f"{self.file} (sha256 {self.sha256[:12]}…, read {self.date})"


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A table of one benchmark. `units` says how a setting is written: percent and points are fractions inside."""

    benchmark: str
    table: Table
    units: Mapping[str, str] = field(default_factory=dict)
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not is_file_name(self.benchmark):
            raise HoldfastError(
                f"a benchmark cannot be named `{self.benchmark[:60]!r}`: its scores are kept in a file of that name",
                hint="use letters, digits, spaces, `-`, `_` and `.`, and begin with none of the last",
            )

    def unit(self, setting: str) -> str:
        return self.units.get(setting, "percent")

    @property
    def key(self) -> str:
        """Names the file of these scores: the same numbers from the same file have the same key on any day."""
        return _digest(self, "" if self.origin is None else self.origin.sha256)[:16]

    @property
    def digest(self) -> str:
        """Covers all that is kept."""
        facts = {model: dict(facts) for model, facts in self.table.facts.items()}
        cells = cells_of(self)
        return _digest(self, [facts, None if self.origin is None else asdict(self.origin), cells.sources], cells.source)


def is_file_name(name: str) -> bool:
    """Whether a name can be part of the name of a file on every system, inside its folder."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    shown = name.isprintable() and name == name.strip() and not name.startswith(".")
    return shown and 0 < length <= LONGEST_NAME and not set(name) & FORBIDDEN


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """What an importer read: scores of benchmarks, and rows where the file holds single predictions.

    `notes` say what is missing beside them, in words.
    """

    scores: tuple[Scores, ...] = ()
    rows: tuple[Rows, ...] = ()
    notes: tuple[str, ...] = ()


def tidy(scores: Scores) -> list[dict[str, object]]:
    """One record per number, in the unit of its setting; `n` is None where it is not known."""
    table = scores.table
    records: list[dict[str, object]] = []
    for i, model in enumerate(table.models):
        for j, setting in enumerate(table.settings):
            value = float(table.values[i, j])
            if math.isnan(value):
                continue
            unit = scores.unit(setting)
            records.append(
                {
                    "benchmark": scores.benchmark,
                    "model": model,
                    "setting": setting,
                    "value": round(100 * value, 10) if unit in PER_HUNDRED else value,
                    "unit": unit,
                    "n": int(table.counts[i, j]) or None,
                    "source": table.source_of(model, setting),
                }
            )
    return records


def from_tidy(records: Iterable[Mapping[str, object]], facts: Mapping[str, Mapping[str, str]]) -> Scores:
    """Scores from the records that `tidy` made, of one benchmark."""
    cells: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    sources: dict[str | tuple[str, str], str] = {}
    units: dict[str, str] = {}
    name = ""
    for record in records:
        name = str(record["benchmark"])
        key = (str(record["model"]), str(record["setting"]))
        units[key[1]] = str(record["unit"])
        value = float(str(record["value"]))
        cells[key] = value / 100 if units[key[1]] in PER_HUNDRED else value
        counts[key] = int(str(record["n"] or 0))
        sources[key] = str(record["source"])
    return Scores(name, table(cells, counts=counts, facts=facts, sources=sources), units)


class TableCells(NamedTuple):
    """The numbers of a table in a row: places of model and setting, value in its unit, and place among the sources."""

    model: NDArray[np.int64]
    setting: NDArray[np.int64]
    value: NDArray[np.float64]
    n: NDArray[np.int64]
    source: NDArray[np.int32]
    sources: list[str]


def cells_of(scores: Scores) -> TableCells:
    """Every number of a table, model by model."""
    table = scores.table
    model, setting = np.nonzero(~np.isnan(table.values))
    scale = np.array([100.0 if scores.unit(name) in PER_HUNDRED else 1.0 for name in table.settings])
    values = table.values[model, setting] * scale[setting]
    # a hundred times a fraction is off in the last bit: ten decimals are far finer than any count
    value = np.where(scale[setting] == 100, np.round(values, 10), values) + 0.0
    source_index: dict[str, int] = {}
    of_setting = [
        source_index.setdefault(table.sources.get(name) or table.source, len(source_index)) for name in table.settings
    ]
    source = np.array(of_setting, dtype=np.int32)[setting]
    row, column = ({name: i for i, name in enumerate(names)} for names in (table.models, table.settings))
    at = np.full(table.values.shape, -1, dtype=np.int64)
    at[model, setting] = np.arange(len(model))
    for key, text in table.sources.items():
        if isinstance(key, tuple) and key[0] in row and key[1] in column and text:
            cell_index = at[row[key[0]], column[key[1]]]
            if cell_index >= 0:
                source[cell_index] = source_index.setdefault(text, len(source_index))
    # only the sources in use, in order of use: equal tables then have equal cells
    used, first, inverse = np.unique(source, return_index=True, return_inverse=True)
    order = np.argsort(first)
    texts = list(source_index)
    return TableCells(
        model,
        setting,
        value,
        table.counts[model, setting],
        np.argsort(order)[inverse].astype(np.int32),
        [texts[number] for number in used[order]],
    )


def to_arrow(scores: Scores) -> pa.Table:
    """One row per number, with order, origin and facts in the metadata."""
    cells, table = cells_of(scores), scores.table
    units = [scores.unit(name) for name in table.settings]
    nothing = np.zeros(len(cells.model), dtype=np.int32)
    columns = {
        "benchmark": _words(nothing, [scores.benchmark]),
        "model": _words(cells.model, table.models),
        "setting": _words(cells.setting, table.settings),
        "value": pa.array(cells.value),
        "unit": _words(cells.setting, units),
        "n": pa.array(cells.n, mask=cells.n == 0),
        "source": _words(cells.source, cells.sources),
    }
    about = {
        "digest": scores.digest,
        "benchmark": scores.benchmark,
        "models": table.models,
        "settings": table.settings,
        "units": dict(zip(table.settings, units, strict=True)),
        "origin": None if scores.origin is None else asdict(scores.origin),
        "facts": {model: dict(facts) for model, facts in table.facts.items()},
    }
    made = pa.table(columns, schema=SCHEMA)
    return made.replace_schema_metadata({KEY: json.dumps(about, ensure_ascii=False).encode()})


def scores_to_parquet(scores: Scores) -> bytes:
    return parquet_encoded(to_arrow(scores))


def scores_from_parquet(data: bytes, name: str, *, is_kept: bool = False) -> Scores:
    """Scores as they were kept; an error where they do not fit their digest, or the name that a store gives them."""
    with whole_file(name, "file of scores", REIMPORT):
        made = parquet_table(data)
        metadata = made.schema.metadata or {}
        if KEY not in metadata and made.column_names != SCHEMA.names:
            raise Foreign(f"{name} is no file of scores of holdfast's", hint="move it out of the store")
        if made.column_names != SCHEMA.names:
            raise Damaged(f"{name} is no whole file of scores: its columns are {_listed(made)}", hint=REIMPORT)
        about = json.loads(metadata[KEY])
        scores = _from_arrow(made, about)
        is_sound = scores.digest == about["digest"] and _says_the_same(made, scores)
    if not is_sound:
        raise Damaged(f"{name} does not match its digest: it was changed or damaged after writing", hint=REIMPORT)
    if is_kept and name != scores_file_name(scores):
        raise Damaged(f"{name} holds the scores of {scores_file_name(scores)}", hint=REIMPORT)
    return scores


def scores_file_name(scores: Scores) -> str:
    """Where a store keeps scores."""
    return f"{FOLDER}/{scores.benchmark}.{scores.key}{SUFFIX}"


def _listed(table: pa.Table) -> str:
    return ", ".join(table.column_names[:8]) + (", …" if table.num_columns > 8 else "")


def _says_the_same(made: pa.Table, scores: Scores) -> bool:
    """Whether the columns that stand in the metadata too say the same there: others read the columns alone."""
    made = made.unify_dictionaries()
    pairs = made.select(["setting", "unit"]).group_by(["setting", "unit"], use_threads=False).aggregate([]).to_pylist()
    return set(made.column("benchmark").unique().to_pylist()) <= {scores.benchmark} and all(
        pair["setting"] in scores.table.settings and scores.unit(pair["setting"]) == pair["unit"] for pair in pairs
    )


def _from_arrow(made: pa.Table, about: dict[str, Any]) -> Scores:
    models, settings, units = tuple(about["models"]), tuple(about["settings"]), about["units"]
    row, column = _indices(made.column("model"), models), _indices(made.column("setting"), settings)
    scale = np.array([100.0 if units[name] in PER_HUNDRED else 1.0 for name in settings])
    values = np.full((len(models), len(settings)), np.nan)
    counts = np.zeros(values.shape, dtype=np.int64)
    values[row, column] = made.column("value").to_numpy() / scale[column]
    counts[row, column] = made.column("n").fill_null(0).to_numpy()
    source_texts = made.column("source").combine_chunks()
    texts = source_texts.dictionary.to_pylist() if len(source_texts) else []
    origin = None if about["origin"] is None else Origin(**about["origin"])
    if len(texts) <= 1:
        table = Table(models, settings, values, counts, about["facts"], {}, texts[0] if texts else "")
        return Scores(about["benchmark"], table, units, origin)
    sources: dict[str | tuple[str, str], str] = {
        (models[i], settings[j]): texts[k] for i, j, k in zip(row, column, source_texts.indices.to_numpy(), strict=True)
    }
    return Scores(about["benchmark"], Table(models, settings, values, counts, about["facts"], sources), units, origin)


def _indices(column: pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.int64]:
    """The position of each word of a column among the names."""
    index = {name: i for i, name in enumerate(names)}
    words = column.combine_chunks()
    known = np.array([index[word] for word in words.dictionary.to_pylist()], dtype=np.int64)
    return known[words.indices.to_numpy()] if len(words) else np.zeros(0, dtype=np.int64)


def _words(numbers: NDArray[Any], words: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), pa.array(list(words), pa.string()))


def _digest(scores: Scores, more: object, *arrays: NDArray[Any]) -> str:
    cells, table = cells_of(scores), scores.table
    names = [scores.benchmark, table.models, table.settings, [scores.unit(name) for name in table.settings], more]
    summed = hashlib.sha256(json.dumps(names, ensure_ascii=False).encode())
    for array in (cells.model, cells.setting, cells.value, cells.n, *arrays):
        summed.update(np.ascontiguousarray(array).tobytes())
    return summed.hexdigest()


REIMPORT = "delete it and import its source again"
