"""The store: one Parquet file per finished run, parts of unfinished ones, and everything else derived.

rows/RUN.parquet              complete runs; present means complete
parts/RUN/SHARD.parquet       finished shards of a run under way; gone once the run is whole
parts/RUN/SHARD.state         where the attack on a shard under way stands; gone once the shard is finished
scores/NAME.KEY.parquet       scores that others published, as they were imported
gallery/RUN.parquet           a few samples before and after, as PNG, for reports
damaged/                      files that failed their check, kept for inspection, never read
index.parquet                 derived from the footers; delete it at any time
"""

from __future__ import annotations

import contextlib
import io
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.store.files import Damaged, Files
from holdfast.store.footer import Footer
from holdfast.store.index import Index
from holdfast.store.rows import Rows, digest, is_named, joined
from holdfast.store.scores import FOLDER, Scores, from_parquet, to_parquet

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

SUFFIX = ".parquet"
STATE = ".state"  # of a shard under way: a torch file of tensors
TAIL = 1 << 16  # bytes: the end of a file that holds its footer, nearly always
UNREADABLE = (
    pa.ArrowException,
    OSError,
    ValueError,
)  # what Arrow raises on damage; ValueError: names that are not text


@dataclass(frozen=True, slots=True)
class Finding:
    """What `verify` says of one file: `problem` is None when it is sound."""

    name: str
    problem: str | None
    rows: int = 0


class Picture(NamedTuple):
    """One sample before and after its changes, as PNG bytes."""

    id: str
    before: bytes
    after: bytes


