"""What a shift costs models measured here: on the samples that both runs hold, as their reports have it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.boards.entries import MEASURED
from holdfast.core.errors import HoldfastError
from holdfast.core.suites import Suite
from holdfast.core.types import Score
from holdfast.metrics.compare import compare
from holdfast.metrics.means import mean_of
from holdfast.site.plots.plot import json_number
from holdfast.site.plots.points import BOARD, BoardPoints
from holdfast.store.files import Unusable
from holdfast.store.store import Store


class Losses:
    """Differences between the runs of a board, sample by sample."""

    def __init__(self, points: BoardPoints, suite: Suite, store: Store) -> None:
        self.points, self.store = points, store
        self.index = {name: i for i, entry in enumerate(points.entries) for name in entry.names}
        self.runs: dict[str, dict[str, str]] = {}
        for line in points.lines:
            self.runs.setdefault(line.footer.model, {})[line.footer.scenario] = line.footer.key
        self.columns = {
            column.name: [list(term) for term in column.scenarios]
            for column in suite.board
            if not column.score and column.scenarios
        }
        self.composed = {column.name for column in suite.board if column.of}

    def of(self, axis: int, reference: int) -> dict[int, list[float | None]]:
        """By point, value and bounds of the difference; nothing where no sample is in both."""
        before = [self._scenario(name) for name in self.points.axes[reference].names]
        differences: dict[int, list[float | None]] = {}
        for model, runs in self.runs.items():
            i = self.index[model]
            shifted = self._shifted(axis, runs)
            clean = next((name for name in before if name in runs), None)
            if not shifted or clean is None or not self._is_measured(axis, i):
                continue
            score = self._difference([[runs[name] for name in term] for term in shifted], runs[clean])
            if score is not None:
                differences[i] = [json_number(score.value), json_number(score.low), json_number(score.high)]
        return differences | {i: [None] * 3 for i in self._uneven(axis, reference) if i not in differences}

    def _uneven(self, axis: int, reference: int) -> list[int]:
        """Points measured here whose mean over columns rests on other samples than its reference: no difference."""
        one, other = self.points.axes[axis], self.points.axes[reference]
        if not one.names & self.composed:
            return []
        own = {self.index[model] for model in self.runs}
        return [i for i in own if self._is_measured(axis, i) and one.counts[i] != other.counts[i]]

    def _scenario(self, name: str) -> str:
        """The scenario of a name of an axis: itself, or the one that a column is of."""
        terms = self.columns.get(name, [])
        return terms[0][0] if len(terms) == 1 == len(terms[0]) else name

    def _shifted(self, axis: int, runs: dict[str, str]) -> list[list[str]]:
        """The scenarios of an axis, in the terms of its mean, where all of them were measured."""
        for name in self.points.axes[axis].names:
            terms = self.columns.get(name, [[name]])
            if all(text in runs for term in terms for text in term):
                return terms
        return []

    def _is_measured(self, axis: int, i: int) -> bool:
        """Whether the axis shows what was measured of this point, not what others publish of it."""
        one = self.points.axes[axis]
        if one.group != BOARD:
            return True
        cells = self.points.entries[i].cells
        return all(cells[name].origin == MEASURED for name in one.names if name in cells)

    def _difference(self, shifted: Sequence[Sequence[str]], clean: str) -> Score | None:
        try:
            before = self.store.read(clean)
            return mean_of(
                [mean_of([compare(self.store.read(key), before).difference for key in term]) for term in shifted]
            )
        except Unusable:
            raise
        except HoldfastError:  # no sample in common, or other labels: the scores stand for themselves
            return None
