"""Columns of a board that take all its models together: a line through them, or their predictions compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.boards.provenance import lines_by_model
from holdfast.core.errors import HoldfastError
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table, score_table
from holdfast.core.types import Score
from holdfast.metrics.means import mean_of
from holdfast.metrics.scopes import OfPredictions, is_over_models, metric_of
from holdfast.metrics.summary import lines
from holdfast.store import Rows, Store

if TYPE_CHECKING:
    from holdfast.boards.entries import BoardEntry


def over_models(suite: Suite, entries: Sequence[BoardEntry], store: Store | None) -> list[BoardEntry]:
    """The entries with the columns that are made of all of them; the others stay as they are."""
    filled = list(entries)
    for column in suite.board:
        if not column.weights and is_over_models(column.score, column.reference):
            filled = _filled(column, filled, store)
    return filled


def _filled(column: Column, entries: list[BoardEntry], store: Store | None) -> list[BoardEntry]:
    metric = metric_of(column.score)
    notes: Mapping[str, str] = {}
    problem = ""
    scores: Mapping[str, Score] = {}
    try:
        if column.of or not isinstance(metric, OfPredictions):  # what can be made of rows is, where there are any
            table, settings = _table(column, entries, store)
            scores = metric.of_table(table, settings)
            notes = metric.notes(table, settings) if hasattr(metric, "notes") else {}
        elif store is not None:
            each = [metric.of_predictions(rows_by_model(store, text)) for text in column.every_scenario]
            shared = set.intersection(*(set(some) for some in each)) if each else set()
            scores = {model: mean_of([some[model] for some in each]) for model in shared}
    except HoldfastError as error:
        problem = error.problem
    return [_entry(entry, column, scores, notes, problem) for entry in entries]


def _entry(
    entry: BoardEntry, column: Column, scores: Mapping[str, Score], notes: Mapping[str, str], problem: str
) -> BoardEntry:
    cell = entry.cells[column.name]
    name = next((name for name in entry.names if name in scores), entry.model)
    score, note = scores.get(name), notes.get(name, problem)
    source = f"over {len(scores)} models of this board" if score is not None else cell.source
    filled = cell._replace(score=score, note=note, source=source, others=())
    return replace(entry, cells={**entry.cells, column.name: filled})


def _table(column: Column, entries: Sequence[BoardEntry], store: Store | None) -> tuple[Table, list[str]]:
    """The models of a board under the columns that a score is of, or under its scenarios and their reference."""
    if column.of:
        names = list(column.of)
        return score_table({each.model: [each.cells[name].score for name in names] for each in entries}, names), names
    names = [*column.every_scenario, *([column.reference] if column.reference else [])]
    by_model = lines_by_model(store, names) if store is not None else {}
    scores = {
        model: [runs[name].accuracy if name in runs else None for name in names] for model, runs in by_model.items()
    }
    return score_table(scores, names), names


def rows_by_model(store: Store, scenario: str, models: Sequence[str] = ()) -> dict[str, Rows]:
    """The latest rows of every model under a scenario; those that cannot be read are reported and left out."""
    by_model: dict[str, Rows] = {}
    for line in lines(store, scenarios=[scenario], models=models):
        rows = store.read_or_tell(line.footer.key)
        if rows is not None:
            by_model[line.footer.model] = rows
    return by_model
