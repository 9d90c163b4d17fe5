"""Boards: the scores of a suite for every model that has them, printed in a paper, imported, or measured here.

A mean over missing cells is never shown as a score: the cell says how many there are of how many, and the entry is
marked incomplete.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson, z_value
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.averages import mean_of
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength, battery, competitiveness, knowledge
from holdfast.metrics.stability import stability
from holdfast.metrics.summary import lines
from holdfast.store.published import published
from holdfast.store.scores import Scores
from holdfast.store.store import Store

BEST = "acc*"
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Cell(NamedTuple):
    """One score of an entry. Without a `score`, `have` of the `of` results that it needs are there.

    The interval and n of a score are NaN and 0 where nobody said how many samples it rests on.
    """

    score: Score | None
    have: int
    of: int
    source: str
    is_partial: bool = False


NOTHING = Cell(None, 0, 0, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """A model on a board. `origin` is `published`, `imported` or `measured`; `rank` None without a score to sort by."""

    model: str
    origin: str
    cells: Mapping[str, Cell]
    facts: Mapping[str, str]
    rank: int | None = None

    @property
    def is_complete(self) -> bool:
        return all(cell.score is not None for cell in self.cells.values())

    @property
    def missing(self) -> str:
        """What an incomplete entry lacks, in words: `ood-d-robustness 12 of 79, ood-robustness`."""
        lacking = [(name, cell) for name, cell in self.cells.items() if cell.score is None]
        return ", ".join(f"{name} {cell.have} of {cell.of}" if cell.of else name for name, cell in lacking)


@dataclass(frozen=True, slots=True)
class Board:
    """The entries of a suite, best first; those without the score to sort by come last."""

    suite: str
    title: str
    columns: tuple[Column, ...]
    sort: str
    entries: tuple[Entry, ...]

    def complete(self) -> Board:
        """Without the entries that lack a score."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.is_complete))

    def records(self) -> list[dict[str, object]]:
        """One record per score, for programs: fractions, with interval, n, counts and source."""
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
                "source": cell.source,
            }
            for entry in self.entries
            for column in self.columns
            for cell in (entry.cells[column.name],)
        ]


def board(
    suite: Suite, store: Store | None = None, *, sort: str | None = None, spelled: Callable[[str], str] = str
) -> Board:
    """The board of a suite: what its papers print, then what the store holds.

    `spelled` turns the scenarios of the suite into the texts that rows carry.
    """
    if not suite.board:
        raise Misuse(f"suite `{suite.name}` declares no board", hint="give it columns, each under [[board]]")
    by = sort or suite.sort
    names = [column.name for column in suite.board]
    if by not in names:
        raise Misuse(f"the board of `{suite.name}` has no score `{by}`", hint=f"there are: {', '.join(names)}")
    entries = [entry for name in suite.published for entry in _listed(suite, published(name), "published")]
    if store is not None:
        for name in dict.fromkeys((*suite.published, suite.name)):
            entries += [entry for scores in store.scores(name) for entry in _listed(suite, scores, "imported")]
        entries += _measured(suite, store, spelled)
    direction = next(column.better for column in suite.board if column.name == by)
    return Board(suite.name, suite.title, suite.board, by, tuple(_ranked(entries, by, direction)))


