"""The store: one Parquet file per finished run, parts of unfinished ones, and everything else derived.

rows/RUN.parquet              complete runs; present means complete
parts/RUN/SHARD.parquet       finished shards of a run under way; gone once the run is whole
parts/RUN/SHARD.state         state of the attack on a shard under way; gone once the shard is finished
scores/NAME.KEY.parquet       scores that others published, as they were imported
gallery/RUN.parquet           a few samples before and after, as PNG, for reports
names/DIGEST.json             short names that refs were given
damaged/                      files that failed their check, kept for inspection, never read
index.parquet                 derived from the footers; delete it at any time
"""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import pyarrow.dataset

from holdfast.core.config import Config
from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.store import galleries
from holdfast.store.decoding import SUFFIX, decoded_footer, decoded_rows, row_name
from holdfast.store.files import CannotRead, Damaged, Foreign, Unusable
from holdfast.store.footer import Footer
from holdfast.store.galleries import Picture
from holdfast.store.index import Index, IndexEntry
from holdfast.store.parquet_bytes import parquet_encoded
from holdfast.store.retrying import PAUSES, RETRY_LATER, RetryingFiles
from holdfast.store.rows import Rows, joined_rows
from holdfast.store.scores import FOLDER, Scores, scores_file_name, scores_from_parquet, scores_to_parquet
from holdfast.store.stored_names import ShownNames, read_names
from holdfast.store.verifying import FileCheck, file_checks

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = ["SUFFIX", "Damaged", "FileCheck", "Picture", "Store"]

STATE = ".state"  # of a shard under way: a torch file of tensors
TAIL = 1 << 16  # bytes: the end of a file that holds its footer, nearly always
Content = TypeVar("Content")
LeaveOut = Callable[[str, Unusable], None]  # takes the name of a file and what is wrong with it


