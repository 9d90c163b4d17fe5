"""What comes with holdfast: tables that papers print, cell by cell with the source of each, and scores of own rows.

NAME.csv            model, setting, value (as printed), n (where known), source, note
NAME.models.csv     what the paper says of each model
settings.csv        benchmark, setting or a pattern such as */*, unit, which way is better, meaning
aliases.csv         benchmark, alias, model: two names of one model in the paper and in the public files

A cell that cannot be read, or that the paper prints as invalid, has a note and no value.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from holdfast.core.errors import unknown
from holdfast.store.scores import PER_HUNDRED, Scores
from holdfast.store.source_files import ScoreCells, finite_number, opened, sample_count

FOLDER = Path(__file__).parent
TABLES = ("settings", "aliases")


class Setting(NamedTuple):
    """A column of a benchmark. `better` is `higher`, `lower` or nothing."""

    name: str
    unit: str
    better: str
    meaning: str


class Unread(NamedTuple):
    """A cell of a paper without a value, and why."""

    model: str
    setting: str
    source: str
    note: str


def benchmarks() -> tuple[str, ...]:
    """The transcribed benchmarks."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.csv") if "." not in path.stem and path.stem not in TABLES))


@cache
def aliases(benchmark: str) -> dict[str, str]:
    """Other names of its models → the name that its board shows."""
    records = opened(FOLDER / "aliases.csv").records(["benchmark", "alias", "model"])
    return {record["alias"]: record["model"] for record in records if record["benchmark"] == benchmark}


@cache
def settings(benchmark: str) -> dict[str, Setting]:
    """What a benchmark's columns mean; a pattern stands for every setting of its table that fits."""
    records = opened(FOLDER / "settings.csv").records(["benchmark", "setting", "unit", "better", "meaning"])
    described: dict[str, Setting] = {}
    for record in records:
        if record["benchmark"] == benchmark:
            text = record["setting"]
            for name in _fitting(benchmark, text) if "*" in text else [text]:
                described[name] = Setting(name, record["unit"], record["better"], record["meaning"])
    return described


def _fitting(benchmark: str, pattern: str) -> list[str]:
    every = dict.fromkeys(record["setting"] for record in _records(benchmark))
    return [name for name in every if fnmatchcase(name, pattern)]


@cache
def published(benchmark: str) -> Scores:
    """The printed numbers of a benchmark."""
    if benchmark not in benchmarks():
        raise unknown("published benchmark", benchmark, benchmarks())
    path = FOLDER / f"{benchmark}.csv"
    about = settings(benchmark)
    cells = ScoreCells(path, facts=_facts(benchmark))
    for line, record in enumerate(_records(benchmark), start=2):
        key = (record["model"], record["setting"])
        value = finite_number(record["value"], f"{path}, line {line}")
        scale = 100 if about[key[1]].unit in PER_HUNDRED else 1
        cells.facts.setdefault(key[0], {})
        cells.add(*key, None if value is None else value / scale, sample_count(record["n"], f"{path}, line {line}"))
        cells.sources[key] = record["source"]
    units = {name: setting.unit for name, setting in about.items()}
    return Scores(benchmark, cells.table(), units)


def unread(benchmark: str) -> list[Unread]:
    """The cells that were left out, with the reason."""
    return [
        Unread(record["model"], record["setting"], record["source"], record["note"])
        for record in _records(benchmark)
        if record["note"]
    ]


def _records(benchmark: str) -> list[dict[str, str]]:
    return opened(FOLDER / f"{benchmark}.csv").records(["model", "setting", "value", "n", "source", "note"])


def _facts(benchmark: str) -> dict[str, dict[str, str]]:
    path = FOLDER / f"{benchmark}.models.csv"
    if not path.is_file():
        return {}
    records = opened(path).records(["model"])
    return {record.pop("model"): {key: value for key, value in record.items() if value} for record in records}
