"""A store as a site reads it: every file once, and what cannot be read is remembered, not fatal."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import PurePosixPath

from holdfast.core.errors import HoldfastError
from holdfast.store.files import Damaged
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows
from holdfast.store.scores import FOLDER, Scores, from_parquet
from holdfast.store.store import SUFFIX, Store

KEPT = 400_000_000  # bytes of rows that stay in memory: several boards and reports read the same runs


class Reading(Store):
    """The runs and scores of a store at one moment; `problems` says, by file, what is wrong with those left out."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.url)
        self.problems: dict[str, str] = {}
        self._footers: dict[str, Footer] | None = None
        self._scores: dict[str, Scores] | None = None
        self._rows: OrderedDict[str, Rows] = OrderedDict()
        self._size = 0

    def footers(self) -> dict[str, Footer]:
        if self._footers is None:
            self._footers = self._listed()
        return self._footers

    def read(self, key: str) -> Rows:
        if key in self._rows:
            self._rows.move_to_end(key)
            return self._rows[key]
        try:
            rows = super().read(key)
        except Damaged as error:
            self.problems[_name(key)] = error.problem
            raise
        self._rows[key] = rows
        self._size += rows.table.nbytes
        while self._size > KEPT and len(self._rows) > 1:
            self._size -= self._rows.popitem(last=False)[1].table.nbytes
        return rows

    def scores(self, benchmark: str | None = None) -> list[Scores]:
        if self._scores is None:
            self._scores = {}
            for name in self.files.names(FOLDER, SUFFIX):
                try:
                    self._scores[name] = from_parquet(self.files.read(name), name)
                except (HoldfastError, OSError) as error:
                    self.problems[name] = _said(error)
        return [scores for scores in self._scores.values() if benchmark in (None, scores.benchmark)]

    def without_damage(self) -> None:
        """Reads every run and leaves out those that cannot be read."""
        for key in list(self.footers()):
            try:
                self.read(key)
            except HoldfastError as error:
                self.problems[_name(key)] = error.problem
                del self.footers()[key]

    @property
    def under_way(self) -> int:
        """How many runs have finished parts but no rows yet."""
        keys = {name.split("/")[1] for name in self.files.names("parts", SUFFIX)}
        return len(keys - set(self.footers()))

    def _listed(self) -> dict[str, Footer]:
        try:
            footers = super().footers()
        except HoldfastError as error:
            self.problems["rows"] = _said(error)
            return {}
        self.problems |= {name: error.problem for name, error in self.damaged().items()}
        return footers


def stamp(store: Store) -> str:
    """Changes whenever a run is finished, or scores or pictures are added."""
    files = store.files
    files.fs.invalidate_cache()
    summed = hashlib.sha256()
    for folder in ("rows", FOLDER, "gallery"):
        start = files.path(folder)
        found = files.fs.find(start, detail=True) if files.fs.exists(start) else {}
        for path, about in sorted(found.items()):
            if PurePosixPath(path).name.startswith("."):
                continue  # still being written
            when = about.get("mtime") or about.get("ETag") or about.get("created")
            summed.update(f"{path} {about.get('size')} {when}\n".encode())
    return summed.hexdigest()[:16]


def _name(key: str) -> str:
    return f"rows/{key}{SUFFIX}"


def _said(error: Exception) -> str:
    return error.problem if isinstance(error, HoldfastError) else str(error)
