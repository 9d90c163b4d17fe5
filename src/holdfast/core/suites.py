"""Suites: benchmarks as data. A suite is a TOML file that lists scenarios; braces stand for alternatives.

title = "Corruptions"
dataset = "fashion-mnist-2k"
scenarios = ["{dataset}", "{dataset}+{contrast,jpeg}:severity={1,3,5}"]

A suite may say which scores its board shows, and part its scenarios so that some of them can be run alone. All fields
are in docs/suites.md.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse, did_you_mean, unknown
from holdfast.core.patterns import Patterns
from holdfast.core.patterns import expanded as expanded
from holdfast.core.values import shortened

FOLDER = Path(__file__).parent.parent / "suites"
DATASET = "dataset"
MOST_BYTES = 1_000_000  # of a suite file
Terms = tuple[tuple[str, ...], ...]

SPACES = ("logit", "linear", "probit")
UNITS = ("percent", "fraction", "points", "number", "nats")
BETTER = ("higher", "lower", "")


@dataclass(frozen=True, slots=True)
class Column:
    """A score of a board: the mean of its terms, each the mean of all it lists; `of` names other columns instead.

    `score` makes something else than accuracy of each scenario, or than a mean of them all, by name: a metric, against
    the rows of `reference` where it needs some, or one of `boards.column_scores`. An `effective-robustness` is the
    first column of `of` above what `weights` and `intercept` make of the others on logit scale; `line` says whose line
    that is. A `detail` is not needed for an entry to be complete.
    """

    name: str
    title: str = ""
    unit: str = "percent"
    better: str = "higher"
    scenarios: Terms = ()
    settings: Terms = ()
    of: tuple[str, ...] = ()
    score: str = ""
    part: str = ""
    reference: str = ""
    weights: tuple[float, ...] = ()
    intercept: float = 0.0
    line: str = ""
    detail: bool = False

    @property
    def every_scenario(self) -> list[str]:
        """The scenarios of all terms, without the reference."""
        return [text for term in self.scenarios for text in term]

    @property
    def every_setting(self) -> list[str]:
        return [text for term in self.settings for text in term]


@dataclass(frozen=True, slots=True)
class SuitePart:
    """Some scenarios of a suite under a name, to run alone or to score together.

    `settings` are the names that published results have for its scenarios, one each and in their order.
    """

    name: str
    title: str
    scenarios: tuple[str, ...]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of scenarios, and what it asks for when the caller does not.

    Lines over its models are drawn on the scale `space`, through the models that `fit` selects without those that
    `leave_out` does (selectors of `trends.selecting`; all models without any). `imports` is the format of `holdfast
    import` that brings its published results. `is_moved`: it is of another dataset than its own, so that nothing
    published belongs to it.
    """

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
    parts: tuple[SuitePart, ...] = ()
    notes: tuple[str, ...] = ()
    space: str = SPACES[0]
    fit: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    imports: str = ""
    is_moved: bool = False

    @property
    def board_name(self) -> str:
        """Names the board of this suite: one per suite and dataset."""
        return f"{self.name} on {self.dataset}" if self.is_moved else self.name

    @property
    def options(self) -> str:
        """What `holdfast evaluate` and `holdfast board` need besides the name of the suite."""
        return f" --dataset {shlex.quote(self.dataset)}" if self.is_moved else ""

    def only(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The scenarios of some parts, in the order of the suite; of no part: all."""
        known = {part.name: part for part in self.parts}
        for name in parts:
            if name not in known:
                otherwise = None if known else f"suite `{self.name}` has no parts"
                raise unknown(f"part of `{self.name}`", name, known, otherwise=otherwise)
        kept = {text for name in parts for text in known[name].scenarios}
        return tuple(text for text in self.scenarios if text in kept) if parts else self.scenarios


KINDS = {  # of a field, by the type of what is made of it → what it must be, as errors say it
    "str": "text",
    "int | None": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of texts",
    "tuple[float, ...]": "a list of numbers",
    "Terms": "a list of texts",
    "tuple[Column, ...]": "tables, each under [[board]]",
}
PART_FIELDS = {each.name: KINDS[str(each.type)] for each in fields(SuitePart)}
COLUMN_FIELDS = {each.name: KINDS[str(each.type)] for each in fields(Column)}
FIELDS = {each.name: KINDS[str(each.type)] for each in fields(Suite) if each.name not in ("name", "parts", "is_moved")}
FIELDS |= {"part": "tables, each under [[part]]", "lists": "a table of texts and lists of texts"}
AS_WRITTEN = ("about", "source", "models", "samples", "notes", "space", "fit", "leave_out", "imports")


def suites() -> dict[str, Path]:
    """The suites that ship with the package."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def published_lists() -> dict[str, Path]:
    """Boards of published results that ship with the package and have nothing to run."""
    return {file.stem: file for file in sorted((FOLDER / "lists").glob("*.toml"))}


def load_suite(name: str, *, dataset: str | None = None) -> Suite:
    """A bundled suite by name, or one's own by the path of its file; `dataset` replaces the suite's own."""
    known = suites()
    path = known.get(name) or published_lists().get(name) or Path(name)
    if path.suffix != ".toml":
        raise unknown("suite", name, known, otherwise="name one of `holdfast list suites`, or the path of a .toml file")
    record = _read(path)
    _check(record, path)
    lists = {name: [one] if isinstance(one, str) else one for name, one in record.get("lists", {}).items()}
    own = record.get("dataset", "")
    is_moved = bool(own) and dataset not in (None, own)
    if over := dataset or own:
        lists[DATASET] = [over]
    elif any("{dataset}" in text for text in _patterns(record)):
        raise Misuse(f"suite `{path.stem}` needs a dataset", hint="give one with --dataset")
    patterns = Patterns(lists)
    parts = {part["name"]: _part(part, patterns, path) for part in record.get("part", ())}
    columns = tuple(_column(column, patterns, parts) for column in record.get("board", ()))
    scenarios = patterns.texts(record.get("scenarios", ()))
    scenarios += [text for part in parts.values() for text in part.scenarios]
    scenarios += [text for column in columns for text in (*column.every_scenario, column.reference) if text]
    as_written = {name: record[name] for name in AS_WRITTEN if name in record}
    fixed: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in as_written.items()}
    return Suite(
        name=path.stem,
        title=f"{record['title']}, on {over}" if is_moved else record["title"],
        scenarios=tuple(dict.fromkeys(scenarios)) if columns or parts else tuple(scenarios),
        dataset=over,
        published=() if is_moved else tuple(record.get("published", ())),
        sort=record.get("sort", columns[0].name if columns else ""),
        board=columns,
        parts=tuple(_joined(part, columns) for part in parts.values()),
        is_moved=is_moved,
        **fixed,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise Misuse(f"no suite file at {shortened(str(path), 200)}")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise HoldfastError(f"{path} has {size:,} bytes, a suite has at most {MOST_BYTES:,}")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HoldfastError(f"{shortened(str(path), 200)} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise HoldfastError(f"{path} is not a suite: its values lie too deep inside each other") from error
    except ValueError as error:  # what is not TOML, not UTF-8, or a number too long to be one
        raise HoldfastError(f"{path} is not valid TOML: {shortened(str(error), 200)}") from error


def _patterns(record: Mapping[str, Any]) -> list[str]:
    tables = (record, *record.get("part", ()), *record.get("board", ()))
    return [text for table in tables for text in (*table.get("scenarios", ()), table.get("reference", ""))]


def _part(record: dict[str, Any], patterns: Patterns, path: Path) -> SuitePart:
    scenarios, settings = (tuple(patterns.texts(record.get(kind, ()))) for kind in ("scenarios", "settings"))
    if settings and len(settings) != len(scenarios):
        raise HoldfastError(
            f"{path}: part `{record['name']}` has {len(scenarios)} scenarios and {len(settings)} settings",
            hint="name the published setting of every scenario, in their order",
        )
    return SuitePart(record["name"], record.get("title", record["name"]), scenarios, settings)


def _column(record: dict[str, Any], patterns: Patterns, parts: Mapping[str, SuitePart]) -> Column:
    """A column that names a part and lists nothing itself is of all that the part lists."""
    words = {name: value for name, value in record.items() if name not in ("scenarios", "settings")}
    for name in ("of", "weights"):
        words[name] = tuple(words.get(name, ()))
    scenarios, settings = (
        tuple(tuple(patterns.texts([text])) for text in record.get(kind, ())) for kind in ("scenarios", "settings")
    )
    if "part" in record and not scenarios:
        part = parts[record["part"]]
        scenarios = tuple((text,) for text in part.scenarios)
        settings = settings or tuple((text,) for text in part.settings)
    if "reference" in words:
        references = patterns.texts([words["reference"]])
        if len(references) != 1:
            raise Misuse(f"the reference of `{words['name']}` is one scenario, got {len(references)}")
        (words["reference"],) = references
    return Column(**words, scenarios=scenarios, settings=settings)


def _joined(part: SuitePart, columns: Sequence[Column]) -> SuitePart:
    """The part with what its columns add to it."""
    own = [text for column in columns if column.part == part.name for text in column.every_scenario]
    return SuitePart(part.name, part.title, tuple(dict.fromkeys((*part.scenarios, *own))), part.settings)


def _check(record: dict[str, Any], path: Path) -> None:
    _check_fields(record, FIELDS, f"{path}", "suite")
    if "title" not in record:
        raise HoldfastError(f"{path}: a suite needs `title`")
    if not any(name in record for name in ("scenarios", "part", "board")):
        raise HoldfastError(f"{path}: a suite needs `scenarios`", hint="a list of texts such as `{dataset}+fog`")
    if record.get("samples", 1) < 1:
        raise HoldfastError(f"{path}: `samples` must be at least 1, got {record['samples']}")
    if DATASET in record.get("lists", {}):
        raise HoldfastError(f"{path}: a list cannot be named `dataset`", hint="`dataset = …` says what {dataset} is")
    _check_choice(record, "space", SPACES, f"{path}: `space`")
    _check_parts(record.get("part", ()), path)
    _check_columns(record.get("board", ()), [part["name"] for part in record.get("part", ())], path)
    names = [column["name"] for column in record.get("board", ())]
    sort = record.get("sort", names[0] if names else "")
    if names and sort not in names:
        raise HoldfastError(f"{path}: `sort` names no column", hint=f"there are: {', '.join(names)}")
    if any(column["name"] == sort and column.get("detail") for column in record.get("board", ())):
        raise HoldfastError(f"{path}: `sort` names a detail, which an entry may lack", hint="name another column")


def _check_parts(parts: Sequence[dict[str, Any]], path: Path) -> None:
    names: list[str] = []
    for part in parts:
        _check_fields(part, PART_FIELDS, f"{path}, part", "part")
        _check_name(part, names, path, "part")


def _check_columns(columns: Sequence[dict[str, Any]], parts: Sequence[str], path: Path) -> None:
    names: list[str] = []
    for column in columns:
        _check_fields(column, COLUMN_FIELDS, f"{path}, board", "column of a board")
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
        for field, allowed in (("unit", UNITS), ("better", BETTER)):
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


def _check_fields(record: dict[str, Any], known: Mapping[str, str], where: str, what: str) -> None:
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
    (FIELDS["part"], FIELDS["board"]), "a table"
)
