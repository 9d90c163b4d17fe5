"""Data inside pages and scripts: JSON that no parser of HTML or JavaScript reads as anything else."""

from __future__ import annotations

from markupsafe import Markup

from holdfast.core.json_text import json_text

ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def inline_json(value: object) -> Markup:
    """JSON for `<script type="application/json">`: a name cannot close the element or open a comment."""
    return Markup(json_text(value, compact=True).translate(ESCAPES))


def script(name: str, value: object) -> str:
    """A script that keeps a value for the page that loads it; unlike fetch, this works from a file."""
    return f"(globalThis.holdfast ??= {{}})[{inline_json(name)}] = {inline_json(value)};\n"
