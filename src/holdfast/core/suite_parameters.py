"""Parameters of suites: what follows their names, what it stands for in their texts, and which caveats hold for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse, did_you_mean, unknown
from holdfast.core.home import first_network
from holdfast.core.suite_types import Column
from holdfast.core.values import shortened

NETWORK = "network"  # the parameter whose default is the first network with weights on this machine
STRONGER = {"published": "false"}  # the parameters that `--stronger` stands for


def suite_reference(text: str) -> tuple[str, dict[str, str]]:
    """The name or path of a suite, and the parameters that follow it: `NAME:network=alexnet,published=false`."""
    name, colon, rest = text.partition(":")
    if not colon or text.endswith(".toml"):
        return text, {}
    given = {}
    for word in rest.split(","):
        key, equals, value = word.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise Misuse(
                f"`{shortened(word)}` in `{shortened(text, 200)}` is no parameter of a suite",
                hint="parameters follow the name as in `multirobustbench:network=alexnet`",
            )
        given[key.strip()] = value.strip()
    return name, given


def listed_values(table: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    return {name: [one] if isinstance(one, str) else one for name, one in table.items()}


def chosen_values(choices: Mapping[str, Sequence[str]], given: Mapping[str, str], suite: str) -> dict[str, str]:
    """The value of every parameter: the given one, or the first of its choices; of a network, the first there is."""
    for name in given:
        if name not in choices:
            otherwise = f"suite `{suite}` has no parameters" if not choices else None
            raise unknown(f"parameter of `{suite}`", name, choices, otherwise=otherwise)
    made = {name: first_network(each) if name == NETWORK else each[0] for name, each in choices.items()}
    for name, value in given.items():
        if name != NETWORK and value not in choices[name]:
            raise Misuse(
                f"`{name}` of `{suite}` must be one of {', '.join(choices[name])}, got `{shortened(value)}`",
                hint=did_you_mean(value, choices[name]),
            )
    return made | dict(given)


def text_fragments(chosen: Mapping[str, str], choices: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What stands for a parameter in texts: `{NAME}` its value, `{+NAME}` `,NAME=VALUE`, and `{:NAME}` `:NAME=VALUE`.

    The latter two are nothing where the value is the last choice, which is what a scenario means that leaves it out.
    """
    made: dict[str, list[str]] = {}
    for name, value in chosen.items():
        text = "" if value == choices[name][-1] else f"{name}={value}"
        made |= {name: [value], f"+{name}": [text and f",{text}"], f":{name}": [text and f":{text}"]}
    return made


def with_caveats(
    columns: Sequence[Column], caveats: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]
) -> tuple[Column, ...]:
    """The columns with the caveats that hold for these parameters; a column made of others has theirs too."""
    own: dict[str, tuple[str, ...]] = {}
    made = []
    for column in columns:
        texts = [one["text"] for one in caveats if column.name in one["columns"] and _holds(one, chosen)]
        inherited = [text for other in column.of for text in own[other]]
        own[column.name] = tuple(dict.fromkeys((*column.caveats, *texts, *inherited)))
        made.append(replace(column, caveats=own[column.name]))
    return tuple(made)


def _holds(caveat: Mapping[str, Any], chosen: Mapping[str, str]) -> bool:
    values = {f"{name}={value}" for name, value in chosen.items()}
    return caveat.get("when", next(iter(values), "")) in values | {""} and caveat.get("unless") not in values


def check_parameters(record: Mapping[str, Any], columns: Sequence[str], path: Path, dataset: str) -> None:
    """Refuses parameters without values or with the name of a list, and caveats of no column or no parameter."""
    choices = listed_values(record.get("parameters", {}))
    for name, values in choices.items():
        if not values or name == dataset or name in record.get("lists", {}):
            raise HoldfastError(f"{path}: parameter `{name}` has no value, or the name of a list")
    for caveat in record.get("caveat", ()):
        if "text" not in caveat or not caveat.get("columns"):
            raise HoldfastError(f"{path}: a caveat needs `text` and `columns`")
        for name in caveat["columns"]:
            if name not in columns:
                raise HoldfastError(f"{path}: a caveat is of `{name}`, which no column is")
        for field in ("when", "unless"):
            name, _, value = caveat.get(field, "").partition("=")
            if field in caveat and (name not in choices or not value):
                raise HoldfastError(
                    f"{path}: `{field}` of a caveat is PARAMETER=VALUE, got `{caveat[field]}`",
                    hint=f"there are: {', '.join(choices)}" if choices else "declare it under [parameters]",
                )