class Store:
    """Rows of every run ever made here, on a local folder or any fsspec path."""

    def __init__(self, path: str) -> None:
        self.files = Files(str(path))
        self.index = Index(self.files, "rows", SUFFIX, self._footer)

    @property
    def url(self) -> str:
        return self.files.url

    # writing

    def add_part(self, rows: Rows) -> None:
        """Keeps a finished shard of a run under way. Names never clash, so two workers never write one file."""
        sealed = rows.sealed(rows.footer)
        self.files.write(f"parts/{rows.footer.key}/{uuid.uuid4().hex}{SUFFIX}", _encoded(sealed.table))

    def save_state(self, key: str, name: str, data: bytes) -> None:
        """Keeps where the loops of a shard stand; one that cannot be kept is no loss, since rows are what counts."""
        with contextlib.suppress(HoldfastError, OSError):
            self.files.write(f"parts/{key}/{name}{STATE}", data)

    def saved_state(self, key: str, name: str) -> bytes | None:
        """What was kept; None where nothing was, or it cannot be read."""
        with contextlib.suppress(HoldfastError, OSError):
            return self.files.read(f"parts/{key}/{name}{STATE}")
        return None

    def drop_state(self, key: str, name: str) -> None:
        self.files.remove(f"parts/{key}/{name}{STATE}")

    def parts(self, key: str) -> list[Rows]:
        """The finished shards of a run under way; a damaged one is moved aside and done again."""
        return list(self._sound(self.files.names(f"parts/{key}", SUFFIX)))

    def siblings(self, footer: Footer) -> list[Rows]:
        """Finished runs of the same family: other choices of samples of the same measurement."""
        names = [name for name in self.index.family(footer.family) if name != _row_name(footer.key)]
        return list(self._sound(names))

    def finish(self, pieces: Sequence[Rows], order: Sequence[str], footer: Footer) -> Rows:
        """Joins the pieces of a run into its one file of rows and drops the parts."""
        rows = joined(pieces, order, footer)
        self.files.write(_row_name(footer.key), _encoded(rows.table))
        self.index.note(_row_name(footer.key), rows.footer)
        self.files.remove(f"parts/{footer.key}")
        return rows

    def add_pictures(self, key: str, pictures: Sequence[Picture]) -> None:
        columns = {name: [getattr(picture, name) for picture in pictures] for name in Picture._fields}
        kinds = {"id": pa.string(), "before": pa.binary(), "after": pa.binary()}
        table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
        self.files.write(f"gallery/{key}{SUFFIX}", _encoded(table))

    def add_scores(self, scores: Scores) -> bool:
        """Keeps imported scores, written once: False where the same were there already."""
        name = f"{FOLDER}/{scores.benchmark}.{scores.key}{SUFFIX}"
        if self.files.exists(name):
            return False
        self.files.write(name, to_parquet(scores))
        return True

    def add_rows(self, rows: Rows) -> bool:
        """Keeps the rows of a run that others made; False where they were there already."""
        name = _row_name(rows.footer.key)
        if self.files.exists(name):
            return False
        self.files.write(name, _encoded(rows.table))
        self.index.note(name, rows.footer)
        return True

    # reading

    def scores(self, benchmark: str | None = None) -> list[Scores]:
        """The scores that were imported, of one benchmark or of all."""
        names = self.files.names(FOLDER, SUFFIX)
        kept = [from_parquet(self.files.read(name), name) for name in names if _is_of(name, benchmark)]
        return [scores for scores in kept if benchmark in (None, scores.benchmark)]

    def has(self, key: str) -> bool:
        """Whether the run is done. A damaged file is moved aside, so that the run is done again."""
        name = _row_name(key)
        return self.files.exists(name) and bool(list(self._sound([name])))

    def find(self, key: str) -> Rows | None:
        """The rows of a run, None where it is not done. A damaged file is moved aside, so that it is done again."""
        name = _row_name(key)
        return next(iter(self._sound([name])), None) if self.files.exists(name) else None

    def read(self, key: str) -> Rows:
        """The rows of a finished run, checked against their digest."""
        if not self.files.exists(_row_name(key)):
            raise HoldfastError(f"no rows of run {key} in {self.url}", hint="`holdfast status` lists what there is")
        return self._read(_row_name(key))

    def footers(self) -> dict[str, Footer]:
        """The footer of every finished run by key. What they count is as measured; `verify` holds it against the rows.

        A file without a sound footer is left out: `damaged` has it.
        """
        return {entry.footer.key: entry.footer for entry in list(self.index.entries().values())}

    def damaged(self) -> dict[str, Damaged]:
        """What is wrong with files that a listing leaves out; `verify` also looks inside the others."""
        self.index.entries()
        return {name: error for name, (_, error) in sorted(self.index.damaged.items())}

    def pictures(self, key: str) -> list[Picture]:
        name = f"gallery/{key}{SUFFIX}"
        if not self.files.exists(name):
            return []
        table = pq.read_table(io.BytesIO(self.files.read(name)))
        return [Picture(**row) for row in table.to_pylist()]

    def unfinished(self) -> dict[str, list[Rows]]:
        """Runs with parts but no rows yet."""
        keys = sorted({name.split("/")[1] for name in self.files.names("parts", SUFFIX)})
        return {key: self.parts(key) for key in keys if not self.files.exists(_row_name(key))}

    def verify(self) -> list[Finding]:
        """Reads every file whole and checks it against its own digest and name."""
        findings = []
        for name in [*self.files.names("rows", SUFFIX), *self.files.names("parts", SUFFIX)]:
            try:
                rows = self._read(name)
                problem = None if rows.footer.right in (None, rows.counts.right) else f"{name} miscounts its rows"
                findings.append(Finding(name, problem, len(rows)))
            except Damaged as error:
                findings.append(Finding(name, error.problem))
        for name in self.files.names(FOLDER, SUFFIX):
            try:
                from_parquet(self.files.read(name), name)
                findings.append(Finding(name, None))
            except HoldfastError as error:
                findings.append(Finding(name, error.problem))
        return findings

    # views

    def arrow(self) -> pyarrow.dataset.Dataset:
        """All rows of finished runs as one Arrow dataset."""
        paths = [self.files.path(name) for name in self.files.names("rows", SUFFIX)]
        return pyarrow.dataset.dataset(paths, filesystem=self.files.fs, format="parquet")

    def pandas(self) -> pd.DataFrame:
        """All rows of finished runs as one data frame."""
        return self.arrow().to_table().to_pandas()

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """A DuckDB query over the view `rows`."""
        import duckdb

        connection = duckdb.connect()
        paths = [self.files.path(name) for name in self.files.names("rows", SUFFIX)]
        if not paths:
            raise HoldfastError(f"no finished runs in {self.url}", hint="`holdfast evaluate` makes some")
        if not self.files.is_local:
            connection.register_filesystem(self.files.fs)
            scheme = self.files.url.split("://")[0]
            paths = [f"{scheme}://{path.lstrip('/')}" for path in paths]
        connection.read_parquet(paths).create_view("rows")
        return connection.sql(query)

    # inside

    def _sound(self, names: Sequence[str]) -> Iterator[Rows]:
        for name in names:
            try:
                yield self._read(name)
            except Damaged as error:
                self.index.drop(name)
                aside = f"damaged/{name.replace('/', '-')}.{uuid.uuid4().hex[:6]}"
                try:
                    self.files.move(name, aside)
                except FileNotFoundError:  # another worker was quicker
                    continue
                warnings.warn(f"{error.problem}; moved to {aside}", HoldfastWarning, stacklevel=3)

    def _read(self, name: str) -> Rows:
        try:
            table = pq.read_table(io.BytesIO(self.files.read(name)))
            footer = _footer_of(table.schema.metadata, name)
            is_sound = is_named(table, footer) and table.num_rows == footer.n and digest(table) == footer.digest
        except UNREADABLE as error:
            raise Damaged(f"{name} is not a whole Parquet file: {error}", hint=HINT) from error
        if not name.startswith("parts/") and name != _row_name(footer.key):
            raise Damaged(f"{name} holds the rows of run {footer.key}", hint=HINT)
        if not is_sound:
            raise Damaged(f"{name} does not match its digest: it was changed or damaged after writing", hint=HINT)
        return Rows(table, footer)

    def _footer(self, name: str) -> Footer:
        try:
            tail = self.files.tail(name, TAIL)
            if int.from_bytes(tail[-8:-4], "little") + 8 > len(tail):
                tail = self.files.read(name)
            metadata = pq.read_metadata(pa.BufferReader(tail)).metadata
        except UNREADABLE as error:
            raise Damaged(f"{name} is not a whole Parquet file: {error}", hint=HINT) from error
        return _footer_of(metadata, name)


HINT = "`holdfast evaluate` with the same arguments moves it aside and measures again"


def _is_of(name: str, benchmark: str | None) -> bool:
    return benchmark is None or name.startswith(f"{FOLDER}/{benchmark}.")


def _row_name(key: str) -> str:
    return f"rows/{key}{SUFFIX}"


def _footer_of(metadata: dict[bytes, bytes] | None, name: str) -> Footer:
    footer = Footer.from_metadata(metadata or {})
    if footer is None:
        raise Damaged(f"{name} has no footer of holdfast's, or a damaged one", hint=HINT)
    return footer


def _encoded(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
