"""Entries of a board from tables: what papers print, and what was imported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.boards.column_scores import (
    ABOVE,
    BEST,
    LOWEST,
    OVER_RADII,
    above_line,
    is_ratio,
    published_training,
    ratio_of,
    strengths_of,
)
from holdfast.boards.entries import IMPORTED, BoardCell, BoardEntry
from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import share_intervals
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.multi_attack import Battery, battery
from holdfast.store.scores import Scores

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def table_entries(suite: Suite, scores: Scores, origin: str, *, best: Table | None = None) -> Iterator[BoardEntry]:
    """The models of a table; a score under the column's own name counts as it is.

    `best` has the best known accuracies under each attack, where the table has none.
    """
    table = scores.table
    made: dict[str, ColumnArrays] = {}
    for column in suite.board:
        made[column.name] = _column_arrays(column, scores, made, with_terms=origin == IMPORTED)
    best = table if BEST in table.models else best
    ratios = [column for column in suite.board if is_ratio(column.score) or column.score == OVER_RADII]
    special = [] if best is None else ratios
    for i, model in enumerate(table.models):
        if model == BEST and ratios:
            continue
        cells: dict[str, BoardCell] = {}
        for column in suite.board:
            cell = made[column.name].cell(i, table, model, column.name)
            if cell.score is not None and not made[column.name].is_own[i] and column.of:
                cell = cell._replace(source=sources_of(column, cells))
            cells[column.name] = cell
        for column in special:
            if cells[column.name].score is None:
                assert best is not None, "there are no such columns without it"
                cells[column.name] = _special(column, table, model, best)
        if any(cell.score is not None or cell.have for cell in cells.values()):
            known = {name: cell._replace(origin=origin) for name, cell in cells.items() if cell.score is not None}
            yield BoardEntry(model, origin, cells | known, table.facts.get(model, {}))


def sources_of(column: Column, cells: Mapping[str, BoardCell]) -> str:
    """Where the columns that a column is made of come from, and whose line it is placed on."""
    sources = dict.fromkeys(cells[name].source for name in column.of)
    return "; ".join([*filter(None, sources), *([f"line: {column.line}"] if column.line else [])])


class ColumnArrays(NamedTuple):
    """One column of a board for all models of a table: values and bounds, NaN where there are none, and counts."""

    value: Floats
    low: Floats
    high: Floats
    n: Counts
    have: Counts
    of: Counts
    is_own: NDArray[np.bool_]

    def cell(self, i: int, table: Table, model: str, name: str) -> BoardCell:
        have, of = int(self.have[i]), int(self.of[i])
        if math.isnan(self.value[i]):
            return BoardCell(None, have, of, "")
        source = table.source_of(model, name) if self.is_own[i] else table.source
        n = int(self.n[i])
        bounds = (float(self.low[i]), float(self.high[i])) if n else (math.nan, math.nan)
        return BoardCell(Score(float(self.value[i]), *bounds, n), have, of, source)


def _column_arrays(
    column: Column, scores: Scores, made: Mapping[str, ColumnArrays], *, with_terms: bool
) -> ColumnArrays:
    table = scores.table
    combined = _nothing(len(table.models))
    if column.of:
        parts = [made[name] for name in column.of]
        combine = {ABOVE: lambda: _above(column, parts), LOWEST: lambda: _lowest(parts)}
        combined = combine.get(column.score, lambda: _mean(parts))()
        combined = combined._replace(have=_sum([p.have for p in parts]), of=_sum([p.of for p in parts]))
    elif with_terms and column.settings and not column.score:
        terms = [[_setting_arrays(scores, name) for name in term] for term in column.settings]
        every = [each for term in terms for each in term]
        total = np.full(len(table.models), len(every))
        combined = _mean([_mean(term) for term in terms])._replace(have=_sum([e.have for e in every]), of=total)
    if column.name not in table.settings:
        return combined
    own = _setting_arrays(scores, column.name)
    has = ~np.isnan(own.value)
    return ColumnArrays(*(np.where(has, one, other) for one, other in zip(own, combined, strict=True)))


def _setting_arrays(scores: Scores, name: str) -> ColumnArrays:
    """A setting as it stands, with intervals where it is a share and its counts are known."""
    table = scores.table
    if name not in table.settings:
        return _nothing(len(table.models))
    value, n = table.column(name), table.count(name)
    if scores.unit(name) not in ("percent", "fraction"):
        n = np.zeros_like(n)
    low, high = share_intervals(value, n)
    has = (~np.isnan(value)).astype(np.int64)
    return ColumnArrays(value, low, high, n * has, has, has, has.astype(bool))


def _mean(columns: Sequence[ColumnArrays]) -> ColumnArrays:
    """The mean of columns, NaN where one is missing; bounds and n as `means.mean_of` has them: none of several."""
    if len(columns) == 1:
        return columns[0]
    value, n = (np.mean([e.value for e in columns], axis=0), np.min([e.n for e in columns], axis=0))
    return _nothing(len(value))._replace(value=value, n=n)


def _lowest(columns: Sequence[ColumnArrays]) -> ColumnArrays:
    """The lowest of the columns that a model has, with the bounds and n of that one."""
    values = np.array([each.value for each in columns])
    lowest = np.where(np.isnan(values), np.inf, values).argmin(axis=0)[None]
    value, low, high, n = (
        np.take_along_axis(np.array([getattr(each, part) for each in columns]), lowest, axis=0)[0]
        for part in ("value", "low", "high", "n")
    )
    return _nothing(values.shape[1])._replace(value=value, low=low, high=high, n=n)


def _above(column: Column, columns: Sequence[ColumnArrays]) -> ColumnArrays:
    shifted, *standard = ((each.value, each.low, each.high) for each in columns)
    value, low, high = above_line(column, shifted, standard)
    n = np.min([each.n for each in columns], axis=0)
    return _nothing(len(value))._replace(value=value, low=low, high=high, n=n)


def _nothing(models: int) -> ColumnArrays:
    empty, none = np.full(models, np.nan), np.zeros(models, dtype=np.int64)
    return ColumnArrays(empty, empty, empty, none, none, none, none.astype(bool))


def _sum(counts: Sequence[Counts]) -> Counts:
    return np.asarray(np.sum(counts, axis=0), dtype=np.int64)


def _special(column: Column, table: Table, model: str, best: Table) -> BoardCell:
    """A score over the strengths of attacks, from an imported table; refused where a cell is missing."""
    cells = battery_of(table, model, tuple(column.every_setting), best)
    have = len(cells) - cells.missing
    if not have or cells.missing:
        return BoardCell(None, have, len(cells) if have else 0, "")
    if column.score == OVER_RADII:
        return BoardCell(Score(float(cells.accuracies.mean()), math.nan, math.nan, 0), have, have, table.source)
    try:
        score = ratio_of(column.score, cells, published_training(table.facts.get(model, {})))
    except HoldfastError as error:
        return BoardCell(None, have, have, "", note=error.problem)
    return BoardCell(score, have, have, table.source)


def battery_of(table: Table, model: str, attacks: tuple[str, ...], best: Table) -> Battery:
    """The cells `Attack/strength` of a model beside those of `acc*` in `best`, over the attacks named."""
    return battery(strengths_of(table, model, attacks), strengths_of(best, BEST, attacks))
