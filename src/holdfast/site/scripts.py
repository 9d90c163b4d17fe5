"""Data inside pages and scripts: JSON that no parser of HTML or JavaScript reads as anything else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from markupsafe import Markup

ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def inline_json(value: object) -> Markup:
    """JSON for `<script type="application/json">`: a name cannot close the element or open a comment."""
    try:
        text = _json(value)
    except ValueError:  # a number that JSON does not have
        text = _json(_plain(value))
    return Markup(text.translate(ESCAPES))


def script(place: str, value: object) -> str:
    """A script that keeps a value for the page that loads it; unlike fetch, this works from a file."""
    return f"(globalThis.holdfast ??= {{}})[{inline_json(place)}] = {inline_json(value)};\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: object) -> object:
    """NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
