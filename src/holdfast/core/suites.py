"""Suites: benchmarks as data. A suite is a TOML file that lists scenarios; braces stand for alternatives.

title = "Corruptions"
dataset = "fashion-mnist-2k"
scenarios = ["{dataset}", "{dataset}+{contrast,jpeg}:severity={1,3,5}"]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import HoldfastError, Misuse, did_you_mean, unknown

FOLDER = Path(__file__).parent.parent / "suites"
FIELDS = {"title": str, "about": str, "source": str, "dataset": str, "scenarios": list, "models": list, "samples": int}
REQUIRED = ("title", "scenarios")


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
    written = [text.replace("{dataset}", over) for text in record["scenarios"]]
    if any("{dataset}" in text for text in record["scenarios"]) and not over:
        raise Misuse(f"suite `{path.stem}` needs a dataset", hint="give one with --dataset")
    return Suite(
        name=path.stem,
        title=record["title"],
        scenarios=tuple(text for pattern in written for text in expanded(pattern)),
        about=record.get("about", ""),
        source=record.get("source", ""),
        dataset=over,
        models=tuple(record.get("models", ())),
        samples=record.get("samples"),
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


def _check(record: dict[str, object], path: Path) -> None:
    for name, value in record.items():
        if name not in FIELDS:
            raise HoldfastError(f"{path}: no field `{name}` in a suite", hint=did_you_mean(name, FIELDS))
        if not isinstance(value, FIELDS[name]):
            wanted = {str: "text", list: "a list of texts", int: "a whole number"}[FIELDS[name]]
            raise HoldfastError(f"{path}: `{name}` must be {wanted}")
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            raise HoldfastError(f"{path}: `{name}` must be a list of texts")
    for name in REQUIRED:
        if name not in record:
            raise HoldfastError(f"{path}: a suite needs `{name}`")
