"""Suites: benchmarks as data. A suite is a TOML file that lists scenarios; braces stand for alternatives.

title = "Corruptions"
dataset = "fashion-mnist-2k"
scenarios = ["{dataset}", "{dataset}+{contrast,jpeg}:severity={1,3,5}"]

A suite may say which scores its board shows, and part its scenarios so that some of them can be run alone. All fields
are in docs/suites.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.patterns import Patterns
from holdfast.core.patterns import expanded as expanded
from holdfast.core.suite_checks import DATASET, FIELDS, check_fields, check_suite
from holdfast.core.suite_parameters import chosen_values, listed_values, suite_reference, text_fragments, with_caveats
from holdfast.core.suite_types import Column as Column
from holdfast.core.suite_types import Suite as Suite
from holdfast.core.suite_types import SuitePart as SuitePart
from holdfast.core.values import shortened, split

FOLDER = Path(__file__).parent.parent / "suites"
MOST_BYTES = 1_000_000  # of a file
MOST_EXTENDED = 4  # suites that extend each other
EACH = "{each}"
OWN_SIZE = "own-size:"
CONVERTED = ("title", "scenarios", "dataset", "published", "sort", "board", "part", "lists", "caveat", "parameters")


def suites() -> dict[str, Path]:
    """The suites that ship with the package."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def published_lists() -> dict[str, Path]:
    """Boards of published results that ship with the package and have nothing to run."""
    return {file.stem: file for file in sorted((FOLDER / "lists").glob("*.toml"))}


def load_suite(name: str, *, dataset: str | None = None, parameters: Mapping[str, str] | None = None) -> Suite:
    """A bundled suite by name, or one's own by the path of its file; `dataset` replaces the suite's own.

    Its parameters may follow the name, as in `multirobustbench:network=alexnet`, or be given as `parameters`.
    """
    name, given = suite_reference(name)
    given |= dict(parameters or {})
    known = suites()
    path = known.get(name) or published_lists().get(name) or Path(name)
    if path.suffix != ".toml":
        raise unknown("suite", name, known, otherwise="name one of `holdfast list suites`, or the path of a .toml file")
    bundled = [*known.values(), *published_lists().values()]
    if path not in bundled:
        return _loaded(path, dataset, tuple(given.items()))
    return _loaded_once(path, dataset, tuple(given.items()), tuple(_file_state(file) for file in bundled))


@lru_cache(maxsize=1024)
def _loaded_once(
    path: Path, dataset: str | None, given: tuple[tuple[str, str], ...], _states: tuple[tuple[str, int, int], ...]
) -> Suite:
    """A bundled suite, read again where a bundled file has changed: one may extend another."""
    return _loaded(path, dataset, given)


def _file_state(path: Path) -> tuple[str, int, int]:
    """Changes with a file."""
    try:
        stat = path.stat()
    except OSError:
        return str(path), -1, -1
    return str(path), stat.st_mtime_ns, stat.st_size


def _loaded(path: Path, dataset: str | None, given: tuple[tuple[str, str], ...]) -> Suite:
    record = _whole(path)
    lists = listed_values(record.get("lists", {}))
    if "board" in record:
        record["board"] = [one for column in record["board"] for one in _columns_for_each(column, lists, path)]
    check_suite(record, path)
    choices = listed_values(record.get("parameters", {}))
    chosen = chosen_values(choices, dict(given), path.stem)
    lists |= text_fragments(chosen, choices)
    defaults = chosen_values(choices, {}, path.stem)
    own = record.get("dataset", "")
    is_moved = bool(own) and dataset not in (None, own)
    if over := dataset or own:
        lists[DATASET] = [over]
    elif any("{dataset}" in text for text in _patterns(record)):
        raise Misuse(f"suite `{path.stem}` needs a dataset", hint="give one with --dataset")
    patterns = Patterns(lists)
    parts = {part["name"]: _part(part, patterns, path) for part in record.get("part", ())}
    columns = tuple(_column(column, patterns, parts) for column in record.get("board", ()))
    columns = with_caveats(columns, () if is_moved else record.get("caveat", ()), chosen)
    scenarios = patterns.texts(record.get("scenarios", ()))
    scenarios += [text for part in parts.values() for text in part.scenarios]
    scenarios += [text for column in columns for text in (*column.every_scenario, column.reference) if text]
    as_written = {name: one for name, one in record.items() if name not in CONVERTED}
    fixed: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in as_written.items()}
    suite = Suite(
        name=path.stem,
        title=f"{record['title']}, on {over}" if is_moved else record["title"],
        scenarios=tuple(dict.fromkeys(scenarios)) if columns or parts else tuple(scenarios),
        dataset=over,
        published=() if is_moved else tuple(record.get("published", ())),
        sort=record.get("sort", columns[0].name if columns else ""),
        board=columns,
        parts=tuple(_joined(part, columns) for part in parts.values()),
        parameters=tuple(chosen.items()),
        choices=tuple((name, tuple(values)) for name, values in choices.items()),
        variant=",".join(f"{name}={value}" for name, value in chosen.items() if value != defaults[name]),
        is_moved=is_moved,
        **fixed,
    )
    return _sized_by_models(suite) if suite.own_size else suite


