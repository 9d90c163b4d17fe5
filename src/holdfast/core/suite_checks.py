"""Refuses a suite file with unknown fields, fields of another kind, or parts that do not go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, did_you_mean
from holdfast.core.suite_parameters import check_parameters
from holdfast.core.suite_types import BETTER, LOGITS, SPACES, UNITS, Column, Suite, SuitePart

DATASET = "dataset"
KINDS = {  # of a field, by the type of what is made of it → what it must be, as errors say it
    "str": "text",
    "int | None": "a whole number",
    "float": "a number",
    "float | None": "a number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of texts",
    "tuple[float, ...]": "a list of numbers",
    "Terms": "a list of texts",
    "tuple[Column, ...]": "tables, each under [[board]]",
}
PART_FIELDS = {each.name: KINDS[str(each.type)] for each in fields(SuitePart)}
COLUMN_FIELDS = {each.name: KINDS[str(each.type)] for each in fields(Column)} | {"each": "text"}
NO_FIELDS = ("name", "parts", "parameters", "choices", "variant", "is_moved")
FIELDS = {each.name: KINDS[str(each.type)] for each in fields(Suite) if each.name not in NO_FIELDS}
FIELDS |= {"part": "tables, each under [[part]]", "lists": "a table of texts and lists of texts", "extends": "text"}
FIELDS |= {"caveat": "tables, each under [[caveat]]", "parameters": FIELDS["lists"]}
CAVEAT_FIELDS = {"text": "text", "columns": "a list of texts", "when": "text", "unless": "text"}


def check_suite(record: dict[str, Any], path: Path) -> None:
    check_fields(record, FIELDS, f"{path}", "suite")
    if "title" not in record:
        raise HoldfastError(f"{path}: a suite needs `title`")
    if not any(name in record for name in ("scenarios", "part", "board")):
        raise HoldfastError(f"{path}: a suite needs `scenarios`", hint="a list of texts such as `{dataset}+fog`")
    if record.get("samples", 1) < 1:
        raise HoldfastError(f"{path}: `samples` must be at least 1, got {record['samples']}")
    if DATASET in record.get("lists", {}):
        raise HoldfastError(f"{path}: a list cannot be named `dataset`", hint="`dataset = …` says what {dataset} is")
    _check_choice(record, "space", SPACES, f"{path}: `space`")
    _check_choice(record, "logits", LOGITS, f"{path}: `logits`")
    names: list[str] = []
    for part in record.get("part", ()):
        check_fields(part, PART_FIELDS, f"{path}, part", "part")
        _check_name(part, names, path, "part")
    _check_columns(record.get("board", ()), names, path)
    names = [column["name"] for column in record.get("board", ())]
    for caveat in record.get("caveat", ()):
        check_fields(caveat, CAVEAT_FIELDS, f"{path}, caveat", "caveat")
    check_parameters(record, names, path, DATASET)
    sort = record.get("sort", names[0] if names else "")
    if names and sort not in names:
        raise HoldfastError(f"{path}: `sort` names no column", hint=f"there are: {', '.join(names)}")
    if any(column["name"] == sort and column.get("detail") for column in record.get("board", ())):
        raise HoldfastError(f"{path}: `sort` names a detail, which an entry may lack", hint="name another column")


def _check_columns(columns: Sequence[dict[str, Any]], parts: Sequence[str], path: Path) -> None:
    names: list[str] = []
    for column in columns:
        check_fields(column, COLUMN_FIELDS, f"{path}, board", "column of a board")
        _check_name(column, names, path, "column of a board")
        name = column["name"]
        if "of" in column and ("scenarios" in column or "part" in column):
            raise HoldfastError(f"{path}: `{name}` is made of columns and of scenarios", hint="keep one of them")
        for other in column.get("of", ()):
            if other not in names[:-1]:
                raise HoldfastError(f"{path}: `{name}` is made of `{other}`, which no column before it is")
        if column.get("part", parts[0] if parts else "") not in (*parts, ""):
            hint = f"there are: {', '.join(parts)}" if parts else "declare it under [[part]]"
            raise HoldfastError(f"{path}: `{name}` belongs to part `{column['part']}`, which there is not", hint=hint)
        for field, allowed in (("unit", UNITS), ("better", BETTER), ("space", SPACES)):
            _check_choice(column, field, allowed, f"{path}: `{field}` of `{name}`")
        if (column.get("score") == "effective-robustness") != ("weights" in column):
            raise HoldfastError(
                f"{path}: `{name}` has {'weights' if 'weights' in column else 'no weights'}",
                hint='score = "effective-robustness" takes `weights` and `intercept` of a line, other scores do not',
            )
        if "weights" in column and len(column["weights"]) != len(column.get("of", ())) - 1:
            raise HoldfastError(
                f"{path}: `{name}` needs a weight for every column of `of` but the first",
                hint='of = ["shifted", "standard"], weights = [0.92]',
            )
        if "pivot" in column and len(column.get("weights", ())) != 1:
            raise HoldfastError(f"{path}: `{name}` has a pivot", hint="it parts a line: `weights` has one number")
        if ("pivot" in column) != ("weights_above" in column) or len(column.get("weights_above", (0,))) != 1:
            raise HoldfastError(
                f"{path}: `{name}` needs the line above its pivot",
                hint="pivot = 0.86, weights_above = [2.1], intercept_above = -5.9",
            )


def _check_choice(record: dict[str, Any], field: str, allowed: Sequence[str], where: str) -> None:
    if record.get(field, allowed[0]) not in allowed:
        choices = ", ".join(word or '""' for word in allowed)
        hint = did_you_mean(record[field], allowed)
        raise HoldfastError(f"{where} must be one of {choices}, got `{record[field]}`", hint=hint)


def _check_name(record: dict[str, Any], names: list[str], path: Path, what: str) -> None:
    if "name" not in record:
        raise HoldfastError(f"{path}: a {what} needs `name`")
    if record["name"] in names:
        several = what.replace("part", "parts").replace("column", "columns")
        raise HoldfastError(f"{path}: two {several} are named `{record['name']}`", hint="rename one of them")
    names.append(record["name"])


def check_fields(record: dict[str, Any], known: Mapping[str, str], where: str, what: str) -> None:
    for name, value in record.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise HoldfastError(f"{where}: no field `{name}` in a {what}", hint=hint)
        if not _fits(value, known[name]):
            raise HoldfastError(f"{where}: `{name}` must be {known[name]}")


def _fits(value: object, kind: str) -> bool:
    if kind == FIELDS["lists"]:
        texts = value.values() if isinstance(value, dict) else [None]
        return all(_fits(one, "text") or _fits(one, "a list of texts") for one in texts)
    if kind in ITEMS:
        return isinstance(value, list) and all(_fits(item, ITEMS[kind]) for item in value)
    return isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "true or false")


TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str, "a whole number": int, "a number": (int, float), "true or false": bool, "a table": dict
}  # fmt: skip
ITEMS = {"a list of texts": "text", "a list of numbers": "a number"} | dict.fromkeys(
    (FIELDS["part"], FIELDS["board"], FIELDS["caveat"]), "a table"
)
