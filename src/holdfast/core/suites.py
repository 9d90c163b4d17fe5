"""Suites: benchmarks as data. A suite is a TOML file that lists scenarios; braces stand for alternatives.

title = "Corruptions"
dataset = "fashion-mnist-2k"
scenarios = ["{dataset}", "{dataset}+{contrast,jpeg}:severity={1,3,5}"]

A suite may say which scores its board shows. A column is the mean of its terms, each the mean of all that its pattern
stands for: of scenarios measured here, of settings in imported files, or of other columns (`of`). What others publish
under the column's own name is taken as it is.

published = ["corruption-paper"]
sort = "corrupted"

[[board]]
name = "corrupted"
scenarios = ["{dataset}+contrast:severity={1,3,5}", "{dataset}+jpeg:severity={1,3,5}"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse, did_you_mean, unknown

FOLDER = Path(__file__).parent.parent / "suites"
FIELDS: dict[str, type] = {
    "title": str,
    "about": str,
    "source": str,
    "dataset": str,
    "scenarios": list,
    "models": list,
    "samples": int,
    "published": list,
    "sort": str,
    "board": list,
}
COLUMN_FIELDS: dict[str, type] = {
    "name": str,
    "title": str,
    "unit": str,
    "better": str,
    "scenarios": list,
    "settings": list,
    "of": list,
    "score": str,
}
WANTED: dict[type, str] = {str: "text", list: "a list of texts", int: "a whole number"}
REQUIRED = ("title", "scenarios")


@dataclass(frozen=True, slots=True)
class Column:
    """A score of a board: the mean of its terms, each the mean of all it lists; `of` names other columns instead.

    `score` makes something else than a mean of the settings, by name (`metrics.board.SCORES`).
    """

    name: str
    title: str = ""
    unit: str = "percent"
    better: str = "higher"
    scenarios: tuple[tuple[str, ...], ...] = ()
    settings: tuple[tuple[str, ...], ...] = ()
    of: tuple[str, ...] = ()
    score: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of scenarios, and what it asks for when the caller does not."""

    name: str
    title: str
    scenarios: tuple[str, ...]
    about: str = ""
    source: str = ""
    dataset: str = ""
    models: tuple[str, ...] = ()
    samples: int | None = None
    published: tuple[str, ...] = ()
    sort: str = ""
    board: tuple[Column, ...] = ()


def suites() -> dict[str, Path]:
    """The suites that ship with the package."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def load_suite(name: str, *, dataset: str | None = None) -> Suite:
    """A bundled suite by name, or one's own by the path of its file; `dataset` replaces the suite's own."""
    known = suites()
    path = known.get(name) or Path(name)
    if path.suffix != ".toml":
        raise unknown("suite", name, known, otherwise="name one of `holdfast list suites`, or the path of a .toml file")
    if not path.is_file():
        raise Misuse(f"no suite file at {path}")
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{path} is not valid TOML: {error}") from error
    _check(record, path)
    over = dataset or record.get("dataset", "")
    listed = record.get("scenarios", [])
    patterns = [*listed, *(text for column in record.get("board", ()) for text in column.get("scenarios", ()))]
    if any("{dataset}" in text for text in patterns) and not over:
        raise Misuse(f"suite `{path.stem}` needs a dataset", hint="give one with --dataset")
    scenarios = [text for pattern in listed for text in expanded(pattern.replace("{dataset}", over))]
    columns = tuple(_column(column, over) for column in record.get("board", ()))
    scenarios += [text for column in columns for term in column.scenarios for text in term]
    return Suite(
        name=path.stem,
        title=record["title"],
        scenarios=tuple(dict.fromkeys(scenarios)) if columns else tuple(scenarios),
        about=record.get("about", ""),
        source=record.get("source", ""),
        dataset=over,
        models=tuple(record.get("models", ())),
        samples=record.get("samples"),
        published=tuple(record.get("published", ())),
        sort=record.get("sort", columns[0].name if columns else ""),
        board=columns,
    )


def expanded(pattern: str) -> list[str]:
    """All texts a pattern with braces stands for, in reading order: `a{1,2{x,y}}` is `a1`, `a2x`, `a2y`."""
    start = pattern.find("{")
    if start < 0:
        if "}" in pattern:
            raise Misuse(f"a brace is closed but not opened in `{pattern}`")
        return [pattern]
    depth, options, begun = 0, [], start + 1
    for i in range(start, len(pattern)):
        depth += (pattern[i] == "{") - (pattern[i] == "}")
        if depth == 0 or (depth == 1 and pattern[i] == ","):
            options.append(pattern[begun:i].strip())
            begun = i + 1
        if depth == 0:
            rest = expanded(pattern[i + 1 :])
            return [
                pattern[:start] + inner + after for option in options for inner in expanded(option) for after in rest
            ]
    raise Misuse(f"a brace is opened but not closed in `{pattern}`")


def _column(record: dict[str, Any], dataset: str) -> Column:
    scenarios, settings = (
        tuple(tuple(expanded(text.replace("{dataset}", dataset))) for text in record.get(kind, ()))
        for kind in ("scenarios", "settings")
    )
    words = {name: record[name] for name in ("name", "title", "unit", "better", "score") if name in record}
    return Column(**words, scenarios=scenarios, settings=settings, of=tuple(record.get("of", ())))


def _check(record: dict[str, Any], path: Path) -> None:
    _check_fields(record, FIELDS, f"{path}", "suite")
    names = []
    for column in record.get("board", ()):
        _check_fields(column, COLUMN_FIELDS, f"{path}, board", "column of a board")
        if "name" not in column:
            raise HoldfastError(f"{path}: a column of a board needs `name`")
        for name in column.get("of", ()):
            if name not in names:
                raise HoldfastError(f"{path}: `{column['name']}` is made of `{name}`, which no column before it is")
        names.append(column["name"])
    if names and record.get("sort", names[0]) not in names:
        raise HoldfastError(f"{path}: `sort` names no column", hint=f"there are: {', '.join(names)}")
    for name in REQUIRED:
        if name not in record and not (name == "scenarios" and names):
            raise HoldfastError(f"{path}: a suite needs `{name}`")


def _check_fields(record: dict[str, Any], fields: Mapping[str, type], place: str, what: str) -> None:
    for name, value in record.items():
        if name not in fields:
            raise HoldfastError(f"{place}: no field `{name}` in a {what}", hint=did_you_mean(name, fields))
        if not isinstance(value, fields[name]):
            raise HoldfastError(f"{place}: `{name}` must be {WANTED[fields[name]]}")
        kind = dict if name == "board" else str
        if isinstance(value, list) and not all(isinstance(item, kind) for item in value):
            wanted = "tables, each under [[board]]" if kind is dict else "a list of texts"
            raise HoldfastError(f"{place}: `{name}` must be {wanted}")
