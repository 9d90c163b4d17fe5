"""What a suite file abbreviates: a column for each text of a list, and datasets at the size of the evaluated model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError
from holdfast.core.patterns import Patterns, expanded
from holdfast.core.values import split

if TYPE_CHECKING:
    from holdfast.core.suites import Suite

EACH = "{each}"
OWN_SIZE = "own-size:"


def text_lists(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lists of a suite file; a text alone is a list of one."""
    return {name: [one] if isinstance(one, str) else one for name, one in record.get("lists", {}).items()}


def columns_for_each(column: dict[str, Any], lists: Mapping[str, list[str]], path: Path) -> list[dict[str, Any]]:
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


def sized_by_models(suite: Suite) -> Suite:
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
