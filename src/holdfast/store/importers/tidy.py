"""Tidy CSV: one number per line, with the columns model, setting and value; also benchmark, unit, n and source.

Values are percent unless `unit` says points, fraction, number or rank. The exports of holdfast read back here.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.store.reading import Cells, Unreadable, count, number, opened, plain_text
from holdfast.store.scores import PER_HUNDRED, UNITS, Imported, Scores, grid

NAME = "tidy"


def read(path: Path) -> Imported:
    source = opened(path)
    boards: dict[str, Cells] = {}
    units: dict[tuple[str, str], str] = {}
    where: dict[str, dict[str | tuple[str, str], str]] = {}
    origin = source.origin(NAME)
    for line, cells_of_line in enumerate(source.records(["model", "setting", "value"]), start=2):
        record = {name: plain_text(text) for name, text in cells_of_line.items()}
        place = f"{path}, line {line}"
        benchmark = record.get("benchmark", "") or path.stem
        model, setting = record["model"], record["setting"]
        unit = record.get("unit", "") or "percent"
        if not model or not setting:
            raise Unreadable(f"{place} has no {'setting' if model else 'model'}")
        if unit not in UNITS:
            raise Unreadable(f"{place}: no unit `{unit}`", hint=f"there are: {', '.join(UNITS)}")
        if units.setdefault((benchmark, setting), unit) != unit:
            raise Unreadable(f"{place}: `{setting}` stands in {units[benchmark, setting]} and in {unit}")
        cells = boards.setdefault(benchmark, Cells(path))
        cells.facts.setdefault(model, {})
        cells.add(model, setting, _value(record["value"], unit, place), count(record.get("n", ""), place))
        said = record.get("source", "")
        where.setdefault(benchmark, {})[model, setting] = f"{said} — {origin}" if said else str(origin)
    made = []
    for benchmark, cells in boards.items():
        table = grid(cells.values, counts=cells.counts, facts=cells.facts, sources=where[benchmark])
        own = {setting: unit for (name, setting), unit in units.items() if name == benchmark}
        made.append(Scores(benchmark, table, own, origin))
    return Imported(tuple(made))


def _value(text: str, unit: str, place: str) -> float | None:
    value = number(text, place)
    if value is None:
        return None
    most = {"percent": 100.0, "fraction": 1.0}.get(unit)
    if most is not None and not 0 <= value <= most:
        raise Unreadable(f"{place}: {value:g} is no {unit}", hint=f"it lies in [0, {most:g}]; `unit` says what it is")
    return value / 100 if unit in PER_HUNDRED else value