class Store:
    """Rows of every run ever made here, on a local folder or any fsspec path.

    A file that cannot be used is left aside and the others are read; `tell`, where given, is called once with each
    problem.
    """

    def __init__(self, path: str, *, tell: Callable[[str], None] | None = None, config: Config | None = None) -> None:
        """`config`: whose names are shown beside those that the store keeps."""
        self.files = RetryingFiles(str(path))
        self.config = config
        self.known_names: ShownNames | None = None  # as they were when footers were last read
        self.index = Index(self.files, "rows", SUFFIX, self.footer_in)
        self.tell = tell
        self.reported: set[str] = set()

    @property
    def url(self) -> str:
        return self.files.url

    # writing

    def add_part(self, rows: Rows) -> None:
        """Keeps a finished shard of a run under way. Names never clash, so two workers never write one file."""
        sealed = rows.sealed(rows.footer)
        self.files.write(f"parts/{rows.footer.key}/{uuid.uuid4().hex}{SUFFIX}", parquet_encoded(sealed.table))

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
        """The finished shards of a run under way; a damaged one is moved aside and done again.

        `CannotRead` where there is one that cannot be read now: what it holds is not measured again.
        """
        return list(self._sound(self.files.names(f"parts/{key}", SUFFIX)))

    def siblings(self, footer: Footer) -> list[Rows]:
        """Finished runs of the same family: other choices of samples of the same measurement."""
        self._entries()  # tells which runs cannot be looked at
        names = [name for name in self.index.family(footer.family) if name != row_name(footer.key)]
        return list(self._sound(names))

    def finish(self, pieces: Sequence[Rows], order: Sequence[str], footer: Footer) -> Rows:
        """Joins the pieces of a run into its one file of rows and drops the parts."""
        rows = joined_rows(pieces, order, footer)
        self.files.write(row_name(footer.key), parquet_encoded(rows.table))
        self.index.note(row_name(footer.key), rows.footer)
        try:
            self.files.remove(f"parts/{footer.key}")
        except HoldfastError as error:  # the run is done: its parts are only in the way
            self.left_aside(f"{error.problem}; the run is done without it")
        return rows

    def add_pictures(self, key: str, pictures: Sequence[Picture], *, rows: str = "") -> None:
        """Keeps pictures of a run's samples; `rows` is the digest of the rows that they belong to."""
        self.files.write(_gallery_name(key), galleries.gallery_to_parquet(key, rows, pictures))

    def add_scores(self, scores: Scores) -> bool:
        """Keeps imported scores, written once: False where the same were there already."""
        name = scores_file_name(scores)
        if self._is_there(name, self.scores_in):
            return False
        self.files.write(name, scores_to_parquet(scores))
        return True

    def add_rows(self, rows: Rows) -> bool:
        """Keeps the rows of a run that others made; False where they were there already."""
        name = row_name(rows.footer.key)
        if self._is_there(name, self.rows_in):
            return False
        self.files.write(name, parquet_encoded(rows.table))
        self.index.note(name, rows.footer)
        return True

    # reading

    def scores(self, benchmark: str | None = None) -> list[Scores]:
        """The scores that were imported, of one benchmark or of all; an error where no file of them can be used."""
        listed = self.files.listing(FOLDER, SUFFIX)
        problems: list[Unusable] = [Foreign(f"cannot read {name}: {why}") for name, why in listed.odd.items()]
        begin = f"{FOLDER}/" if benchmark is None else f"{FOLDER}/{benchmark}."
        names = [name for name in sorted(listed.stamps) if name.startswith(begin)]
        kept = self._usable(names, self.scores_in, lambda _, error: problems.append(error))
        if self.tell is None and problems and not kept:
            raise problems[0]
        for each in problems:
            self.left_aside(each.problem)
        return [scores for scores in kept if benchmark in (None, scores.benchmark)]

    def has(self, key: str) -> bool:
        """Whether the run is done. A damaged file is moved aside, so that the run is done again.

        An error where its file cannot be read, or is not ours.
        """
        return self._is_there(row_name(key), self.rows_in)

    def find(self, key: str) -> Rows | None:
        """The rows of a run, None where it is not done. A damaged file is moved aside, so that it is done again."""
        name = row_name(key)
        return self._read_or_moved(name, self.rows_in) if self.files.exists(name) else None

    def read(self, key: str) -> Rows:
        """The rows of a finished run, checked against their digest."""
        rows = self.read_if_there(key)
        if rows is None:
            raise HoldfastError(f"no rows of run {key} in {self.url}", hint="`holdfast status` lists what there is")
        return rows

    def read_if_there(self, key: str) -> Rows | None:
        """The rows of a run; None where it is not in the store."""
        try:
            rows = self.rows_in(row_name(key))
        except FileNotFoundError:
            return None
        if self.known_names is None:
            self.known_names = self.names()
        return Rows(rows.table, self.known_names.shown(rows.footer))

    def read_or_tell(self, key: str) -> Rows | None:
        """The same where one of many runs must not stop the others: rows that cannot be used are reported."""
        try:
            return self.read_if_there(key)
        except Unusable as error:
            self.left_aside(error.problem)
            return None

    def footers(self) -> dict[str, Footer]:
        """The footer of every finished run by key. What they count is as measured; `verify` holds it against the rows.

        A file without a sound footer is left out: `damaged` has it. `CannotRead` where there are runs and none can be
        read: an empty answer would be a wrong one.
        """
        names = self.known_names = self.names()
        return {entry.footer.key: names.shown(entry.footer) for entry in list(self._entries().values())}

    def scored_footers(self) -> list[Footer]:
        """The footers of runs whose samples have labels: the others have answers, and no accuracy."""
        return [footer for footer in self.footers().values() if footer.has_labels]

    def plain_footers(self) -> list[Footer]:
        """The footers as files have them, without short names."""
        return [entry.footer for entry in list(self._entries().values())]

    def names(self) -> ShownNames:
        """The short names that are shown in the place of refs."""
        return read_names(self.files, self.config, self.plain_footers)

    def damaged(self) -> dict[str, Unusable]:
        """What is wrong with files that a listing leaves out; `verify` also looks inside the others."""
        self.index.entries()
        return {name: error for name, (_, error) in sorted(self.index.left_aside.items())}

    def pictures(self, key: str) -> list[Picture]:
        """Pictures of a run's samples; none where there are none, or none that can be trusted."""
        kept = self._usable([_gallery_name(key)], lambda name: self.gallery_in(name, key), self.leave_out)
        return [picture for gallery in kept for picture in gallery.pictures]

    def has_pictures(self, key: str, *, rows: str) -> bool:
        """Whether there are pictures of the run, made from the rows of this digest, and sound.

        Pictures that cannot be read now count as there: nothing is made again because a disk does not answer.
        """
        try:
            return self.gallery_in(_gallery_name(key), key).rows in (None, "", rows)
        except (FileNotFoundError, Damaged):
            return False
        except Unusable as error:
            self.left_aside(error.problem)
            return True

    def unfinished(self) -> dict[str, list[Rows]]:
        """Runs with parts but no rows yet; parts that cannot be used are left aside, and none is moved.

        A run may finish between two calls: call `footers` after this, not before.
        """
        listed = self.files.listing("parts", SUFFIX)
        for name, why in listed.odd.items():
            self.left_aside(f"cannot read {name}: {why}")
        parts: dict[str, list[Rows]] = {}
        for key, names in groupby(sorted(listed.stamps), key=lambda name: name.split("/")[1]):
            rows = [] if self.files.exists(row_name(key)) else self._usable(names, self.rows_in, self.leave_out)
            if rows:
                parts[key] = rows
        return parts

    def verify(self) -> list[FileCheck]:
        """Reads every file whole and checks it: against its digest, its name, and the rows that it was derived from."""
        return file_checks(self)

    # views

    def arrow(self) -> pyarrow.dataset.Dataset:
        """All rows of finished runs as one Arrow dataset."""
        filesystem = None if self.files.is_local else self.files.fs
        return pyarrow.dataset.dataset(self._paths(), filesystem=filesystem, format="parquet")

    def pandas(self) -> pd.DataFrame:
        """All rows of finished runs as one data frame."""
        return self.arrow().to_table().to_pandas()

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """A DuckDB query over the view `rows`."""
        import duckdb

        paths = self._paths()
        if not paths:
            raise HoldfastError(f"no finished runs in {self.url}", hint="`holdfast evaluate` makes some")
        connection = duckdb.connect()
        if not self.files.is_local:
            connection.register_filesystem(self.files.fs)
            scheme = self.url.split("://")[0]
            paths = [f"{scheme}://{path.lstrip('/')}" for path in paths]
        connection.read_parquet(paths).create_view("rows")
        return connection.sql(query)

    # inside

    def _entries(self) -> dict[str, IndexEntry]:
        """The entries of the index; files left aside are reported where `tell` is given."""
        listed = self.index.entries()
        problems = [error for _, (_, error) in sorted(self.index.left_aside.items())]
        unread = [error for error in problems if isinstance(error, CannotRead)]
        if unread and not listed:
            raise unread[0]
        if self.tell is not None:
            for error in problems:
                self.left_aside(error.problem)
            if self.index.problem is not None:
                self.left_aside(f"{self.index.problem}; it was made again from the files")
        return listed

    def _paths(self) -> list[str]:
        return [self.files.path(name) for name in sorted(self._entries())]

    def _sound(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows of files for a run to take over: damage is moved, what is not ours is left, a fault is an error."""
        for name in names:
            try:
                rows = self._read_or_moved(name, self.rows_in)
            except Foreign as error:
                self.left_aside(error.problem)
            else:
                if rows is not None:
                    yield rows

    def _usable(self, names: Iterable[str], read: Callable[[str], Content], leave_out: LeaveOut) -> list[Content]:
        """What files hold for a reader, who moves nothing."""
        kept = []
        for name in names:
            try:
                kept.append(read(name))
            except FileNotFoundError:
                continue
            except Unusable as error:
                leave_out(name, error)
        return kept

    def leave_out(self, name: str, error: Unusable) -> None:  # noqa: ARG002
        """A file is not used for what a reader asks for."""
        self.left_aside(error.problem)

    def _is_there(self, name: str, read: Callable[[str], object]) -> bool:
        """Whether there is a sound file of this name; a damaged one is moved aside."""
        return self.files.exists(name) and self._read_or_moved(name, read) is not None

    def _read_or_moved(self, name: str, read: Callable[[str], Content]) -> Content | None:
        """What a file holds; None where it is gone, or damaged and now moved aside."""
        try:
            stamp = self.files.stamp(name)
            try:
                return read(name)
            except Damaged as error:
                if self.files.stamp(name) != stamp:  # another worker has put a sound file there meanwhile
                    return read(name)
                self._move_aside(name, error)
        except FileNotFoundError:  # another worker was quicker
            pass
        self.index.drop(name)
        return None

    def _move_aside(self, name: str, error: Damaged) -> None:
        aside = f"damaged/{name.replace('/', '-')}.{uuid.uuid4().hex[:6]}"
        self.files.move(name, aside)
        warnings.warn(f"{error.problem}; moved to {aside}", HoldfastWarning, stacklevel=5)

    def left_aside(self, problem: str) -> None:
        """Says once that something is not used."""
        if problem in self.reported:
            return
        self.reported.add(problem)
        if self.tell is not None:
            self.tell(problem)
        else:
            warnings.warn(f"left aside: {problem}", HoldfastWarning, stacklevel=4)

    # single files, by name

    def rows_in(self, name: str) -> Rows:
        """The rows of a file; `Damaged` only where two readings in full agree that they are."""
        return self._decoded(name, lambda data: decoded_rows(data, name))

    def footer_in(self, name: str) -> Footer:
        """The footer of a file, from its end where that is enough."""
        try:
            return decoded_footer(self.files.tail(name, TAIL), name)
        except (Damaged, MemoryError):  # or it is long
            return self._decoded(name, lambda data: decoded_footer(data, name))

    def gallery_in(self, name: str, key: str) -> galleries.Gallery:
        return self._decoded(name, lambda data: galleries.gallery_from_parquet(data, name, key))

    def scores_in(self, name: str) -> Scores:
        return self._decoded(name, lambda data: scores_from_parquet(data, name, is_kept=True))

    def _decoded(self, name: str, decode: Callable[[bytes], Content]) -> Content:
        """What a file holds. Damage is believed when a second reading gives the same bytes, as many as the file has."""
        before: bytes | None = None
        why = "every reading gives other bytes"
        for _ in range(1 + len(PAUSES)):
            data = self.files.read(name)
            try:
                return decode(data)
            except Damaged:
                size = self.files.size(name)
                if data == before and size in (None, len(data)):
                    raise
                before = data
                if size not in (None, len(data)):
                    why = f"{len(data):,} of {size:,} bytes came"
            except MemoryError:
                why = "out of memory"
        raise CannotRead(f"cannot read {name}: {why}", hint=RETRY_LATER)


def _gallery_name(key: str) -> str:
    return f"{galleries.FOLDER}/{key}{SUFFIX}"
