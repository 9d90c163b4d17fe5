"""All that is known of the models of a board as one table: its columns, details and the settings behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast.boards.benchmark_tables import benchmark_scores, store_board
from holdfast.boards.board_list import named_board
from holdfast.boards.entries import MEASURED
from holdfast.boards.suite_board import tables_of
from holdfast.core.suites import Suite
from holdfast.core.table import Table, table
from holdfast.store.published import benchmarks, published
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
