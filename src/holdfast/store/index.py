"""The index: what the footers of all finished runs say, in one table, so that a large store answers at once.

It is derived from the files and follows them: a reader lists the folder, reads the footers of files that are
new or have changed, and writes the table anew when that was worth it. Two processes may do so at once, and it can be
deleted at any time. A seal over the whole file tells an index that was edited or damaged: none of it is used then.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.core.errors import HoldfastError
from holdfast.store.files import CannotRead, Damaged, Files, Foreign, Unusable
from holdfast.store.footer import Footer, compounds
from holdfast.store.parquet_bytes import parquet_file, parquet_table, whole_file

NAME = "index.parquet"
FEW = 5000  # names: a folder of so many is listed in milliseconds, every time
REST = 10  # a larger one is listed again after this many times as long as listing it took
WORTH = 100  # the table is written anew when one in so many entries is new
SEAL_KEY = b"holdfast index"
EDITED = {b"holdfast sealed", b"pandas"}  # what an editor leaves in the metadata when the seal is gone
HINT = "it is derived from the files: any command that reads the store makes it again"
BLANK = b"0" * 64  # the bytes of the seal while it is computed
READERS = 8  # footers read at once: an object store answers each slowly and many together

OWN = ("key", "family", "digest", "command")  # texts of one run alone; all others are shared by many
WORDS = pa.dictionary(pa.int32(), pa.string())
PLAIN = {"int": pa.int64(), "float": pa.float64()}
COLUMNS = {
    field.name: pa.string() if field.name in OWN else PLAIN.get(str(field.type).removesuffix(" | None"), WORDS)
    for field in fields(Footer)
}
SCHEMA = pa.schema(
    [("name", pa.string()), ("stamp", pa.string()), *COLUMNS.items()], metadata={b"holdfast sealed": b"yes"}
)


class IndexEntry(NamedTuple):
    """The footer of a file, and the stamp the file had when it was read."""

    stamp: str
    footer: Footer


class Index:
    """The entries of the files of a folder by name. `read` gives the footer of a file, or raises `Unusable`.

    `left_aside` has, by name, the files without an entry: their stamp, and what is wrong. `problem` says what was wrong
    with the table as it was found.
    """

    def __init__(self, files: Files, folder: str, suffix: str, read: Callable[[str], Footer]) -> None:
        self.files, self.folder, self.suffix, self.read = files, folder, suffix, read
        self.known: dict[str, IndexEntry] | None = None
        self.families: dict[str, list[str]] | None = None
        self.left_aside: dict[str, tuple[str, Unusable]] = {}
        self.problem: str | None = None
        self.unwritten = 0
        self.listed = self.took = 0.0

    def entries(self) -> dict[str, IndexEntry]:
        """Every sound file's entry, up to date."""
        if self.known is None:
            self.known = self._kept()
        elif len(self.known) > FEW and time.monotonic() - self.listed < REST * self.took:
            return self.known
        begun = time.monotonic()
        listed_files = self.files.listing(self.folder, self.suffix)
        self.listed = time.monotonic()
        self.took = self.listed - begun
        self._follow(listed_files.stamps, self.known)
        self.left_aside |= {name: ("", Foreign(f"cannot read {name}: {why}")) for name, why in listed_files.odd.items()}
        return self.known

    def family(self, name: str) -> list[str]:
        """The files of one family."""
        entries = self.entries()
        if self.families is None:
            self.families = {}
            for member, entry in entries.items():
                self._join(member, entry)
        members = dict.fromkeys(self.families.get(name, ()))
        return [member for member in members if member in entries and entries[member].footer.family == name]

    def note(self, name: str, footer: Footer) -> None:
        """A file was written here: no need to look for it. Without its stamp it is found by the next listing."""
        if self.known is None:
            return
        with contextlib.suppress(HoldfastError, OSError):
            self.known[name] = IndexEntry(self.files.stamp(name), footer)
            self._join(name, self.known[name])
            self.unwritten += 1

    def drop(self, name: str) -> None:
        """A file is gone."""
        if self.known is not None and self.known.pop(name, None) is not None:
            self.unwritten += 1

    def _follow(self, stamps: dict[str, str], known: dict[str, IndexEntry]) -> None:
        for name in known.keys() - stamps.keys():
            self.drop(name)
        self.left_aside = {  # what could not be read is tried again
            name: (stamp, error)
            for name, (stamp, error) in self.left_aside.items()
            if stamps.get(name) == stamp and not isinstance(error, CannotRead)
        }
        other = [
            name
            for name, stamp in stamps.items()
            if name not in self.left_aside and (name not in known or known[name].stamp != stamp)
        ]
        for name, footer in zip(other, self._read(other), strict=True):
            if isinstance(footer, Footer):
                known[name] = IndexEntry(stamps[name], footer)
                self._join(name, known[name])
                self.unwritten += 1
                continue
            self.drop(name)
            if footer is not None:
                self.left_aside[name] = stamps[name], footer
        if self.unwritten * WORTH > len(known):
            self._write(known)

    def _read(self, names: Sequence[str]) -> Iterator[Footer | Unusable | None]:
        """The footer of each file, what is wrong with it, or None where it is gone."""

        def one(name: str) -> Footer | Unusable | None:
            try:
                return self.read(name)
            except FileNotFoundError:
                return None
            except Unusable as error:
                return error

        if len(names) < READERS:
            yield from map(one, names)
            return
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(one, names)

    def _join(self, name: str, entry: IndexEntry) -> None:
        if self.families is not None:
            self.families.setdefault(entry.footer.family, []).append(name)

    def _kept(self) -> dict[str, IndexEntry]:
        """What was written, nothing where it cannot be used: damaged, edited, or of another version."""
        try:
            kept = index_from_bytes(self.files.read(NAME))
        except FileNotFoundError:
            return {}
        except (Unusable, OSError, MemoryError) as error:
            self.problem = error.problem if isinstance(error, HoldfastError) else f"cannot read {NAME}: {error}"
            return {}
        if len(kept) > FEW:  # it stays as long as the store does: collecting need not go through it again and again
            gc.freeze()
        return kept

    def _write(self, known: dict[str, IndexEntry]) -> None:
        # a store that cannot be written to can still be read; so can one whose footers fit no table
        with contextlib.suppress(HoldfastError, OSError, pa.ArrowException, ValueError, OverflowError, MemoryError):
            self.files.write(NAME, index_to_bytes(known))
        self.unwritten = 0