def _listed(suite: Suite, scores: Scores, origin: str) -> Iterator[Entry]:
    """The models of a table; a score under the column's own name counts as it is."""
    table = scores.table
    made: dict[str, Stack] = {}
    for column in suite.board:
        made[column.name] = _stacked(column, scores, made, with_terms=origin == "imported")
    special = [column for column in suite.board if column.score and BEST in table.models]
    for i, model in enumerate(table.models):
        if model == BEST:
            continue
        cells = {name: stack.cell(i, table, model, name) for name, stack in made.items()}
        for column in special:
            if cells[column.name].score is None:
                cells[column.name] = _special(column, table, model)
        if any(cell.score is not None or cell.have for cell in cells.values()):
            yield Entry(model, origin, cells, table.facts.get(model, {}))


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
        combined = _mean(parts)._replace(have=_sum([p.have for p in parts]), of=_sum([p.of for p in parts]))
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
    wanted = {text: spelled(text) for column in suite.board for term in column.scenarios for text in term}
    found: dict[str, dict[str, Score]] = {}
    partial: dict[str, set[str]] = {}
    facts: dict[str, dict[str, str]] = {}
    for line in lines(store, scenarios=list(wanted.values())) if wanted else ():
        footer = line.footer
        found.setdefault(footer.model, {})[footer.scenario] = line.accuracy
        facts[footer.model] = {"source": footer.card.source, "trained_on": footer.card.trained_on}
        if footer.is_partial:
            partial.setdefault(footer.model, set()).add(footer.scenario)
    made = []
    for model, scores in found.items():
        cells: dict[str, Cell] = {}
        for column in suite.board:
            terms = tuple(tuple(wanted[text] for text in term) for term in column.scenarios)
            cell = _combined(column, terms, scores, cells)
            rests = {text for term in terms for text in term} & partial.get(model, set())
            inherited = any(cells[name].is_partial for name in column.of)
            cells[column.name] = cell._replace(is_partial=bool(rests) or inherited, source="measured here")
        made.append(Entry(model, "measured", cells, facts[model]))
    return made


def _combined(
    column: Column, terms: tuple[tuple[str, ...], ...], scores: Mapping[str, Score], made: Mapping[str, Cell]
) -> Cell:
    """The mean of the terms, each a mean, or of other columns; no score where one is missing."""
    if column.of:
        parts = [made[name] for name in column.of]
        have, of = sum(part.have for part in parts), sum(part.of for part in parts)
        if any(part.score is None for part in parts):
            return Cell(None, have, of, "")
        return Cell(
            mean_of([part.score for part in parts]), have, of, "; ".join(dict.fromkeys(p.source for p in parts))
        )
    names = [name for term in terms for name in term]
    have = sum(name in scores for name in names)
    if not names or have < len(names):
        return Cell(None, have, len(names), "")
    return Cell(mean_of([mean_of([scores[name] for name in term]) for term in terms]), have, have, "")


def _special(column: Column, table: Table, model: str) -> Cell:
    """A score that is no mean, from an imported table; refused where a cell is missing."""
    cells = battery_of(table, model, tuple(name for term in column.settings for name in term))
    if cells is None:
        return NOTHING
    have = len(cells) - cells.missing
    if cells.missing:
        return Cell(None, have, len(cells), "")
    if column.score not in SCORES:
        raise HoldfastError(f"no score named `{column.score}`", hint=f"there are: {', '.join(SCORES)}")
    return Cell(SCORES[column.score](cells, table.facts.get(model, {})), have, have, table.source)


def battery_of(table: Table, model: str, attacks: tuple[str, ...]) -> Battery | None:
    """The cells `Attack/strength` of a model beside those of `acc*`, over the attacks named; None without `acc*`."""
    if BEST not in table.models:
        return None
    return battery(_strengths(table, model, attacks), _strengths(table, BEST, attacks))


def _strengths(table: Table, model: str, attacks: tuple[str, ...]) -> dict[Strength, float]:
    row = table.models.index(model)
    found: dict[Strength, float] = {}
    for j, setting in enumerate(table.settings):
        attack, _, strength = setting.partition("/")
        value = float(table.values[row, j])
        if attack in attacks and not math.isnan(value):
            found[Strength(attack, float(strength)) if strength else CLEAN] = value
    return found


def _trained(facts: Mapping[str, str]) -> dict[str, float]:
    return {name: float(strength) for name, strength in json.loads(facts.get("attacks_used", "{}")).items()}


def _seen(cells: Battery, facts: Mapping[str, str]) -> Score:
    return Score(knowledge(cells.entries, _trained(facts)).share, math.nan, math.nan, 0)


SCORES: dict[str, Callable[[Battery, Mapping[str, str]], Score]] = {
    "cr-ind-avg": lambda cells, _: competitiveness(cells).average,
    "cr-ind-worst": lambda cells, _: competitiveness(cells).individual_worst,
    "stability-constant": lambda cells, facts: stability(cells, _trained(facts)).constant,
    "attacks-seen": _seen,
}


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
