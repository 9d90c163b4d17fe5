"""Argument values as text: numbers, fractions, words, lists and nested refs, each with one spelling that reads back."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from numbers import Real

from holdfast.core.errors import Misuse

Value = bool | int | float | str | None | tuple["Value", ...]

WORDS: dict[str, Value] = {"true": True, "false": False, "none": None, "inf": math.inf, "-inf": -math.inf}
NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"  # one way to match: time grows with length alone
INTEGER = re.compile(r"[+-]?\d+")
FLOAT = re.compile(NUMBER)
RATIO = re.compile(rf"({NUMBER})/({NUMBER})")
QUOTED, ESCAPED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL), re.compile(r"\\(.)", re.DOTALL)
KEYWORD = re.compile(r"[a-z_][a-z0-9_]*=")
OPEN, CLOSE = "([", ")]"
SPECIAL = set('+,"\\()[]=') | set(" \t\n\r\f\v")
MOST_LETTERS = 100_000  # of a text that is read
MOST_DIGITS = 300  # of a number: more than any float has before its exponent
MOST_BRACKETS = 32  # inside each other


def parse_value(text: str) -> Value:
    """The value a piece of text stands for; a word that is nothing else is a string."""
    text = text.strip()
    if text.startswith('"'):
        return _unquoted(text)
    if text.startswith("[") and text.endswith("]"):
        inside = text[1:-1]
        return tuple(parse_value(item) for item in split(inside, ",")) if inside.strip() else ()
    if text.startswith("(") and text.endswith(")"):
        return text[1:-1]
    return WORDS[text] if text in WORDS else _number(text)


def _number(text: str) -> Value:
    """The number a word spells, finite and of a sane length; the word itself where it spells none."""
    ratio = RATIO.fullmatch(text)
    if ratio is None and FLOAT.fullmatch(text) is None:
        return text
    if len(text) > MOST_DIGITS:
        raise Misuse(f"`{shortened(text)}` has {len(text)} digits", hint=f"a number has at most {MOST_DIGITS}")
    if INTEGER.fullmatch(text):
        return int(text)
    if ratio is not None and float(ratio[2]) == 0:
        raise Misuse(f"`{text}` divides by zero")
    value = float(ratio[1]) / float(ratio[2]) if ratio is not None else float(text)
    if not math.isfinite(value):
        raise Misuse(f"`{text}` is too large for a number", hint="write `inf` for infinity, where it is allowed")
    return value


def shortened(text: str, most: int = 60) -> str:
    """The text as an error quotes it: a long one by its beginning."""
    return text if len(text) <= most else f"{text[:most]}…"


def value_text(value: Value) -> str:
    """The one spelling of a value; `parse_value` reads it back to the same value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return number_text(value)
        case str():
            return _string_text(value)
        case tuple():
            return "[" + ",".join(value_text(item) for item in value) + "]"
    raise TypeError(f"a value is a bool, int, float, str, None or a tuple of these, got {type(value).__name__}")


def number_text(value: float) -> str:
    """The shortest familiar spelling of a float: `8/255` rather than `0.03137254901960784`."""
    plain = repr(value).replace("e+", "e")  # a plus would part a scenario
    if len(plain) <= 8 or not math.isfinite(value):
        return plain
    ratio = Fraction(value).limit_denominator(1000)
    simple, in_levels = f"{ratio.numerator}/{ratio.denominator}", f"{round(value * 255, 6):g}/255"
    for text in (in_levels, simple) if abs(value) < 0.25 else (simple, in_levels):
        if len(text) < len(plain) and RATIO.fullmatch(text) and parse_value(text) == value:
            return text
    return plain


def split(text: str, separator: str, *, most: int = -1) -> list[str]:
    """Splits at separators that stand outside quotes and brackets."""
    if len(text) > MOST_LETTERS:
        raise Misuse(f"`{shortened(text)}` is {len(text):,} letters long, at most {MOST_LETTERS:,} are read")
    parts: list[str] = []
    start = 0
    depth: int | None = 0
    for i, depth in enumerate(depths(text)):
        if depth is not None and not 0 <= depth <= MOST_BRACKETS:
            break
        if depth == 0 and text[i] == separator and len(parts) != most:
            parts.append(text[start:i])
            start = i + 1
    if depth is not None and depth > MOST_BRACKETS:
        raise Misuse(f"more than {MOST_BRACKETS} brackets inside each other in `{shortened(text)}`")
    if depth != 0:
        raise Misuse(f"unbalanced quotes or brackets in `{shortened(text, 200)}`", hint='close every ", ( and [')
    return [*parts, text[start:]]


def depths(text: Iterable[str], *, opening: str = OPEN, closing: str = CLOSE, quote: str = '"') -> Iterator[int | None]:
    """For every letter of a text, how many brackets are open after it; None inside quotes."""
    depth, quoted, escaped = 0, False, False
    for letter in text:
        if escaped or (quoted and letter == "\\"):
            escaped = not escaped
        elif letter == quote:
            quoted = not quoted
        elif not quoted:
            depth += (letter in opening) - (letter in closing)
        yield None if quoted else depth


def _unquoted(text: str) -> str:
    quoted = QUOTED.fullmatch(text)
    if quoted is None:
        raise Misuse(f"text after the closing quote, or none, in `{text}`")
    return ESCAPED.sub(r"\1", quoted[1])


def _string_text(value: str) -> str:
    plain = bool(value) and not (SPECIAL & set(value)) and not any(letter.isspace() for letter in value)
    reads_as_number = any(form.fullmatch(value) for form in (INTEGER, FLOAT, RATIO))
    if plain and value not in WORDS and not reads_as_number:
        return value
    if _is_nested(value):
        return f"({value})"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_nested(value: str) -> bool:
    """A ref inside a ref reads best in parentheses; that needs balanced brackets and no quotes."""
    if not re.match(r"[a-z][a-z0-9-]*:", value) or '"' in value:
        return False
    levels = [0, *(depth or 0 for depth in depths(value))]
    return min(levels) == 0 == levels[-1]


def whole_or_none(value: object, name: str) -> int | None:
    """A whole number of any library as Python's own, or None; a fraction or a text is refused."""
    if value is None and name != "seed":
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise Misuse(f"--{name.replace('_', '-')} is a whole number, got `{shortened(str(value))}`") from None


def number_or_none(value: object, name: str) -> float | None:
    """A number of any library as Python's own, or None; a text is refused."""
    if value is None:
        return None
    if not isinstance(value, Real):
        raise Misuse(f"--{name} is a number such as 0.01, got `{shortened(str(value))}`")
    return float(value)
