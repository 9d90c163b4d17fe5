"""Boards: the scores of a suite for every model that has them, printed in a paper, imported, or measured here.

A mean over missing cells is never shown as a score: the cell says how many there are of how many, and the entry is
marked incomplete. What is no mean is made in `metrics.columns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse, unknown
from holdfast.core.intervals import wilson, z_value
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.averages import mean_of
from holdfast.metrics.columns import (
    ABOVE,
    BEST,
    OVER_RADII,
    RATIOS,
    Runs,
    above_line,
    made_of,
    ratio_of,
    strengths_of,
    trained_as_said,
)
from holdfast.metrics.multi_attack import Battery, battery
from holdfast.metrics.summary import lines
from holdfast.store.published import benchmarks, published
from holdfast.store.scores import Scores
from holdfast.store.store import Store

__all__ = ["BEST", "Board", "Cell", "Entry", "battery_of", "board", "score_of"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Cell(NamedTuple):
    """One score of an entry. Without a `score`, `have` of the `of` results that it needs are there.

    The interval and n of a score are NaN and 0 where nobody said how many samples it rests on. `note` says what else
    than missing results is in the way of a score.
    """

    score: Score | None
    have: int
    of: int
    source: str
    is_partial: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A model on a board. `origin` is `published`, `imported` or `measured`; `rank` None without a score to sort by.

    `details` are cells that an entry may lack and still be complete.
    """

    model: str
    origin: str
    cells: Mapping[str, Cell]
    facts: Mapping[str, str]
    rank: int | None = None
    details: Mapping[str, Cell] = field(default_factory=dict)

    def cell(self, name: str) -> Cell:
        return self.cells[name] if name in self.cells else self.details[name]

    @property
    def is_complete(self) -> bool:
        return all(cell.score is not None for cell in self.cells.values())

    @property
    def missing(self) -> str:
        """What an incomplete entry lacks, in words: `ood-d-robustness 12 of 79, ood-robustness`."""
        return ", ".join(_lack(name, cell) for name, cell in self.cells.items() if cell.score is None)


@dataclass(frozen=True, slots=True)
class Board:
    """The entries of a suite, best first; those without the score to sort by come last."""

    suite: str
    title: str
    columns: tuple[Column, ...]
    sort: str
    entries: tuple[Entry, ...]
    details: tuple[Column, ...] = ()

    def complete(self) -> Board:
        """Without the entries that lack a score."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.is_complete))

    def records(self) -> list[dict[str, object]]:
        """One record per score, for programs: fractions, with interval, n, counts and source; details where begun."""
        return [
            {
                "rank": entry.rank,
                "model": entry.model,
                "origin": entry.origin,
                "score": column.name,
                "unit": column.unit,
                "value": None if cell.score is None else cell.score.value,
                "low": None if cell.score is None or not cell.score.n else cell.score.low,
                "high": None if cell.score is None or not cell.score.n else cell.score.high,
                "n": None if cell.score is None else cell.score.n or None,
                "have": cell.have,
                "of": cell.of,
                "complete": entry.is_complete,
                "detail": column.detail,
                "source": cell.source,
                "note": cell.note,
            }
            for entry in self.entries
            for column in (*self.columns, *self.details)
            for cell in (entry.cell(column.name),)
            if not column.detail or cell.have or cell.score is not None
        ]


def _lack(name: str, cell: Cell) -> str:
    if cell.note:
        return f"{name} ({cell.note})"
    return f"{name} {cell.have} of {cell.of}" if cell.of else name


def board(
    suite: Suite, store: Store | None = None, *, sort: str | None = None, spelled: Callable[[str], str] = str
) -> Board:
    """The board of a suite: what its papers print, then what the store holds, imported and measured.

    `spelled` turns the scenarios of the suite into the texts that rows carry.
    """
    if not suite.board:
        raise Misuse(f"suite `{suite.name}` declares no board", hint="give it columns, each under [[board]]")
    by = sort or suite.sort
    names = [column.name for column in suite.board]
    if by not in names:
        raise Misuse(f"the board of `{suite.name}` has no score `{by}`", hint=f"there are: {', '.join(names)}")
    _check_scores(suite)
    printed = [name for name in suite.published if name in benchmarks()]
    entries = [entry for name in printed for entry in _listed(suite, published(name), "published")]
    if store is not None:
        for name in dict.fromkeys((*suite.published, suite.name)):
            entries += [entry for scores in store.scores(name) for entry in _listed(suite, scores, "imported")]
        entries += _measured(suite, store, spelled)
    direction = next(column.better for column in suite.board if column.name == by)
    details = {column.name for column in suite.board if column.detail}
    main, more = (tuple(c for c in suite.board if (c.name in details) is wanted) for wanted in (False, True))
    ranked = tuple(_parted(entry, details) for entry in _ranked(entries, by, direction))
    return Board(suite.name, suite.title, main, by, ranked, more)


def _parted(entry: Entry, details: set[str]) -> Entry:
    cells, more = ({n: c for n, c in entry.cells.items() if (n in details) is wanted} for wanted in (False, True))
    return replace(entry, cells=cells, details=more)


def _check_scores(suite: Suite) -> None:
    for column in suite.board:
        if column.score and column.score not in (*RATIOS, ABOVE, OVER_RADII):
            name = parse_ref(column.score).name
            known = registry.entries("metric")
            if name not in known:
                raise unknown("score or metric", column.score, [*RATIOS, ABOVE, OVER_RADII, *known])


def _listed(suite: Suite, scores: Scores, origin: str) -> Iterator[Entry]:
    """The models of a table; a score under the column's own name counts as it is."""
    table = scores.table
    made: dict[str, Stack] = {}
    for column in suite.board:
        made[column.name] = _stacked(column, scores, made, with_terms=origin == "imported")
    special = [column for column in suite.board if column.score in (*RATIOS, OVER_RADII) and BEST in table.models]
    for i, model in enumerate(table.models):
        if model == BEST:
            continue
        cells: dict[str, Cell] = {}
        for column in suite.board:
            cell = made[column.name].cell(i, table, model, column.name)
            if cell.score is not None and not made[column.name].is_own[i] and column.of:
                cell = cell._replace(source=_sources(column, cells))
            cells[column.name] = cell
        for column in special:
            if cells[column.name].score is None:
                cells[column.name] = _special(column, table, model)
        if any(cell.score is not None or cell.have for cell in cells.values()):
            yield Entry(model, origin, cells, table.facts.get(model, {}))


