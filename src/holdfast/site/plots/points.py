"""Every model of a board as a point, with all that it scored: columns of the board, settings, scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.boards.column_scores import BEST
from holdfast.boards.entries import IMPORTED, PUBLISHED, Board, BoardEntry
from holdfast.boards.suite_board import tables_of
from holdfast.core.json_text import attributes
from holdfast.core.suites import Column, Suite
from holdfast.core.types import Score
from holdfast.metrics.summary import Line, lines
from holdfast.site.plots.plot import json_numbers
from holdfast.store.published import benchmarks, published
from holdfast.store.scores import Scores
from holdfast.store.store import Store
from holdfast.store.stored_names import stored_scenarios
from holdfast.trends.testbed import VAL

Floats = NDArray[np.float64]
SHARES = ("percent", "fraction")
SWEEP = "sweep"  # its accuracy is that at the largest radius; its curve is drawn with the attacks
BEYOND = "effective-robustness"
LONG_FACT = 40
COLOURS = (2, 12)  # how many different values a fact may have for colours to tell them apart
NOTHING = Score(math.nan, math.nan, math.nan, 0)
SETTINGS, SCENARIOS, BOARD, DETAILS = "settings", "scenarios", "board", "details"


class Bounds(NamedTuple):
    """An interval per point; NaN where there is none."""

    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScoreAxis:
    """One score of every point, a fraction, NaN where there is none.

    `names` are the settings and scenarios it is the score of. Where `bounds` is None, the interval follows from
    `counts`, the samples behind each score.
    """

    title: str
    group: str
    names: frozenset[str]
    is_reference: bool
    values: Floats
    counts: NDArray[np.int64]
    bounds: Bounds | None = None
    sources: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return int(np.isfinite(self.values).sum())


@dataclass(frozen=True, slots=True, eq=False)
class BoardPoints:
    """The models of a board, one point per entry, and their scores.

    `lines` are the runs of measured models, `home` the suite's own dataset as runs name it.
    """

    entries: tuple[BoardEntry, ...]
    axes: tuple[ScoreAxis, ...]
    sources: tuple[str, ...]
    lines: tuple[Line, ...]
    home: str

    def __len__(self) -> int:
        return len(self.entries)

    def axis_of(self, name: str) -> int | None:
        """The axis of a column, a setting or a scenario."""
        return next((i for i, axis in enumerate(self.axes) if name in axis.names), None)

    def record(self) -> dict[str, object]:
        """Columns, as compact as JSON has them."""
        of_cells = (text for axis in self.axes for text in axis.sources)
        texts = {text: i for i, text in enumerate(dict.fromkeys((*self.sources, *of_cells)))}
        return {
            "models": [entry.model for entry in self.entries],
            "origins": [entry.origin for entry in self.entries],
            "facts": _telling(self.entries),
            "sources": list(texts),
            "source": [texts[text] for text in self.sources],
            "axes": [_axis_record(axis, texts) for axis in self.axes],
        }


def points_of(suite: Suite, shown: Board, store: Store) -> BoardPoints:
    """What the board shows, and all settings and scenarios behind it."""
    entries = shown.entries
    models = [name for entry in entries if entry.has_rows for name in entry.names]
    measured = lines(store, models=models, scenarios=suite.scenarios) if models else []
    same = {
        setting: scenario
        for part in suite.parts
        for setting, scenario in zip(part.settings, part.scenarios, strict=bool(part.settings))
    }
    home = stored_scenarios(store, [suite.dataset])[suite.dataset]
    axes = [_column_axis(column, entries, suite, home) for column in shown.every_column if column.unit in SHARES]
    tables = list(_tables(suite, store))
    axes += _settings_axes(entries, tables, same, taken={name for axis in axes for name in axis.names})
    axes += _scenario_axes(entries, measured, axes)
    sources = _entry_sources(entries, tables)
    return BoardPoints(entries, tuple(axis for axis in axes if axis.n), sources, tuple(measured), home)


def _tables(suite: Suite, store: Store) -> Iterator[tuple[str, Scores]]:
    for name in suite.published:
        if name in benchmarks():  # others are named for what can be imported
            yield PUBLISHED, published(name)
    for name in tables_of(suite):
        for scores in store.scores(name):
            yield IMPORTED, scores


def _column_axis(column: Column, entries: Sequence[BoardEntry], suite: Suite, home: str) -> ScoreAxis:
    cells = [entry.cell(column.name) for entry in entries]
    scores = [NOTHING if cell.score is None else cell.score for cell in cells]
    value, low, high = (np.array([getattr(score, part) for score in scores]) for part in ("value", "low", "high"))
    alone = [terms[0][0] for terms in (column.scenarios, column.settings) if len(terms) == 1 == len(terms[0])]
    stands_for = set() if column.score else set(alone)
    return ScoreAxis(
        column.title or column.name,
        DETAILS if column.detail else BOARD,
        frozenset({column.name, *stands_for}),
        _is_reference(column.name) or home in alone or column.name in reference_columns(suite),
        value,
        np.array([score.n for score in scores], dtype=np.int64),
        Bounds(low, high),
        tuple(cell.source for cell in cells),
    )


def reference_columns(suite: Suite) -> set[str]:
    """The columns that effective robustness is measured from."""
    return {name for column in suite.board if column.score == BEYOND for name in column.of[1:]}


def _settings_axes(
    entries: Sequence[BoardEntry], tables: Sequence[tuple[str, Scores]], same: Mapping[str, str], *, taken: set[str]
) -> list[ScoreAxis]:
    """A setting of any table, over all tables that have it; `same` are the scenarios that measure a setting here."""
    names = dict.fromkeys(
        name
        for _, scores in tables
        for name in scores.table.settings
        if scores.unit(name) in SHARES and name not in taken
    )
    index = {name: j for j, name in enumerate(names)}
    values = np.full((len(entries), len(index)), np.nan)
    counts = np.zeros(values.shape, dtype=np.int64)
    for origin, scores in tables:
        table = scores.table
        row = {model: i for i, model in enumerate(table.models)}
        kept = [
            (i, row[name])
            for i, entry in enumerate(entries)
            for name in entry.names
            if origin in entry.every_origin and name in row and name != BEST
        ]
        own = [(index[name], j) for j, name in enumerate(table.settings) if name in index]
        if kept and own:
            here, there = (np.ix_([k[side] for k in kept], [k[side] for k in own]) for side in (0, 1))
            known = np.isfinite(table.values[there])
            values[here] = np.where(known, table.values[there], values[here])
            counts[here] = np.where(known, table.counts[there], counts[here])
    return [
        ScoreAxis(
            name, SETTINGS, frozenset({name, same.get(name, name)}), _is_reference(name), values[:, j], counts[:, j]
        )
        for name, j in index.items()
    ]


def _scenario_axes(
    entries: Sequence[BoardEntry], measured: Sequence[Line], axes: Sequence[ScoreAxis]
) -> list[ScoreAxis]:
    """An axis for every scenario that is on none yet; scores of scenarios that settings stand for go to theirs."""
    index = {name: i for i, entry in enumerate(entries) for name in entry.names}
    known = {name: axis for axis in axes for name in axis.names}
    made: dict[str, ScoreAxis] = {}
    for line in measured:
        scenario = line.footer.scenario
        if any(change.name == SWEEP for change in line.footer.changes):
            continue
        axis = known.get(scenario)
        if axis is None:
            values, counts = np.full(len(entries), np.nan), np.zeros(len(entries), dtype=np.int64)
            axis = made[scenario] = known[scenario] = ScoreAxis(
                scenario, SCENARIOS, frozenset({scenario}), False, values, counts
            )
        is_known = math.isfinite(axis.values[index[line.footer.model]])
        if axis.group not in (BOARD, DETAILS) and not (is_known and line.footer.is_partial):
            axis.values[index[line.footer.model]] = line.accuracy.value
            axis.counts[index[line.footer.model]] = line.accuracy.n
    return list(made.values())


def _is_reference(setting: str) -> bool:
    """Whether a setting is undisturbed: the testbed has its reference for every subset of classes."""
    return setting == VAL or setting.startswith((f"{VAL}-on-", "id-"))


def _entry_sources(entries: Sequence[BoardEntry], tables: Sequence[tuple[str, Scores]]) -> tuple[str, ...]:
    """Where the settings of each entry come from."""
    sources: dict[tuple[str, str], str] = {}
    for origin, scores in tables:
        table = scores.table
        for model in table.models:
            sources.setdefault((origin, model), table.source_of(model, table.settings[0]) if table.settings else "")

    def first(entry: BoardEntry) -> str:
        known = (sources.get((origin, name)) for origin in entry.every_origin for name in entry.names)
        return next(filter(None, known), "measured here" if entry.is_measured else "imported predictions")

    return tuple(map(first, entries))


def _axis_record(axis: ScoreAxis, texts: Mapping[str, int]) -> dict[str, object]:
    about = {**attributes(axis, "title", "group"), "reference": axis.is_reference}
    record: dict[str, object] = {**about, "values": json_numbers(axis.values)}
    counts = axis.counts[np.isfinite(axis.values)]
    if counts.any():
        record["n"] = int(counts[0]) if (counts == counts[0]).all() else axis.counts.tolist()
    if axis.bounds is not None and np.isfinite(axis.bounds.low).any():
        record["low"], record["high"] = json_numbers(axis.bounds.low), json_numbers(axis.bounds.high)
    if axis.sources:
        record["source"] = [texts[text] for text in axis.sources]
    return record


def _telling(entries: Sequence[BoardEntry]) -> dict[str, list[str]]:
    """The facts that part the models into a few groups."""
    least, most = COLOURS
    names = dict.fromkeys(name for entry in entries for name in entry.facts)
    values = {name: [entry.facts.get(name, "") for entry in entries] for name in names}
    return {
        name: texts
        for name, texts in values.items()
        if least <= len({text for text in texts if text}) <= most and max(map(len, texts)) <= LONG_FACT
    }
