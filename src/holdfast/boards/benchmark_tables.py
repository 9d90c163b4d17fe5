"""Benchmarks by name: their scores and boards, and all that is known of their models as one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.boards.board_list import named_board
from holdfast.boards.entries import MEASURED, Board, BoardCell
from holdfast.boards.suite_board import suite_board, tables_of
from holdfast.core.errors import unknown
from holdfast.core.suites import Suite, load_suite, suites
from holdfast.core.table import Table, table
from holdfast.core.types import Score
from holdfast.store.exporting import measured
from holdfast.store.files import Unusable
from holdfast.store.importing import together
from holdfast.store.published import benchmarks, published
from holdfast.store.scores import Scores
from holdfast.store.site_store import SiteStore
from holdfast.store.store import Store
from holdfast.trends.testbed import PGD, RENDERED, with_averages

POINTS = "points"
SHOWN = ("percent", "fraction", POINTS)
ORIGIN = "from"


class FigureTable(NamedTuple):
    """The models of a board under all that they scored. `shares` are the settings that are accuracies."""

    table: Table
    shares: frozenset[str]
    suite: Suite | None


def benchmark_scores(name: str, store: Store, *, needs: Sequence[str] = ()) -> Scores:
    """A benchmark as imported into the store where it was, else as its paper prints it; `store` is its own runs.

    A paper may print scores that its files lack: where an import does not have what is needed, the print counts.
    """
    if name == "store":
        return measured(store)
    imported = store.scores(name)
    if len(imported) > 1:
        imported = [together(imported)]
    if imported and (name not in benchmarks() or set(needs) <= set(imported[0].table.settings)):
        return imported[0]
    if name in benchmarks():
        return published(name)
    raise unknown("benchmark", name, {"store", *benchmarks(), *(scores.benchmark for scores in store.scores())})


def store_board(suite: Suite, store: Store, *, sort: str | None = None) -> Board:
    """The board of a suite with the runs of a store; those whose rows cannot be used are reported and left out."""
    try:
        return suite_board(suite, store, sort=sort)
    except Unusable:
        readable = SiteStore(store)
        readable.without_damage()
        for problem in readable.problems.values():
            store.left_aside(problem)
        return suite_board(suite, readable, sort=sort)


def own_models(benchmark: str, store: Store) -> Table | None:
    """The models of a store under the scores of the benchmark's suite; None where it has no suite or no model."""
    if benchmark not in suites() or not store.footers():
        return None
    suite = load_suite(benchmark)
    if not suite.board:
        return None
    scores = {
        (entry.model, name): score
        for entry in store_board(suite, store).entries
        if entry.is_measured
        for name, cell in (*entry.cells.items(), *entry.details.items())
        if (score := measured_score(cell)) is not None
    }
    counts = {key: score.n for key, score in scores.items()}
    return table({key: score.value for key, score in scores.items()}, counts=counts, source="measured here")


def measured_score(cell: BoardCell) -> Score | None:
    """What was measured here of a cell, whichever source it shows."""
    if cell.origin == MEASURED:
        return cell.score
    return next((other.score for other in cell.others if other.origin == MEASURED), None)


def joined_tables(one: Table, other: Table | None) -> Table:
    """The models of both tables under the settings of the first; of a name in both, the first counts."""
    if other is None:
        return one
    cells: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    sources: dict[str | tuple[str, str], str] = {}
    for part in (other, one):
        for i, model in enumerate(part.models):
            for j, setting in enumerate(part.settings):
                if setting in one.settings and part.values[i, j] == part.values[i, j]:
                    cells[model, setting] = float(part.values[i, j])
                    counts[model, setting] = int(part.counts[i, j])
                    sources[model, setting] = part.source_of(model, setting)
    order = sorted(cells, key=lambda key: one.settings.index(key[1]))
    return table({key: cells[key] for key in order}, counts=counts, facts=one.facts, sources=sources)


def figure_table(name: str, store: Store, *, dataset: str | None = None) -> FigureTable:
    """The models of a benchmark under all that they scored; `store` is the runs as they are.

    The fact `from` says whether a model was measured here, imported or published.
    """
    if name == "store":
        every = benchmark_scores(name, store).table
        return FigureTable(every, frozenset(every.settings), None)
    suite = named_board(name, store, dataset=dataset)
    cells: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    facts: dict[str, dict[str, str]] = {}
    known_as: dict[str, str] = {}
    for entry in store_board(suite, store).entries:
        facts[entry.model] = {**entry.facts, ORIGIN: " and ".join(entry.every_origin)}
        known_as |= dict.fromkeys(entry.names, entry.model)
        for column in suite.board:
            score = entry.cell(column.name).score
            if score is not None and column.unit in SHOWN:
                cells[entry.model, column.name], counts[entry.model, column.name] = score.value, score.n
    listed = [published(each) for each in suite.published if each in benchmarks()]
    listed += [scores for each in tables_of(suite) for scores in store.scores(each)]
    for scores in listed:
        kept = [j for j, setting in enumerate(scores.table.settings) if scores.unit(setting) in SHOWN]
        for i, model in enumerate(scores.table.models):
            for j in kept if model in known_as else ():
                key = known_as[model], scores.table.settings[j]
                if key not in cells and np.isfinite(scores.table.values[i, j]):
                    cells[key] = float(scores.table.values[i, j])
                    counts[key] = int(scores.table.counts[i, j])
    made = table(cells, counts=counts, facts=facts, source=suite.source)
    apart = {column.name for column in suite.board if column.unit == POINTS}
    apart |= {each for scores in listed for each in scores.table.settings if scores.unit(each) == POINTS}
    if {*PGD, *RENDERED} <= set(made.settings):
        made = with_averages(made)
    return FigureTable(made, frozenset(made.settings) - apart, suite)


def is_own(scores: Table, model: str) -> bool:
    """Whether all that is known of a model was measured here: it is placed against a line, not fitted on."""
    return scores.fact(model, ORIGIN) == MEASURED