def _sources(column: Column, cells: Mapping[str, Cell]) -> str:
    """Where the columns that a column is made of come from, and whose line it is placed on."""
    said = dict.fromkeys(cells[name].source for name in column.of)
    return "; ".join([*filter(None, said), *([f"line: {column.line}"] if column.line else [])])


class Stack(NamedTuple):
    """One column of a board for all models of a table: values and bounds, NaN where there are none, and counts."""

    value: Floats
    low: Floats
    high: Floats
    n: Counts
    have: Counts
    of: Counts
    is_own: NDArray[np.bool_]

    def cell(self, i: int, table: Table, model: str, name: str) -> Cell:
        have, of = int(self.have[i]), int(self.of[i])
        if math.isnan(self.value[i]):
            return Cell(None, have, of, "")
        source = table.source_of(model, name) if self.is_own[i] else table.source
        n = int(self.n[i])
        bounds = (float(self.low[i]), float(self.high[i])) if n else (math.nan, math.nan)
        return Cell(Score(float(self.value[i]), *bounds, n), have, of, source)


def _stacked(column: Column, scores: Scores, made: Mapping[str, Stack], *, with_terms: bool) -> Stack:
    table = scores.table
    combined = _nothing(len(table.models))
    if column.of:
        parts = [made[name] for name in column.of]
        mean = _above(column, parts) if column.score == ABOVE else _mean(parts)
        combined = mean._replace(have=_sum([p.have for p in parts]), of=_sum([p.of for p in parts]))
    elif with_terms and column.settings and not column.score:
        found = [[_own(scores, name) for name in term] for term in column.settings]
        every = [each for term in found for each in term]
        total = np.full(len(table.models), len(every))
        combined = _mean([_mean(term) for term in found])._replace(have=_sum([e.have for e in every]), of=total)
    if column.name not in table.settings:
        return combined
    own = _own(scores, column.name)
    has = ~np.isnan(own.value)
    return Stack(*(np.where(has, one, other) for one, other in zip(own, combined, strict=True)))


def _own(scores: Scores, name: str) -> Stack:
    """A setting as it stands, with intervals where it is a share and its counts are known."""
    table = scores.table
    if name not in table.settings:
        return _nothing(len(table.models))
    value, n = table.column(name), table.count(name)
    if scores.unit(name) not in ("percent", "fraction"):
        n = np.zeros_like(n)
    low, high = _wilson(value, n)
    has = (~np.isnan(value)).astype(np.int64)
    return Stack(value, low, high, n * has, has, has, has.astype(bool))


def _mean(stacks: Sequence[Stack]) -> Stack:
    """The mean of columns, NaN where one is missing; bounds and n as `averages.mean_of` has them."""
    value, low, high = (np.mean([getattr(each, part) for each in stacks], axis=0) for part in ("value", "low", "high"))
    n = np.min([each.n for each in stacks], axis=0)
    return _nothing(len(value))._replace(value=value, low=low, high=high, n=n)


def _above(column: Column, stacks: Sequence[Stack]) -> Stack:
    shifted, *standard = ((each.value, each.low, each.high) for each in stacks)
    value, low, high = above_line(column, shifted, standard)
    n = np.min([each.n for each in stacks], axis=0)
    return _nothing(len(value))._replace(value=value, low=low, high=high, n=n)


def _nothing(models: int) -> Stack:
    empty, none = np.full(models, np.nan), np.zeros(models, dtype=np.int64)
    return Stack(empty, empty, empty, none, none, none, none.astype(bool))


