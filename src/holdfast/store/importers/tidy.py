"""Tidy CSV: one number per line, with the columns model, setting and value; also benchmark, unit, n and source.

`unit` is percent, points, fraction, number or rank; where nothing says it, values above 1 are percent, and settings
without one are refused until `--unit` says what they are. Every other column is a fact about the model, such as its
`type`. The exports of holdfast read back here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.store.reading import Cells, Unreadable, count, number, opened, plain_text
from holdfast.store.scores import FACT_PREFIX, PER_HUNDRED, TIDY, UNITS, Imported, Origin, Scores, grid
from holdfast.store.units import refuse_unclear

NAME = "tidy"


@dataclass(slots=True)
class Board:
    """What is read of one benchmark; `open` are the values of settings whose unit nobody said."""

    cells: Cells
    units: dict[str, str] = field(default_factory=dict)
    where: dict[str | tuple[str, str], str] = field(default_factory=dict)
    open: dict[str, list[float]] = field(default_factory=dict)


def read(path: Path, *, unit: str | None = None) -> Imported:
    source = opened(path)
    boards: dict[str, Board] = {}
    origin = source.origin(NAME)
    for line, cells_of_line in enumerate(source.records(["model", "setting", "value"]), start=2):
        record = {name: plain_text(text) for name, text in cells_of_line.items()}
        place = f"{path}, line {line}"
        model, setting = record["model"], record["setting"]
        if not model or not setting:
            raise Unreadable(f"{place} has no {'setting' if model else 'model'}")
        board = boards.setdefault(record.get("benchmark", "") or path.stem, Board(Cells(path)))
        _add_facts(board.cells, model, record, place)
        value = _value(record, board, unit, place)
        board.cells.add(model, setting, value, count(record.get("n", ""), place))
        said = record.get("source", "")
        board.where[model, setting] = f"{said} — {origin}" if said else str(origin)
    for board in boards.values():
        refuse_unclear(board.open, path, where=", or in a column `unit`")
    return Imported(tuple(_scores(name, board, origin) for name, board in boards.items()))


def _scores(name: str, board: Board, origin: Origin) -> Scores:
    cells = board.cells
    table = grid(cells.values, counts=cells.counts, facts=cells.facts, sources=board.where)
    return Scores(name, table, board.units, origin)


def _add_facts(cells: Cells, model: str, record: dict[str, str], place: str) -> None:
    """What the other columns say of a model; a blank says nothing, and two lines must not disagree."""
    known = cells.facts.setdefault(model, {})
    for column, text in record.items():
        name = column.removeprefix(FACT_PREFIX)
        if column in TIDY or not text or not name:
            continue
        if known.setdefault(name, text) != text:
            raise Unreadable(f"{place}: `{name}` of `{model}` is `{text}` here and `{known[name]}` above")


def _value(record: dict[str, str], board: Board, given: str | None, place: str) -> float | None:
    setting, stated = record["setting"], record.get("unit", "") or given
    unit = stated or "percent"
    if unit not in UNITS:
        raise Unreadable(f"{place}: no unit `{unit}`", hint=f"there are: {', '.join(UNITS)}")
    if board.units.setdefault(setting, unit) != unit:
        raise Unreadable(f"{place}: `{setting}` stands in {board.units[setting]} and in {unit}")
    value = number(record["value"], place)
    if value is None:
        return None
    if not stated:
        board.open.setdefault(setting, []).append(value)
    most = {"percent": 100.0, "fraction": 1.0}.get(unit)
    if most is not None and not 0 <= value <= most:
        raise Unreadable(f"{place}: {value:g} is no {unit}", hint=f"it lies in [0, {most:g}]; `unit` says what it is")
    return value / 100 if unit in PER_HUNDRED else value
