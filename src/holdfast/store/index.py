"""The index: what the footers of all finished runs say, in one table, so that a large store answers at once.

It is derived from the files and follows them: whoever reads it lists the folder, reads the footers of files that are
new or have changed, and writes the table anew when that was worth it. Two processes may do so at once, and it can be
deleted at any time.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.core.errors import HoldfastError
from holdfast.store.files import Damaged, Files
from holdfast.store.footer import Footer, compounds

NAME = "index.parquet"
FEW = 5000  # names: a folder of so many is listed in milliseconds, every time
REST = 10  # a larger one is listed again after this many times as long as listing it took
WORTH = 100  # the table is written anew when one in so many entries is new
READERS = 8  # footers read at once: an object store answers each slowly and many together

OWN = ("key", "family", "digest", "command")  # texts of one run alone; all others are shared by many
WORDS = pa.dictionary(pa.int32(), pa.string())
PLAIN = {"int": pa.int64(), "float": pa.float64()}
COLUMNS = {
    field.name: pa.string() if field.name in OWN else PLAIN.get(str(field.type).removesuffix(" | None"), WORDS)
    for field in fields(Footer)
}
SCHEMA = pa.schema([("name", pa.string()), ("stamp", pa.string()), *COLUMNS.items()])


class Entry(NamedTuple):
    """The footer of a file, and the stamp the file had when it was read."""

    stamp: str
    footer: Footer


class Index:
    """The entries of the files of a folder by name. `read` gives the footer of a file, or raises `Damaged`."""

    def __init__(self, files: Files, folder: str, suffix: str, read: Callable[[str], Footer]) -> None:
        self.files, self.folder, self.suffix, self.read = files, folder, suffix, read
        self.known: dict[str, Entry] | None = None
        self.families: dict[str, list[str]] | None = None
        self.damaged: dict[str, tuple[str, Damaged]] = {}
        self.unwritten = 0
        self.listed = self.took = 0.0

    def entries(self) -> dict[str, Entry]:
        """Every sound file's entry, up to date."""
        if self.known is None:
            self.known = self._kept()
        elif len(self.known) > FEW and time.monotonic() - self.listed < REST * self.took:
            return self.known
        begun = time.monotonic()
        stamps = self.files.stamps(self.folder, self.suffix)
        self.listed = time.monotonic()
        self.took = self.listed - begun
        self._follow(stamps, self.known)
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
        """A file was written here: no need to look for it."""
        if self.known is not None:
            self.known[name] = Entry(self.files.stamp(name), footer)
            self._join(name, self.known[name])
            self.unwritten += 1

    def drop(self, name: str) -> None:
        """A file is gone."""
        if self.known is not None and self.known.pop(name, None) is not None:
            self.unwritten += 1

    def _follow(self, stamps: dict[str, str], known: dict[str, Entry]) -> None:
        for name in known.keys() - stamps.keys():
            self.drop(name)
        self.damaged = {name: found for name, found in self.damaged.items() if stamps.get(name) == found[0]}
        other = [
            name
            for name, stamp in stamps.items()
            if name not in self.damaged and (name not in known or known[name].stamp != stamp)
        ]
        for name, footer in zip(other, self._read(other), strict=True):
            if isinstance(footer, Damaged):
                self.damaged[name] = stamps[name], footer
                self.drop(name)
            else:
                known[name] = Entry(stamps[name], footer)
                self._join(name, known[name])
                self.unwritten += 1
        if self.unwritten * WORTH > len(known):
            self._write(known)

    def _read(self, names: Sequence[str]) -> Iterator[Footer | Damaged]:
        def one(name: str) -> Footer | Damaged:
            try:
                return self.read(name)
            except Damaged as error:
                return error

        if len(names) < READERS:
            yield from map(one, names)
            return
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(one, names)

    def _join(self, name: str, entry: Entry) -> None:
        if self.families is not None:
            self.families.setdefault(entry.footer.family, []).append(name)

    def _kept(self) -> dict[str, Entry]:
        """What was written, nothing where it cannot be used: damaged, or of another version."""
        try:
            table = pq.read_table(io.BytesIO(self.files.read(NAME)))
            if not table.schema.equals(SCHEMA):
                return {}
            names, stamps = table.column("name").to_pylist(), table.column("stamp").to_pylist()
            with _uncollected():
                kept = dict(zip(names, map(Entry, stamps, _footers(table)), strict=True))
            if len(kept) > FEW:  # it stays as long as the store does: collecting need not go through it again and again
                gc.freeze()
            return kept
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            return {}

    def _write(self, known: dict[str, Entry]) -> None:
        footers = [entry.footer for entry in known.values()]
        columns = [pa.array(known, pa.string()), pa.array([entry.stamp for entry in known.values()], pa.string())]
        columns += [_column(footers, name, kind) for name, kind in COLUMNS.items()]
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, schema=SCHEMA), sink, compression="zstd")
        with contextlib.suppress(HoldfastError):  # a store that cannot be written to can still be read
            self.files.write(NAME, sink.getvalue())
        self.unwritten = 0


def _column(footers: Sequence[Footer], name: str, kind: pa.DataType) -> pa.Array:
    values = [getattr(footer, name) for footer in footers]
    if name not in compounds:
        return pa.array(values, pa.string()).dictionary_encode() if kind == WORDS else pa.array(values, kind)
    said: dict[int, str] = {}  # cards, classes and the like are the same object in many footers
    for value in values:
        if id(value) not in said:
            said[id(value)] = json.dumps(value, default=asdict, ensure_ascii=False)
    return pa.array([said[id(value)] for value in values], pa.string()).dictionary_encode()


def _footers(table: pa.Table) -> list[Footer]:
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
