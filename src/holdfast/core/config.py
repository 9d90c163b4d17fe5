"""holdfast.toml: short names for models and datasets, and defaults, for the commands run beside it.

[models]
mine = "file:best.safetensors,architecture=resnet18-cifar"

[datasets]
birds = "folder:/data/birds,size=32"

[defaults]
store = "rows"
device = "cuda"
suite = "quick"
"""

from __future__ import annotations

import tomllib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.refs import Parsed, checked_name, parse_ref
from holdfast.core.values import shortened

FILE = "holdfast.toml"
STORE = "holdfast-store"
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Defaults:
    """What commands take where nothing is said."""

    store: str | None = None
    device: str | None = None
    suite: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """Refs by their short names, and defaults."""

    models: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)

    def names(self, kind: str) -> Mapping[str, str]:
        """Refs by name of `model` or `dataset`; other kinds have no names."""
        return {"model": self.models, "dataset": self.datasets}.get(kind, {})


_read: dict[tuple[str, int, int], Config] = {}


def read_config() -> Config:
    """The file of the current folder; without one, nothing is named."""
    path = Path(FILE)
    try:
        about = path.stat()
    except OSError:
        return Config()
    key = (str(path.absolute()), about.st_mtime_ns, about.st_size)
    if key not in _read:
        _read.clear()
        _read[key] = _parsed(path, about.st_size)
    return _read[key]


def parsed_name(name: str, text: str) -> Parsed:
    """The ref that a name of the file stands for, before anyone knows what it means."""
    try:
        return parse_ref(text)
    except Misuse as error:
        raise Misuse(f"`{name}` of {FILE}: {error.problem}", hint=error.hint) from error


def refuse_name_of_name(kind: str, name: str, other: str, known: Container[str], named: Container[str]) -> None:
    """Refuses what a name of holdfast.toml cannot stand for: another such name, a dataset with changes."""
    if "+" in other:
        raise Misuse(
            f"`{name}` of {FILE} must be a {kind} alone, got changes: `{shortened(other)}`",
            hint=f"put them into the scenario: `{name}+fog:severity=3`",
        )
    if other in named and other not in known:
        raise Misuse(
            f"`{name}` of {FILE} stands for `{other}`, which is a name too", hint=f"write the ref of `{other}`"
        )


def _parsed(path: Path, size: int) -> Config:
    if not path.is_file():
        raise HoldfastError(f"{path} is no file", hint="it is read where it lies beside the work: rename it")
    if size > MOST_BYTES:
        raise HoldfastError(f"{path} has {size:,} bytes, at most {MOST_BYTES:,} are read")
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        hint = 'write it like:  [models]  mine = "file:best.safetensors,architecture=resnet18-cifar"'
        raise Misuse(f"{path} is not valid TOML: {shortened(str(error), 200)}", hint=hint) from error
    known = [each.name for each in fields(Config)]
    for name, table in record.items():
        if name not in known:
            raise _unknown(f"table in {path}", name, known)
        if not isinstance(table, dict):
            raise Misuse(f"{path}: `{name}` must be a table", hint=f"write [{name}] and its lines below")
    defaults = record.get("defaults", {})
    options = [each.name for each in fields(Defaults)]
    for name, value in defaults.items():
        if name not in options:
            raise _unknown(f"default in {path}", name, options)
        if not isinstance(value, str) or not value:
            raise Misuse(f"{path}: `{name}` of [defaults] must be a text, got {_value(value)}")
    return Config(
        _refs(path, "models", record.get("models", {})),
        _refs(path, "datasets", record.get("datasets", {})),
        Defaults(**defaults),
    )


def _refs(path: Path, table: str, record: Mapping[str, Any]) -> dict[str, str]:
    for name, ref in record.items():
        try:
            checked_name(name)
        except Misuse as error:
            raise Misuse(f"{path}, [{table}]: {error.problem}", hint=error.hint) from error
        if not isinstance(ref, str) or not ref.strip():
            hint = f'{name} = "file:best.safetensors,architecture=resnet18-cifar"'
            if table == "datasets":
                hint = f'{name} = "folder:/data/birds,size=32"'
            raise Misuse(f"{path}, [{table}]: `{name}` must be the text of a ref, got {_value(ref)}", hint=hint)
    return dict(record)


def _value(value: object) -> str:
    return f"`{shortened(str(value))}`" if value != "" else "nothing"


def _unknown(kind: str, name: str, known: list[str]) -> Misuse:
    return unknown(kind, shortened(name), known, otherwise=f"there are: {', '.join(known)}")