def toml_of(path: Path, what: str) -> dict[str, Any]:
    """What a file says that holds a suite or a recipe."""
    try:
        if not path.is_file():
            raise Misuse(f"no {what} file at {shortened(str(path), 200)}")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise HoldfastError(f"{path} has {size:,} bytes, a {what} has at most {MOST_BYTES:,}")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HoldfastError(f"{shortened(str(path), 200)} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise HoldfastError(f"{path} is not a {what}: its values lie too deep inside each other") from error
    except ValueError as error:  # what is not TOML, not UTF-8, or a number too long to be one
        raise HoldfastError(f"{path} is not valid TOML: {shortened(str(error), 200)}") from error


def _whole(path: Path, *, depth: int = 0) -> dict[str, Any]:
    """What a file says, on top of the suite that it extends: a field or a list of its own takes the other's place."""
    record = toml_of(path, "suite")
    check_fields(
        {name: record[name] for name in ("board", "lists", "extends") if name in record}, FIELDS, f"{path}", "suite"
    )
    if "extends" in record:
        name = record.pop("extends")
        if depth == MOST_EXTENDED:
            raise HoldfastError(f"{path} extends a suite that extends another, and so on", hint="extend the first one")
        beside = path.parent / name
        other = suites().get(name) or published_lists().get(name) or (beside if beside.is_file() else Path(name))
        if other.suffix != ".toml":
            raise unknown("suite", name, suites(), otherwise=f"{path} extends it: name a suite, or a .toml file")
        below = _whole(other, depth=depth + 1)
        record = {**below, **record, "lists": {**below.get("lists", {}), **record.get("lists", {})}}
    return record


def _columns_for_each(column: dict[str, Any], lists: Mapping[str, list[str]], path: Path) -> list[dict[str, Any]]:
    """A column for every text of the list that it names with `each`, `{each}` being that text; else itself."""
    column = dict(column)
    of = column.get("of")
    if isinstance(of, list) and all(isinstance(name, str) for name in of) and any("{" in name for name in of):
        column["of"] = [text for name in of for text in ([name] if EACH in name else expanded(name, lists))]
    if "each" not in column:
        return [column]
    name = column["each"]
    if not isinstance(name, str) or name not in lists:
        raise HoldfastError(
            f"{path}: `each` of `{column.get('name', '')}` names no list", hint=f"there are: {', '.join(lists)}"
        )
    texts = Patterns(lists).texts(lists[name])
    return [{field: _with_text(value, text) for field, value in column.items()} | {"each": text} for text in texts]


def _with_text(value: Any, text: str) -> Any:
    if isinstance(value, list):
        return [_with_text(item, text) for item in value]
    return value.replace(EACH, text) if isinstance(value, str) else value


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
    words = {name: value for name, value in record.items() if name not in ("scenarios", "settings", "each")}
    if "each" in record:  # a list of the suite may speak of it too
        patterns = Patterns({**patterns.lists, EACH[1:-1]: [record["each"]]})
    for name in ("of", "weights", "weights_above", "caveats"):
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


def _sized_by_models(suite: Suite) -> Suite:
    """The suite with every dataset wrapped, so that each model has it at its own size."""
    return replace(
        suite,
        dataset=_at_own_size(suite.dataset),
        scenarios=tuple(map(_at_own_size, suite.scenarios)),
        parts=tuple(replace(part, scenarios=tuple(map(_at_own_size, part.scenarios))) for part in suite.parts),
        board=tuple(
            replace(
                column,
                scenarios=tuple(tuple(map(_at_own_size, term)) for term in column.scenarios),
                reference=_at_own_size(column.reference),
            )
            for column in suite.board
        ),
    )


def _at_own_size(scenario: str) -> str:
    if not scenario:
        return scenario
    dataset, *changes = split(scenario, "+")
    if dataset.startswith(OWN_SIZE):
        return scenario
    return "+".join([f"{OWN_SIZE}({dataset})" if ":" in dataset else f"{OWN_SIZE}{dataset}", *changes])
