"""A store as a site reads it: every file once, and what cannot be read is remembered, not fatal."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from holdfast.core.errors import HoldfastError
from holdfast.store.decoding import SUFFIX, row_name
from holdfast.store.files import CannotRead, Unusable
from holdfast.store.footer import Footer
from holdfast.store.galleries import FOLDER as GALLERIES
from holdfast.store.rows import Rows
from holdfast.store.scores import FOLDER, Scores
from holdfast.store.store import Store

KEPT = 400_000_000  # bytes of rows that stay in memory: several boards and reports read the same runs


class SiteStore(Store):
    """The runs and scores of a store at one moment; `problems` says, by file, what is wrong with those left out.

    `lacks_files`: one of them could not be read, and may be readable at the next moment.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store.url, tell=_quiet, config=store.config)
        self.problems: dict[str, str] = {}
        self.lacks_files = False
        self._footers: dict[str, Footer] | None = None
        self._scores: list[Scores] | None = None
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
        except Unusable as error:
            self.leave_out(row_name(key), error)
            raise
        self._rows[key] = rows
        self._size += rows.table.nbytes
        while self._size > KEPT and len(self._rows) > 1:
            self._size -= self._rows.popitem(last=False)[1].table.nbytes
        return rows

    def scores(self, benchmark: str | None = None) -> list[Scores]:
        if self._scores is None:
            listing = self.files.listing(FOLDER, SUFFIX)
            self.problems |= listing.odd
            self._scores = self._usable(sorted(listing.stamps), self.scores_in, self.leave_out)
        return [scores for scores in self._scores if benchmark in (None, scores.benchmark)]

    def without_damage(self) -> None:
        """Reads every run and leaves out those that cannot be read."""
        for key in list(self.footers()):
            try:
                self.read(key)
            except HoldfastError:  # or it is gone meanwhile
                del self.footers()[key]

    @property
    def under_way(self) -> int:
        """How many runs have finished parts but no rows yet."""
        keys = {name.split("/")[1] for name in self.files.names("parts", SUFFIX)}
        return len(keys - set(self.footers()))

    def _listed(self) -> dict[str, Footer]:
        try:
            footers = super().footers()
        except CannotRead:  # of the folder: a site without any run would mislead
            raise
        except HoldfastError as error:
            self.problems["rows"] = error.problem
            return {}
        for name, why in self.damaged().items():
            self.leave_out(name, why)
        return footers

    def leave_out(self, name: str, error: Unusable) -> None:
        self.problems[name] = error.problem
        self.lacks_files |= isinstance(error, CannotRead)


def stamp(store: Store) -> str:
    """Changes whenever a run is finished, or scores or pictures are added."""
    summed = hashlib.sha256()
    for folder in ("rows", FOLDER, GALLERIES):
        listing = store.files.listing(folder, SUFFIX)
        for name, mark in sorted({**listing.stamps, **listing.odd}.items()):
            summed.update(f"{name} {mark}\n".encode())
    names = store.names()
    summed.update(repr((sorted(names.models.items()), sorted(names.datasets.items()))).encode())
    return summed.hexdigest()[:16]


def _quiet(problem: str) -> None:
    """`problems` has it."""