def index_to_bytes(known: Mapping[str, IndexEntry]) -> bytes:
    """The index as a file, under its seal."""
    footers = [entry.footer for entry in known.values()]
    columns = [pa.array(known, pa.string()), pa.array([entry.stamp for entry in known.values()], pa.string())]
    columns += [_column(footers, name, kind) for name, kind in COLUMNS.items()]
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        writer.write_table(pa.table(columns, schema=SCHEMA))
        writer.add_key_value_metadata({SEAL_KEY: BLANK})
    data = sink.getvalue()
    before, _, after = data.rpartition(BLANK)
    return before + hashlib.sha256(data).hexdigest().encode() + after


def index_from_bytes(data: bytes) -> dict[str, IndexEntry]:
    """The entries of an index; nothing where another version wrote it. `Damaged` where it is not as it was written."""
    with whole_file(NAME, "Parquet file", HINT):
        about = parquet_file(data).metadata.metadata or {}
        if SEAL_KEY not in about and not EDITED & about.keys():
            return {}
        if not _is_sealed(data, about.get(SEAL_KEY, b"")):
            raise Damaged(f"{NAME} does not match its seal: it was changed or damaged after writing", hint=HINT)
        table = parquet_table(data)
        if not table.schema.equals(SCHEMA):
            return {}
        names, stamps = table.column("name").to_pylist(), table.column("stamp").to_pylist()
        with _uncollected():
            return dict(zip(names, map(IndexEntry, stamps, footers_in(table)), strict=True))


def _is_sealed(data: bytes, seal: bytes) -> bool:
    at = data.rfind(seal)
    summed = hashlib.sha256(memoryview(data)[:at])
    summed.update(BLANK)
    summed.update(memoryview(data)[at + len(seal) :])
    return len(seal) == len(BLANK) and summed.hexdigest().encode() == seal


def _column(footers: Sequence[Footer], name: str, kind: pa.DataType) -> pa.Array:
    values = [getattr(footer, name) for footer in footers]
    if name not in compounds:
        return pa.array(values, pa.string()).dictionary_encode() if kind == WORDS else pa.array(values, kind)
    texts: dict[int, str] = {}  # cards, classes and the like are the same object in many footers
    for value in values:
        if id(value) not in texts:
            texts[id(value)] = json.dumps(value, default=asdict, ensure_ascii=False)
    return pa.array([texts[id(value)] for value in values], pa.string()).dictionary_encode()


def footers_in(table: pa.Table) -> list[Footer]:
    """Footers from columns; what is the same in many of them is made once."""
    columns: list[list[Any]] = []
    for name, kind in COLUMNS.items():
        column = table.column(name)
        if kind != WORDS:
            columns.append(_listed(column))
            continue
        words = column.combine_chunks()
        made: list[Any] = words.dictionary.to_pylist()
        if name in compounds:
            made = [compounds[name](json.loads(text)) for text in made]
        columns.append([made[i] for i in words.indices.to_numpy().tolist()])
    return [Footer(*values) for values in zip(*columns, strict=True)]


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """As `to_pylist`, and ten times as fast for numbers."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count or pa.types.is_string(column.type):
        listed: list[Any] = column.to_pylist()
        return listed
    return list(column.to_numpy().tolist())


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Many small objects and no cycles: looking for some takes longer than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
