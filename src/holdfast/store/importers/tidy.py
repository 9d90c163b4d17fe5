"""Tidy CSV: one number per line, with the columns model, setting and value; also benchmark, unit, n and source.

`unit` is percent, points, fraction, number or rank; where nothing says it, values above 1 are percent, and settings
without one are refused until `--unit` says what they are. Every other column is a fact about the model, such as its
`type`. The exports of holdfast read back here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.store.scores import FACT_PREFIX, PER_HUNDRED, TIDY, UNITS, Imported, Scores
from holdfast.store.source_files import BadFile, ScoreCells, finite_number, opened, plain_text, sample_count
from holdfast.store.units import refuse_unclear

NAME = "tidy"


@dataclass(slots=True)
class TidyTable:
    """What is read of one benchmark; `open` are the values of settings without a unit."""

    cells: ScoreCells
    units: dict[str, str] = field(default_factory=dict)
    open: dict[str, list[float]] = field(default_factory=dict)


def read_tidy(path: Path, *, unit: str | None = None) -> Imported:
    source = opened(path)
    boards: dict[str, TidyTable] = {}
    origin = source.origin(NAME)
    for line, cells_of_line in enumerate(source.records(["model", "setting", "value"]), start=2):
        record = {name: plain_text(text) for name, text in cells_of_line.items()}
        line_name = f"{path}, line {line}"
        model, setting = record["model"], record["setting"]
        if not model or not setting:
            raise BadFile(f"{line_name} has no {'setting' if model else 'model'}")
        board = boards.setdefault(record.get("benchmark", "") or path.stem, TidyTable(ScoreCells(path)))
        _add_facts(board.cells, model, record, line_name)
        value = _value(record, board, unit, line_name)
        board.cells.add(model, setting, value, sample_count(record.get("n", ""), line_name))
        stated_source = record.get("source", "")
        board.cells.sources[model, setting] = f"{stated_source} — {origin}" if stated_source else str(origin)
    for board in boards.values():
        refuse_unclear(board.open, path, where=", or in a column `unit`")
    return Imported(tuple(Scores(name, board.cells.table(), board.units, origin) for name, board in boards.items()))


def _add_facts(cells: ScoreCells, model: str, record: dict[str, str], line_name: str) -> None:
    """What the other columns say of a model; a blank says nothing, and two lines must not disagree."""
    known = cells.facts.setdefault(model, {})
    for column, text in record.items():
        name = column.removeprefix(FACT_PREFIX)
        if column in TIDY or not text or not name:
            continue
        if known.setdefault(name, text) != text:
            raise BadFile(f"{line_name}: `{name}` of `{model}` is `{text}` here and `{known[name]}` above")


def _value(record: dict[str, str], board: TidyTable, given: str | None, line_name: str) -> float | None:
    setting, stated = record["setting"], record.get("unit", "") or given
    unit = stated or "percent"
    if unit not in UNITS:
        raise BadFile(f"{line_name}: no unit `{unit}`", hint=f"there are: {', '.join(UNITS)}")
    if board.units.setdefault(setting, unit) != unit:
        raise BadFile(f"{line_name}: `{setting}` stands in {board.units[setting]} and in {unit}")
    value = finite_number(record["value"], line_name)
    if value is None:
        return None
    if not stated:
        board.open.setdefault(setting, []).append(value)
    most = {"percent": 100.0, "fraction": 1.0}.get(unit)
    if most is not None and not 0 <= value <= most:
        raise BadFile(f"{line_name}: {value:g} is no {unit}", hint=f"it lies in [0, {most:g}]; `unit` says what it is")
    return value / 100 if unit in PER_HUNDRED else value
