"""The code of components that did not come with the package: an edited plug-in makes other rows.

The code of a factory is its source without comments, and that of the functions, classes and constants that it names,
as far as they are somebody's own: what is installed has a version and stays as it is.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.core.errors import Misuse
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.values import Value

KINDS = ("dataset", "corruption", "attack")
DIGITS = 12
CODE = "code of "  # what it begins with
PLAIN = (str, bytes, int, float, complex, bool, type(None))


def foreign_code(refs: tuple[Ref, ...]) -> str:
    """A digest of the code of those refs, and of refs in their arguments, that is no package's; empty for none."""
    named = dict.fromkeys((kind, name) for ref in refs for kind, name in _components(ref))
    digests = [f"{name} {digest}" for kind, name in named if (digest := _code_of(kind, name))]
    return f"{CODE}{', '.join(digests)}" if digests else ""


def is_installed(module: str) -> bool:
    """Whether a module came with this package, torch or another one, and stays as it is; others are edited."""
    if module.partition(".")[0] in ("holdfast", "torch", "builtins"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)


def _components(ref: Ref) -> Iterator[tuple[str, str]]:
    yield ref.kind, ref.name
    yield from _named(tuple(value for _, value in ref.args))


def _named(value: Value) -> Iterator[tuple[str, str]]:
    """The components that a value names, as `worst-of` names attacks."""
    if isinstance(value, tuple):
        for item in value:
            yield from _named(item)
    if not isinstance(value, str) or not value.strip():
        return
    try:
        parsed = parse_ref(value)
    except Misuse:
        return
    yield from ((kind, parsed.name) for kind in KINDS if parsed.name in registry.components.get(kind, {}))
    if parsed.positional or parsed.keywords:
        yield from _named((*parsed.positional, *parsed.keywords.values()))


def _code_of(kind: str, name: str) -> str:
    entry = registry.components.get(kind, {}).get(name)
    if entry is None or entry.factory.__module__.startswith("holdfast.") or is_installed(entry.factory.__module__):
        return ""
    return _digest(entry.factory)


@cache
def _digest(factory: Any) -> str:
    total, seen = hashlib.sha256(), set[int]()
    waiting = [factory]
    while waiting:
        thing = waiting.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        tree = _tree(thing)
        if tree is None:
            continue
        total.update(ast.unparse(tree).encode())  # unlike a dump, alike in all versions of Python
        known = vars(sys.modules[thing.__module__]) if thing.__module__ in sys.modules else {}
        known = known | getattr(thing, "__globals__", {})
        names = sorted({getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree)} - {""})
        own = [known[name] for name in names if isinstance(known.get(name), ModuleType) and _is_own(known[name])]
        for space in (known, *map(vars, own)):
            for name in names:
                value = space.get(name)
                if name in space and (data := _data(value)) is not None:
                    total.update(name.encode() + data)
                elif not is_installed(str(getattr(value, "__module__", "builtins"))):
                    is_code = inspect.isroutine(value) or isinstance(value, type)
                    waiting.append(value if is_code else type(value))
                    total.update(b"" if is_code else repr(sorted(_plain_parts(value))).encode())
    return total.hexdigest()[:DIGITS]


def _data(value: Any) -> bytes | None:
    """The bytes of a constant: numbers and words, collections of them, arrays and tensors."""
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        value = value.detach().cpu().numpy()
    if hasattr(value, "tobytes"):
        return bytes(value.tobytes())
    return repr(value).encode() if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(each) for item in value.items() for each in item)
    return isinstance(value, PLAIN) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


def _plain_parts(thing: Any) -> Iterator[tuple[str, str]]:
    """What an object holds that is data."""
    named = getattr(thing, "__dict__", None) or {name: getattr(thing, name, None) for name in _slots(thing)}
    for name, value in named.items():
        if (data := _data(value)) is not None:
            yield name, data.hex()


def _slots(thing: Any) -> tuple[str, ...]:
    slots = getattr(type(thing), "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_own(module: ModuleType) -> bool:
    return not is_installed(module.__name__)


def _tree(thing: Any) -> ast.AST | None:
    """The source of a function or class without comments and layout; None where there is none."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
