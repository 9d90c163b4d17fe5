"""JSON that every reader takes: no NaN, no infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial


def json_text(value: object, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON with null for numbers that JSON does not have; keys and values that JSON does not know become text."""
    separators = (",", ":") if compact else None
    write = partial(json.dumps, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False, default=str)
    try:
        return write(value)
    except (ValueError, TypeError):
        return write(_without_odd_numbers(value))


def _without_odd_numbers(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _without_odd_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_odd_numbers(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