def _sum(counts: Sequence[Counts]) -> Counts:
    return np.asarray(np.sum(counts, axis=0), dtype=np.int64)


def _wilson(value: Floats, n: Counts) -> tuple[Floats, Floats]:
    """`core.intervals.wilson` over an array; NaN where n is 0. A printed share is never outside its bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = z_value()
        share = np.round(value * n) / n
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low, high = np.where(share == 0, 0, centre - half), np.where(share == 1, 1, centre + half)
    return np.minimum(low, value), np.maximum(high, value)


def _measured(suite: Suite, store: Store, spelled: Callable[[str], str]) -> list[Entry]:
    texts = {text for column in suite.board for term in column.scenarios for text in (*term, column.reference) if text}
    wanted = {text: spelled(text) for text in texts}
    found: dict[str, Runs] = {}
    for line in lines(store, scenarios=list(wanted.values())) if wanted else ():
        found.setdefault(line.footer.model, Runs(store)).lines[line.footer.scenario] = line
    named = [scores.table for name in dict.fromkeys((*suite.published, suite.name)) for scores in store.scores(name)]
    best = next((table for table in named if BEST in table.models), None)
    made = []
    for model, runs in found.items():
        cells: dict[str, Cell] = {}
        for column in suite.board:
            cells[column.name] = _own_cell(column, runs, best, wanted, cells)
        runs.read.clear()
        card = next(iter(runs.lines.values())).footer.card
        made.append(Entry(model, "measured", cells, {"source": card.source, "trained_on": card.trained_on}))
    return made


def _own_cell(
    column: Column, runs: Runs, best: Table | None, spelled: Mapping[str, str], cells: Mapping[str, Cell]
) -> Cell:
    """A column of a model measured here; no score where a result is missing."""
    if not column.of:
        made = made_of(column, runs, best, spelled.__getitem__)
        rests = [runs.lines[spelled[text]] for term in column.scenarios for text in term if spelled[text] in runs.lines]
        partial = any(line.footer.is_partial for line in rests)
        return Cell(made.score, made.have, made.of, made.source, is_partial=partial, note=made.note)
    parts = [cells[name] for name in column.of]
    scores = [part.score for part in parts if part.score is not None]
    notes = "; ".join(dict.fromkeys(part.note for part in parts if part.note))
    cell = Cell(
        None,
        sum(part.have for part in parts),
        sum(part.of for part in parts),
        _sources(column, cells),
        is_partial=any(part.is_partial for part in parts),
        note=notes,
    )
    if len(scores) < len(parts):
        return cell
    if column.score != ABOVE:
        return cell._replace(score=mean_of(scores))
    shifted, *standard = ((np.array([each.value]), np.array([each.low]), np.array([each.high])) for each in scores)
    value, low, high = (float(part[0]) for part in above_line(column, shifted, standard))
    if math.isnan(value):
        return cell._replace(note="an accuracy of 0 or 1 has no place on the line")
    return cell._replace(score=Score(value, low, high, min(each.n for each in scores)))


def _special(column: Column, table: Table, model: str) -> Cell:
    """A score over the strengths of attacks, from an imported table; refused where a cell is missing."""
    attacks = tuple(name for term in column.settings for name in term)
    cells = battery_of(table, model, attacks)
    if cells is None:
        return Cell(None, 0, 0, "")
    have = len(cells) - cells.missing
    if cells.missing:
        return Cell(None, have, len(cells), "")
    if column.score == OVER_RADII:
        return Cell(Score(float(cells.accuracies.mean()), math.nan, math.nan, 0), have, have, table.source)
    return Cell(ratio_of(column.score, cells, trained_as_said(table.facts.get(model, {}))), have, have, table.source)


def battery_of(table: Table, model: str, attacks: tuple[str, ...]) -> Battery | None:
    """The cells `Attack/strength` of a model beside those of `acc*`, over the attacks named; None without `acc*`."""
    if BEST not in table.models:
        return None
    return battery(strengths_of(table, model, attacks), strengths_of(table, BEST, attacks))


def score_of(value: float, n: int, unit: str) -> Score:
    """A number with its interval where it is a share and its count is known."""
    if n and unit in ("percent", "fraction"):
        bounds = wilson(round(value * n), n)
        return Score(value, min(bounds.low, value), max(bounds.high, value), n)
    return Score(value, math.nan, math.nan, 0)


def _ranked(entries: Iterable[Entry], by: str, better: str) -> list[Entry]:
    sign = 1 if better == "lower" else -1
    kept = list(entries)
    scored = [(cell.score.value, entry) for entry in kept if (cell := entry.cells[by]).score is not None]
    scored.sort(key=lambda pair: (sign * pair[0], pair[1].model))
    values = [value for value, _ in scored]
    ranked = [replace(entry, rank=values.index(value) + 1) for value, entry in scored]
    return ranked + sorted((entry for entry in kept if entry.cells[by].score is None), key=lambda entry: entry.model)
