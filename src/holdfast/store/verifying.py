"""What `verify` says of a store: every file against its digest, and what is derived against the rows and footers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.store import galleries, index
from holdfast.store.decoding import SUFFIX
from holdfast.store.files import Damaged, Unusable
from holdfast.store.footer import Footer
from holdfast.store.parquet_bytes import NOT_PARQUET, parquet_table
from holdfast.store.scores import FOLDER as SCORES

if TYPE_CHECKING:
    from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What `verify` says of one file: `problem` is None when it is sound.

    A file with a problem is either damaged, or it was left aside: unreadable now, or not ours.
    """

    name: str
    problem: str | None
    rows: int = 0
    is_damaged: bool = False

    @property
    def is_derived(self) -> bool:
        """Whether it can be made again from rows."""
        return self.name == index.NAME or self.name.startswith(f"{galleries.FOLDER}/")


def file_checks(store: Store) -> list[FileCheck]:
    """One check per file; a file that is gone since it was listed has none."""
    footers: dict[str, Footer] = {}
    first = _index(store)  # before anything here writes the index anew
    checks = [
        *_each(store, "rows", lambda name: _rows(store, name, footers)),
        *_each(store, "parts", lambda name: _rows(store, name, footers)),
        *_each(store, galleries.FOLDER, lambda name: _gallery(store, name)),
        *_each(store, SCORES, lambda name: _scores(store, name)),
    ]
    return [check for check in (first, *checks, _entries(store, footers)) if check is not None]


def _each(store: Store, folder: str, check: Callable[[str], FileCheck]) -> Iterator[FileCheck]:
    listed = store.files.listing(folder, SUFFIX)
    for name, why in listed.odd.items():
        yield FileCheck(name, f"cannot read {name}: {why}")
    for name in sorted(listed.stamps):
        try:
            yield check(name)
        except FileNotFoundError:
            continue
        except Unusable as error:
            if name in error.problem:  # else it is a problem of the run's rows, which have a check of their own
                yield _unusable(name, error)


def _rows(store: Store, name: str, footers: dict[str, Footer]) -> FileCheck:
    rows = store.rows_in(name)
    footers[name] = rows.footer
    counts = (rows.footer.right, rows.footer.in_top5, rows.footer.failed)
    fits = counts == (None, None, None) or counts == tuple(rows.counts)
    return FileCheck(name, None if fits else f"{name} miscounts its rows", len(rows), is_damaged=not fits)


def _gallery(store: Store, name: str) -> FileCheck:
    key = name.rpartition("/")[2].removesuffix(SUFFIX)
    gallery, rows = store.gallery_in(name, key), store.read_if_there(key)
    if rows is None:
        problem: str | None = f"{name} has pictures of a run that is not in this store"
    else:
        problem = galleries.problem_with(gallery, name, rows=rows.footer.digest, ids=rows.ids)
    return FileCheck(name, problem, is_damaged=problem is not None)


def _scores(store: Store, name: str) -> FileCheck:
    store.scores_in(name)
    return FileCheck(name, None)


def _index(store: Store) -> FileCheck | None:
    """The seal of the index; None where there is none, or nothing is wrong with it so far."""
    try:
        index.index_from_bytes(store.files.read(index.NAME))
    except FileNotFoundError:
        return None
    except Unusable as error:
        return _unusable(index.NAME, error)
    return None


def _entries(store: Store, footers: dict[str, Footer]) -> FileCheck | None:
    """What the index says of each file beside the footer of the file itself."""
    try:
        data = store.files.read(index.NAME)
        known = index.index_from_bytes(data) or _unsealed(data)
    except FileNotFoundError:
        return None
    except Unusable:  # `_index` has it
        return None
    for name, entry in known.items():
        if name in footers and entry.footer != footers[name]:
            is_stale = bool(entry.stamp) and entry.stamp != store.files.stamp(name)
            if not is_stale:  # a reader sees by the stamp that the file has changed since
                return FileCheck(index.NAME, f"{index.NAME} says of {name} what its footer does not", is_damaged=True)
    return None


def _unsealed(data: bytes) -> dict[str, index.IndexEntry]:
    """The entries of an index without a seal, by content: a version before wrote it, or an editor."""
    try:
        table = parquet_table(data)
        names = table.column("name").to_pylist()
        return {name: index.IndexEntry("", footer) for name, footer in zip(names, index.footers_in(table), strict=True)}
    except NOT_PARQUET:
        return {}  # of another version: no reader takes anything from it


def _unusable(name: str, error: Unusable) -> FileCheck:
    return FileCheck(name, error.problem, is_damaged=isinstance(error, Damaged))
