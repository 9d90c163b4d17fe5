"""Boards: the scores of a suite for every model that has them, printed in a paper, imported, or measured here.

A mean over missing cells is never shown as a score: the cell says how many there are of how many, and the entry is
marked incomplete. What is no mean is made in `boards.column_scores`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast.boards.column_scores import (
    ABOVE,
    LOWEST,
    OVER_RADII,
    RATIOS,
    StoredRuns,
    above_line,
    best_known,
    column_score,
    mean_of_columns,
)
from holdfast.boards.entries import IMPORTED, MEASURED, PUBLISHED, Board, BoardCell, BoardEntry
from holdfast.boards.merging import SourceEntries, merged_entries
from holdfast.boards.over_models import over_models
from holdfast.boards.provenance import lines_by_model, scenarios_of, with_stored_names
from holdfast.boards.ranking import ranked
from holdfast.boards.table_entries import sources_of, table_entries
from holdfast.core.errors import Misuse, unknown
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.suites import Column, Suite
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.store.model_facts import stored_facts
from holdfast.store.published import aliases, benchmarks, published
from holdfast.store.store import Store
from holdfast.store.stored_names import stored_scenarios

NAMED = (*RATIOS, ABOVE, OVER_RADII, LOWEST)


def suite_board(suite: Suite, store: Store | None = None, *, sort: str | None = None) -> Board:
    """The board of a suite: what its papers print, and what the store holds, imported and measured; a model once."""
    if not suite.board:
        raise Misuse(f"suite `{suite.name}` declares no board", hint="give it columns, each under [[board]]")
    by = sort or suite.sort
    directions = {column.name: column.better for column in suite.board}
    if by not in directions:
        raise Misuse(f"the board of `{suite.name}` has no score `{by}`", hint=f"there are: {', '.join(directions)}")
    _check_scores(suite)
    suite = with_stored_names(suite, store)
    listings = list(_listings(suite, store, by))
    entries = merged_entries(listings, suite.board, _names(suite, listings))
    entries = over_models(suite, entries, store)
    details = {column.name for column in suite.board if column.detail}
    main, more = (tuple(c for c in suite.board if (c.name in details) is is_detail) for is_detail in (False, True))
    made = tuple(_with_details_apart(entry, details) for entry in ranked(entries, by, directions[by]))
    return Board(suite.board_name, suite.title, main, by, made, more)


def tables_of(suite: Suite) -> tuple[str, ...]:
    """The benchmarks whose numbers are on the board of a suite; those imported under its own name are too."""
    return tuple(dict.fromkeys((*suite.published, suite.board_name)))


def _listings(suite: Suite, store: Store | None, by: str) -> Iterator[SourceEntries]:
    best = best_known(suite, store)
    for name in suite.published:
        if name in benchmarks():  # others are named for what can be imported
            yield SourceEntries(PUBLISHED, list(table_entries(suite, published(name), PUBLISHED, best=best)))
    if store is None:
        return
    for name in tables_of(suite):
        for scores in store.scores(name):
            date = "" if scores.origin is None else scores.origin.date
            yield SourceEntries(IMPORTED, list(table_entries(suite, scores, IMPORTED, best=best)), date)
    rows = row_entries(suite, store)
    helps = _helping(suite, by, store)
    yield SourceEntries(MEASURED, [own.entry for own in rows if own.entry.origin == MEASURED])
    yield SourceEntries(IMPORTED, [own.entry for own in rows if own.entry.origin == IMPORTED and own.scenarios & helps])


def _helping(suite: Suite, by: str, store: Store) -> set[str]:
    """The scenarios that help to rank: predictions of others are only on boards for which they have one of these."""
    column = next(column for column in suite.board if column.name == by)
    needed = set(scenarios_of(column, suite))
    return needed - set(stored_scenarios(store, [suite.dataset]).values()) or needed


def _names(suite: Suite, listings: Sequence[SourceEntries]) -> dict[str, str]:
    """Names of a model in one source of the board → its name on the board.

    A model that was loaded from timm here is the one that timm lists at the same image size.
    """
    names = {alias: name for benchmark in tables_of(suite) for alias, name in aliases(benchmark).items()}
    tabled = {entry.model for listing in listings if listing.origin != MEASURED for entry in listing.entries}
    for listing in listings:
        for entry in listing.entries if listing.origin == MEASURED else ():
            source, _, rest = entry.model.partition(":")
            listed_as = f"{rest.partition(',')[0]}@{entry.facts.get('image_size', '')}"
            if source == "timm" and listed_as in tabled:
                names[entry.model] = listed_as
    return names


def _with_details_apart(entry: BoardEntry, details: set[str]) -> BoardEntry:
    cells, more = ({n: c for n, c in entry.cells.items() if (n in details) is is_detail} for is_detail in (False, True))
    return replace(entry, cells=cells, details=more)


def _check_scores(suite: Suite) -> None:
    for column in suite.board:
        if column.score and column.score not in NAMED:
            name = parse_ref(column.score).name
            known = registry.entries("metric")
            if name not in known:
                raise unknown("score or metric", column.score, [*NAMED, *known])


class RowEntry(NamedTuple):
    """An entry made of rows, and the scenarios of the board that it has rows of."""

    entry: BoardEntry
    scenarios: frozenset[str]


def row_entries(suite: Suite, store: Store) -> list[RowEntry]:
    """The models of a store by their rows: measured here, or imported as predictions of others."""
    texts = {text for column in suite.board for term in column.scenarios for text in (*term, column.reference) if text}
    by_model = {model: StoredRuns(store, runs) for model, runs in lines_by_model(store, list(texts)).items()}
    best, known = best_known(suite, store), stored_facts(store)
    made = []
    for model, runs in by_model.items():
        cells: dict[str, BoardCell] = {}
        for column in suite.board:
            cells[column.name] = _row_cell(column, runs, best, cells)
        runs.read.clear()
        footers = [line.footer for line in runs.lines.values()]
        card = footers[0].card
        origin = IMPORTED if all(footer.is_imported for footer in footers) else MEASURED
        facts = {"source": card.source, "trained_on": card.trained_on, "image_size": str(card.size or "")}
        more = {name: fact for name, fact in known.get(model, {}).items() if name != "data"}  # it is `trained_on` here
        entry = BoardEntry(model, origin, cells, {name: fact for name, fact in (more | facts).items() if fact})
        made.append(RowEntry(entry, frozenset(runs.lines)))
    return made


def _row_cell(column: Column, runs: StoredRuns, best: Table | None, cells: Mapping[str, BoardCell]) -> BoardCell:
    """A column of a model measured here; no score where a result is missing."""
    if not column.of:
        made = column_score(column, runs, best)
        rests = [runs.lines[text] for text in column.every_scenario if text in runs.lines]
        partial = any(line.footer.is_partial for line in rests)
        files = dict.fromkeys(line.footer.facts["imported from"] for line in rests if line.footer.is_imported)
        source = f"predictions in {', '.join(files)}" if files else made.source
        origin = IMPORTED if rests and all(line.footer.is_imported for line in rests) else MEASURED
        return BoardCell(made.score, made.have, made.of, source, is_partial=partial, note=made.note, origin=origin)
    parts = [cells[name] for name in column.of]
    scores = [part.score for part in parts if part.score is not None]
    notes = "; ".join(dict.fromkeys(part.note for part in parts if part.note))
    cell = BoardCell(
        None,
        sum(part.have for part in parts),
        sum(part.of for part in parts),
        sources_of(column, cells),
        is_partial=any(part.is_partial for part in parts),
        note=notes,
        origin=MEASURED if any(part.origin == MEASURED for part in parts) else IMPORTED,
    )
    if column.score == LOWEST and scores:
        return cell._replace(score=min(scores, key=lambda each: each.value))
    if len(scores) < len(parts):
        return cell
    if column.score != ABOVE:
        return cell._replace(score=mean_of_columns(column, scores, runs))
    shifted, *standard = ((np.array([each.value]), np.array([each.low]), np.array([each.high])) for each in scores)
    value, low, high = (float(part[0]) for part in above_line(column, shifted, standard, runs.correlation(column)))
    if math.isnan(value):
        return cell._replace(note="an accuracy of 0 or 1 has no place on the line")
    return cell._replace(score=Score(value, low, high, min(each.n for each in scores)))
