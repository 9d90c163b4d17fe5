"""JSON that every reader takes: no NaN, no infinity, no negative zero."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import partial

NEGATIVE_ZERO = re.compile(r"-0\.0(?![\d.e])")


def json_text(value: object, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON with null for numbers that JSON does not have, 0.0 for -0.0; what else JSON does not know becomes text."""
    separators = (",", ":") if compact else None
    write = partial(json.dumps, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False, default=str)
    try:
        text = write(value)
    except (ValueError, TypeError):
        return write(_without_odd_numbers(value))
    return write(_without_odd_numbers(value)) if NEGATIVE_ZERO.search(text) else text


def attributes(thing: object, *names: str) -> dict[str, object]:
    """These attributes by name, to be written as JSON."""
    return {name: getattr(thing, name) for name in names}


def _without_odd_numbers(value: object) -> object:
    if isinstance(value, Mapping):
        known = str | int | None  # kinds of keys that JSON has
        return {key if isinstance(key, known) else str(key): _without_odd_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_odd_numbers(item) for item in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    return value
