"""Types of models as the ImageNet testbed has them: `model_types.py`, read as data and never run, or JSON.

JSON is `{model: {"nat": TYPE, "fine": TYPE}}` or `{model: TYPE}`. The Python file assigns a dictionary of enum members
to `model_types_map`, may add to it in loops over a range, and maps fine types to coarse ones in `mapper`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.core.errors import Misuse
from holdfast.store.source_files import BadFile, Source, beside, opened

TYPES, COARSER = "model_types_map", "mapper"
MOST = 100_000  # models that a loop may name
FOLDERS = ("", "plotting/")  # where the file lies: beside the accuracies, or as in the public repository


class ModelType(NamedTuple):
    """The type of a model, and the finer one where the file tells them apart."""

    type: str
    fine: str = ""


class Typed(NamedTuple):
    """Types by model, and the files that say so."""

    types: Mapping[str, ModelType]
    sources: tuple[Source, ...] = ()


def types_beside(path: Path) -> Typed:
    """The types that lie beside a file; where both kinds of file do, they must agree."""
    made: dict[str, ModelType] = {}
    sources: list[Source] = []
    for pattern in ("model_types*.json", "model_types*.py"):
        files = [file for folder in FOLDERS if (file := beside(path, folder + pattern)) is not None]
        for file in files[:1]:
            source = opened(file)
            types = _from_json(source) if file.suffix == ".json" else _from_python(source)
            for model, kind in types.items():
                if made.get(model, kind).type != kind.type:
                    names = " and ".join(each.path.name for each in (*sources, source))
                    raise Misuse(
                        f"{names} disagree on `{model}`: {made[model].type} and {kind.type}",
                        hint="keep the one that belongs to these results",
                    )
            made = types | made
            sources.append(source)
    return Typed(made, tuple(sources))


def _from_json(source: Source) -> dict[str, ModelType]:
    content = source.json()
    if not isinstance(content, dict) or not content:
        raise BadFile(f"{source.path} holds no types", hint='{"model": {"nat": "STANDARD"}} or {"model": "STANDARD"}')
    made = {}
    for model, kind in content.items():
        if isinstance(kind, str):
            made[model] = ModelType(kind)
        elif isinstance(kind, dict) and isinstance(kind.get("nat"), str):
            made[model] = ModelType(kind["nat"], str(kind.get("fine", "")))
        else:
            raise BadFile(f"{source.path} gives no type `nat` for `{model}`")
    return made


def _from_python(source: Source) -> dict[str, ModelType]:
    try:
        module = ast.parse(source.text())
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadFile(f"{source.path} is no Python file: {error}", hint="fetch it again") from error
    fine: dict[str, str] = {}
    coarser: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.For) and TYPES in ast.dump(node):
            fine |= dict(_looped(node, source))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and _name(node) in (TYPES, COARSER):
            (fine if _name(node) == TYPES else coarser).update(_pairs(node.value, source))
        elif isinstance(node, ast.Assign) and _is_item(node.targets[0]):
            fine[_text(_index(node.targets[0]), {}, source)] = _member(node.value, source)
    if not fine:
        raise BadFile(f"{source.path} assigns no dictionary to `{TYPES}`", hint="is it the testbed's model_types.py?")
    return {model: ModelType(coarser.get(kind, kind), kind) for model, kind in fine.items()}


def _name(node: ast.Assign) -> str:
    """The one name that is assigned to; nothing where there is no such."""
    return node.targets[0].id if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) else ""


def _is_item(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == TYPES


def _index(target: ast.expr) -> ast.expr:
    assert isinstance(target, ast.Subscript), "asked of an item only"
    return target.slice


def _pairs(node: ast.Dict, source: Source) -> Iterator[tuple[str, str]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise _odd(value, source)
        name = _member(key, source) if isinstance(key, ast.Attribute) else _text(key, {}, source)
        yield name, _member(value, source)


def _looped(node: ast.For, source: Source) -> Iterator[tuple[str, str]]:
    """What `for i in range(n): model_types_map[f"…{i}…"] = Type` adds."""
    call, statement = node.iter, node.body[0]
    is_range = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
    bounds = [each.value for each in call.args if isinstance(each, ast.Constant)] if isinstance(call, ast.Call) else []
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    is_plain = isinstance(node.target, ast.Name) and isinstance(statement, ast.Assign) and len(node.body) == 1
    if not is_range or not 1 <= len(numbers) == len(bounds) <= 3 or not is_plain:
        raise _odd(node, source)
    assert isinstance(statement, ast.Assign), "looked at above"
    assert isinstance(node.target, ast.Name), "looked at above"
    if not _is_item(statement.targets[0]) or len(range(*numbers)) > MOST:
        raise _odd(node, source)
    for i in range(*numbers):
        yield _text(_index(statement.targets[0]), {node.target.id: i}, source), _member(statement.value, source)


def _text(node: ast.expr, names: Mapping[str, int], source: Source) -> str:
    """A text, or an f-string of texts and the loop's number."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names, source) for part in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) and node.value.id in names:
        return str(names[node.value.id])
    raise _odd(node, source)


def _member(node: ast.expr, source: Source) -> str:
    """`STANDARD` of `ModelTypes.STANDARD`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _odd(node, source)


def _odd(node: ast.AST, source: Source) -> BadFile:
    line = getattr(node, "lineno", "?")
    return BadFile(
        f"{source.path}, line {line}: types are read, not computed, and this is neither a name nor a type",
        hint='write them as JSON beside the results: {"model": "STANDARD"}',
    )
