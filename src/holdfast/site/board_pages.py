"""The board of a suite as its page holds it: rows for the table, and for every cell where it comes from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.boards.board_text import NumberStyle, bounds_text, disagreement, missing_text, number_in_unit
from holdfast.boards.entries import IMPORTED, Board, BoardCell, BoardEntry, OtherSource
from holdfast.boards.provenance import Basis, scenarios_of, score_bases, settings_of
from holdfast.boards.suite_board import suite_board, tables_of
from holdfast.core.json_text import attributes
from holdfast.core.suites import Column, Suite
from holdfast.metrics.summary import Line
from holdfast.site.addresses import paper, slug
from holdfast.site.plots import Plot, plots_of
from holdfast.store.files import Unusable
from holdfast.store.published import Unread, benchmarks, settings, unread
from holdfast.store.scores import PER_HUNDRED, Scores
from holdfast.store.site_store import SiteStore

SERIOUS = ("warning", "error")
RUNS = "runs"
UNRELIABLE: Words = {
    "name": "unreliable",
    "level": "warning",
    "about": "the list that it is on says that its robust accuracy is potentially unreliable",
    "runs": 1,
}
MORE = NumberStyle(digits=2)  # to compare sources
UNITS = {"percent": "In percent", "points": "In percentage points", "nats": "In nats", "fraction": "A share"}
LONG_FACT = 60  # a longer fact is written with the model, not in a column of its own

Words = dict[str, object]


@dataclass(frozen=True, slots=True)
class BoardPage:
    """All that is written for a board: the data of its page, and what it loads when a cell is opened, by name."""

    suite: Suite
    board: Board
    data: Words
    origins: Mapping[str, Words]
    plots: tuple[Plot, ...]

    @property
    def file(self) -> str:
        return f"boards/{self.name}.html"

    @property
    def name(self) -> str:
        """Names its files."""
        return slug(self.suite.board_name)

    @property
    def best(self) -> BoardEntry | None:
        return next((entry for entry in self.board.entries if entry.rank == 1), None)

    @property
    def sort(self) -> Column:
        return next(column for column in self.suite.board if column.name == self.board.sort)


def board_page(suite: Suite, store: SiteStore) -> BoardPage:
    """The board with what each of its cells rests on; damaged runs are left out."""
    try:
        return _made(suite, store)
    except Unusable:
        store.without_damage()
        return _made(suite, store)


def _made(suite: Suite, store: SiteStore) -> BoardPage:
    shown = suite_board(suite, store)
    listed = {name for entry in shown.entries for name in entry.names}
    every = score_bases(suite, store) if shown.entries else {}
    measured = {model: basis for model, basis in every.items() if model in listed}
    imported = [scores for name in tables_of(suite) for scores in store.scores(name)]
    made = _Rows(suite, shown, measured, imported)
    rows = [made.row(i, entry) for i, entry in enumerate(shown.entries)]
    details = made.details(shown)
    data: Words = {
        "suite": suite.board_name,
        "sort": shown.sort,
        "columns": [_column(column, suite) for column in shown.columns],
        "details": [_column(column, suite) for column in shown.details if column.name in details],
        "more": f"{slug(suite.board_name)}/more/columns" if details else None,
        "facts": made.facts,
        "rows": rows,
        "sources": [[source, paper(source)] for source in made.sources],
    }
    origins: dict[str, Words] = {f"{slug(suite.board_name)}/more/columns": details} if details else {}
    origins |= {made.file_of_model(model): _measured_origin(suite, model, basis) for model, basis in measured.items()}
    origins |= {made.file_of_scores(scores): _imported_origin(suite, scores) for scores in imported}
    return BoardPage(suite, shown, data, origins, tuple(plots_of(suite, shown, store)))


class _Rows:
    """Rows of the table, with sources written once."""

    def __init__(
        self, suite: Suite, shown: Board, measured: Mapping[str, Mapping[str, Basis]], imported: list[Scores]
    ) -> None:
        self.suite, self.columns, self.measured, self.imported = suite, shown.columns, measured, imported
        self.sources: dict[str, int] = {}
        self.facts = _fact_names(shown)
        self.keys = {id(scores): scores.key for scores in imported}  # a key is a digest of all numbers
        listed = [name for name in suite.published if name in benchmarks()]
        self.notes = {(one.model, one.setting): one for name in listed for one in unread(name)}

    def file_of_model(self, model: str) -> str:
        """What a measured model loads; a slug holds no slash, so no model takes the file of another."""
        return f"{slug(self.suite.board_name)}/{slug(model)}"

    def file_of_scores(self, scores: Scores) -> str:
        return f"{slug(self.suite.board_name)}/imported/{self.keys[id(scores)]}"

    def row(self, i: int, entry: BoardEntry) -> Words:
        basis = self._basis(entry)
        runs = {line.footer.key: line for one in basis.values() for line in one.runs}
        warned = [UNRELIABLE] if entry.is_unreliable else []
        # a paper that does not give a score lacks nothing
        is_begun = any(cell.score is None and cell.of > 0 for cell in entry.cells.values())
        return {
            "id": i,
            "rank": entry.rank,
            "model": entry.model,
            "also": list(entry.also),
            "origin": ", ".join(entry.every_origin),
            "origins": list(entry.every_origin),
            "page": f"../models/{slug(self._run_name(entry) or '')}.html" if runs else None,
            "complete": entry.is_complete,
            "open": not entry.is_complete and (entry.rank is None or is_begun),
            "missing": entry.missing,
            "flags": [*warned, *_flags(list(runs.values()))],
            "facts": dict(entry.facts),
            "places": self._files(entry),
            "cells": [self._cell(entry, column, basis.get(column.name)) for column in self.columns],
        }

    def details(self, shown: Board) -> Words:
        """By column and row, the cells that only a reader who asks for them loads."""
        made: dict[str, Words] = {
            column.name: {
                str(i): self._cell(entry, column, self._basis(entry).get(column.name))
                for i, entry in enumerate(shown.entries)
                if entry.details[column.name].score is not None or entry.details[column.name].have
            }
            for column in shown.details
        }
        return {name: cells for name, cells in made.items() if cells}

    def _run_name(self, entry: BoardEntry) -> str | None:
        """The name under which the store has runs of the entry."""
        return next((name for name in entry.names if name in self.measured), None)

    def _basis(self, entry: BoardEntry) -> Mapping[str, Basis]:
        name = self._run_name(entry)
        return self.measured[name] if name is not None else {}

    def _files(self, entry: BoardEntry) -> Words:
        """What to load for a cell, by where it comes from."""
        to_load: Words = {}
        name = self._run_name(entry)
        if name is not None:
            to_load[RUNS] = self.file_of_model(name)
        files = [one for one in self.imported if set(entry.names) & set(one.table.models)]
        if files:
            to_load[IMPORTED] = [self.file_of_scores(one) for one in files]
        return to_load

    def _cell(self, entry: BoardEntry, column: Column, basis: Basis | None) -> Words:
        cell = entry.cell(column.name)
        made: Words = {"text": missing_text(cell)}
        if cell.score is not None:
            made = {"value": cell.score.value, "text": number_in_unit(cell.score.value, column.unit)}
            if cell.score.n:
                made |= {"n": cell.score.n, "low": cell.score.low, "high": cell.score.high}
                made["bounds"] = bounds_text(cell, column.unit)
            made["from"] = cell.origin
            if cell.source:
                made["source"] = self._source(cell.source)
            if cell.others:
                made["others"] = [self._other(other, column) for other in cell.others]
            if text := disagreement(cell, column.unit):
                made["differs"] = text
        elif cell.note:
            made["note"] = cell.note
        elif note := self._unread(entry, column):
            made |= {"note": note.note, "source": self._source(note.source)}
        if cell.is_partial:
            made["part"] = True
        if basis and _flags(basis.runs):
            made["flagged"] = True
        return made

    def _other(self, other: OtherSource, column: Column) -> Words:
        text = number_in_unit(other.score.value, column.unit, MORE)
        return {"from": other.origin, "text": text, "agrees": other.agrees, "source": self._source(other.source)}

    def _unread(self, entry: BoardEntry, column: Column) -> Unread | None:
        notes = [self.notes.get((name, column.name)) for name in entry.names]
        return next((note for note in notes if note is not None), None)

    def _source(self, text: str) -> int:
        return self.sources.setdefault(text, len(self.sources))


def _fact_names(shown: Board) -> list[str]:
    lengths: dict[str, int] = {}
    for entry in shown.entries:
        for name, value in entry.facts.items():
            lengths[name] = max(lengths.get(name, 0), len(value))
    return [name for name, length in lengths.items() if 0 < length <= LONG_FACT]


def _column(column: Column, suite: Suite) -> Words:
    about_column = {"title": column.title or column.name, **attributes(column, "unit", "better")}
    return {"name": column.name, **about_column, "about": about(column, suite), "caveats": list(column.caveats)}


def about(column: Column, suite: Suite) -> str:
    """What a column says, in sentences."""
    named = (settings(name).get(column.name) for name in suite.published if name in benchmarks())
    meaning = next((setting.meaning for setting in named if setting is not None and setting.meaning), "")
    titles = {one.name: one.title or one.name for one in suite.board}
    sentence = f"{meaning[:1].upper()}{meaning[1:].rstrip('.')}." if meaning else ""
    unit = UNITS.get(column.unit, "A number")
    direction = f"{unit}; {column.better} is better." if column.better else f"{unit}."
    line = f"The line: {column.line.rstrip('.')}." if column.line else ""
    caveats = [f"Not like for like with printed numbers: {text}" for text in column.caveats]
    return " ".join(filter(None, [sentence, _formula_text(column, suite, titles), line, direction, *caveats]))


def _formula_text(column: Column, suite: Suite, titles: Mapping[str, str]) -> str:
    many, terms = len(scenarios_of(column, suite)), len(column.scenarios)
    if column.of and not column.score:
        return f"The mean of {' and '.join(titles[name] for name in column.of)}."
    if many < 2:
        return ""
    if column.score:
        return f"From {many} scenarios."
    return f"The mean of {terms} groups, {many} scenarios in all." if 1 < terms < many else f"Over {many} scenarios."


def _flags(runs: list[Line] | tuple[Line, ...]) -> list[Words]:
    met = Counter((f.name, f.level, f.explanation) for run in runs for f in run.flags if f.level in SERIOUS)
    return [{"name": name, "level": level, "about": text, "runs": count} for (name, level, text), count in met.items()]


def _measured_origin(suite: Suite, model: str, basis: Mapping[str, Basis]) -> Words:
    """Every run of a model on this board once, and which of them each column rests on."""
    runs = {line.footer.key: line for one in basis.values() for line in one.runs}
    index = {key: i for i, key in enumerate(runs)}
    return {
        "runs": [_run(line) for line in runs.values()],
        "columns": {name: [index[line.footer.key] for line in one.runs] for name, one in basis.items()},
        "missing": {name: list(one.missing) for name, one in basis.items()},
        "again": f"holdfast evaluate {shlex.quote(model)} --suite {shlex.quote(suite.name)}{suite.options}",
    }


def _run(line: Line) -> Words:
    footer = line.footer
    score = line.accuracy
    cell = BoardCell(score, 1, 1, "")
    return {
        **attributes(footer, "scenario", "key"),
        "text": number_in_unit(score.value, "percent"),
        "bounds": bounds_text(cell, "percent"),
        **attributes(footer, "n", "population"),
        "failed": line.failed,
        **attributes(footer, "seed", "device", "finished", "versions", "facts", "weights", "digest"),
        "flags": [{"name": f.name, "level": f.level, "about": f.explanation} for f in footer.flags],
        "command": footer.command,
    }


def _imported_origin(suite: Suite, scores: Scores) -> Words:
    """The numbers that imported scores are made of, as they stand in the file."""
    table = scores.table
    needed = {column.name: [column.name, *settings_of(column, suite)] for column in suite.board}
    used = [name for name in table.settings if any(name in names for names in needed.values())]
    index = {name: i for i, name in enumerate(used)}
    chosen = [table.settings.index(name) for name in used]
    scale = [100 if scores.unit(name) in PER_HUNDRED else 1 for name in used]
    values = (table.values[:, chosen] * scale).round(4).tolist() if used else [[] for _ in table.models]
    return {
        "benchmark": scores.benchmark,
        **{name: getattr(scores.origin, name, "") for name in ("file", "format", "sha256", "date")},
        "settings": used,
        "units": [scores.unit(name) for name in used],
        "columns": {name: [index[one] for one in names if one in index] for name, names in needed.items()},
        "values": dict(zip(table.models, values, strict=True)),
    }
