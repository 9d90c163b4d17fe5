"""What is lost under each shift: a corruption and severity, a natural set or an attack, against its reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.boards.entries import MEASURED
from holdfast.core.errors import HoldfastError
from holdfast.core.suites import Suite
from holdfast.core.types import Score
from holdfast.core.values import number_text
from holdfast.metrics.compare import compare
from holdfast.metrics.means import mean_of
from holdfast.site.plots.plot import Plot, PlotInputs, board_plot, json_numbers
from holdfast.site.plots.points import BOARD, BoardPoints
from holdfast.site.plots.scatter import SCATTER, has_scatter, reference_of
from holdfast.store import ChangeRecord, Store
from holdfast.store.files import Unusable
from holdfast.trends.testbed import NATURAL, PGD, RENDERED, VAL, corruption_groups

SEVERITY, RADIUS = "severity", "radius"


class ShiftedScore(NamedTuple):
    """A shifted score: its axis and that of its reference. `level` is a severity or radius, or nothing."""

    measure: str
    shift: str
    level: str
    axis: int
    reference: int


@board_plot(order=4)
def degradation_plot(inputs: PlotInputs) -> Plot | None:
    """Bars and heat maps of what shifts cost; None where nothing has a reference."""
    suite, _, points, store = inputs
    if not has_scatter(inputs):
        return None
    measures: dict[str, dict[int, list[object]]] = {}
    losses = _Losses(points, suite, store)
    for cell in (*_of_settings(points), *_of_scenarios(points), *_of_board(points, suite)):
        own = measures.setdefault(cell.measure, {})
        if cell.axis not in own:
            own[cell.axis] = [cell.shift, cell.level, cell.axis, cell.reference, losses.of(cell.axis, cell.reference)]
    if not measures:
        return None
    return Plot(
        "degradation",
        "degradation",
        "What each shift costs",
        "Score under a shift minus the score of the same model without it, in percentage points; of models measured "
        "here on the samples that both runs hold. Levels of one shift are averaged in the bars, and apart in the map.",
        {
            "points": SCATTER,
            "measures": [{"title": title, "cells": [*some.values()]} for title, some in measures.items()],
        },
    )


def _of_scenarios(points: BoardPoints) -> Iterator[ShiftedScore]:
    """Of models measured here: corrupted and natural sets under one attack (or none) against the same attack alone."""
    footers = {line.footer.scenario: line.footer for line in points.lines}
    home = points.home
    for scenario, footer in footers.items():
        axis = points.axis_of(scenario)
        shifts = [change for change in footer.changes if change.kind != "attack"]
        attacks = [change for change in footer.changes if change.kind == "attack"]
        if axis is None or len(shifts) > 1:
            continue
        if shifts or footer.dataset != home:
            measure = f"Under {' + '.join(change.text for change in attacks)}" if attacks else "Accuracy"
            reference = points.axis_of("+".join([home, *(change.text for change in attacks)]))
            shift, level = (shifts[0].name, _level(shifts[0], SEVERITY)) if shifts else (footer.dataset, "")
            if shifts and footer.dataset != home:
                shift = f"{footer.dataset}, {shift}"
        elif attacks:
            measure, reference = "Attacks, against no attack", points.axis_of(home)
            shift, level = " + ".join(change.name for change in attacks), _level(attacks[-1], RADIUS)
        else:
            continue
        if reference is not None:
            yield ShiftedScore(measure, shift, level, axis, reference)


def _of_settings(points: BoardPoints) -> Iterator[ShiftedScore]:
    """Of the testbed's published results: all of its corruptions, natural sets and attacks."""
    named = [name for axis in points.axes for name in axis.names]
    listed = [
        ("Accuracy", group.replace("_", " "), str(level), name, VAL)
        for group, names in corruption_groups(named).items()
        for level, name in enumerate(names, start=1)
    ]
    listed += [("Accuracy", name.replace("_", " "), "", name, VAL) for name in RENDERED]
    listed += [("Accuracy", name, "", pair.y, pair.x) for name, pair in NATURAL.items()]
    listed += [("Attacks, against no attack", name, "", name, VAL) for name in PGD]
    for measure, shift, level, name, reference in listed:
        axis, other = points.axis_of(name), points.axis_of(reference)
        if axis is not None and other is not None:
            yield ShiftedScore(measure, shift, level, axis, other)


def _of_board(points: BoardPoints, suite: Suite) -> Iterator[ShiftedScore]:
    """Of every model of the board: the scores that are means over shifts."""
    means = {column.name for column in suite.board if not column.score}
    for i, axis in enumerate(points.axes):
        if axis.group == BOARD and not axis.is_reference and axis.names & means:
            reference = reference_of(points, i)
            if reference is not None:
                yield ShiftedScore("Scores of the board", axis.title, "", i, reference)


def _level(change: ChangeRecord, name: str) -> str:
    value = change.args.get(name)
    return number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


class _Losses:
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
                differences[i] = json_numbers([score.value, score.low, score.high])
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
