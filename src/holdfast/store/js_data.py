"""Data in a JavaScript file, such as `var accuracies = {'linf': 8/255}`: read, never run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from holdfast.core.errors import HoldfastError

MOST_DEPTH = 100
Item = TypeVar("Item")
CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
STRICT = re.compile(r"(?:'use strict'|\"use strict\")\s*;?")
ASSIGNED = re.compile(
    r"export\s+default\b|(?:(?:export\s+)?(?:var|let|const)\s+)?[A-Za-z_$][\w$]*(?:\.[\w$]+)*\s*=(?!=)"
)
# the value once more under a name, as modules do: no data of its own
EXPORTED = re.compile(
    r";|(?:if\s*\([^()]*\)\s*\{?\s*)?"
    r"(?:export\s+default\s+[\w$]+|export\s*\{[\w$\s,]*\}"
    r"|(?:module\.)?exports(?:\.[\w$]+)?\s*=\s*(?:[A-Za-z_$][\w$]*|\{[\w$\s,]*\}))"
    r"\s*;?\s*\}?"
)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
WORD = re.compile(r"[A-Za-z_$][\w$]*")
TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\$]|\\.)*)`", re.DOTALL)
ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def js_data(text: str) -> object:
    """The one value that a file assigns or exports: objects, lists, texts, numbers, products of them such as 8/255."""
    reader = _Reader(text)
    value = reader.assigned()
    reader.end()
    return value


class _Reader:
    """A position in the text, and what can be read from there."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def assigned(self) -> object:
        for before in (STRICT, ASSIGNED):
            self._space()
            match = before.match(self.text, self.at)
            self.at = match.end() if match else self.at
        return self.value()

    def end(self) -> None:
        self._space()
        while match := EXPORTED.match(self.text, self.at):
            self.at = match.end()
            self._space()
        if self.at < len(self.text):
            raise self._wrong("more than one value")

    def value(self) -> object:
        sign = self._next()
        if sign in ("{", "["):
            self._deeper()
            value = dict(self._items("}", self._pair)) if sign == "{" else list(self._items("]", self.value))
            self.depth -= 1
            return value
        if sign in ("'", '"', "`"):
            return self._string()
        if sign == "(" or NUMBER.match(self.text, self.at):
            return self._product()
        match = WORD.match(self.text, self.at)
        if match is None or match[0] not in CONSTANTS:
            raise self._wrong("a value expected")
        self.at = match.end()
        return CONSTANTS[match[0]]

    def _items(self, end: str, item: Callable[[], Item]) -> Iterator[Item]:
        """What stands between brackets, with commas between."""
        self.at += 1
        while self._next() != end:
            yield item()
            if self._next() != end:
                self._take(",")
        self.at += 1

    def _pair(self) -> tuple[str, object]:
        key = self._key()
        self._take(":")
        return key, self.value()

    def _key(self) -> str:
        if self._next() in ("'", '"'):
            return self._string()
        if match := WORD.match(self.text, self.at):
            self.at = match.end()
            return match[0]
        return repr(float(self._matched(NUMBER, "a name expected")[0])).removesuffix(".0")

    def _string(self) -> str:
        match = self._matched(TEXT, "a text without an end")
        text = ESCAPE.sub(_unescaped, next(part for part in match.groups() if part is not None))
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u make one character

    def _product(self) -> float | int:
        number = self._factor()
        while (sign := self._next()) in ("*", "/"):
            self.at += 1
            self._space()
            start, factor = self.at, self._factor()
            if sign == "/" and not factor:
                self.at = start
                raise self._wrong("a number other than 0 expected below the line of a fraction")
            number = number * factor if sign == "*" else number / factor
        return number

    def _factor(self) -> float | int:
        if self._next() == "(":
            self._deeper()
            self.at += 1
            number = self._product()
            self._take(")")
            self.depth -= 1
            return number
        return _plain_number(self._matched(NUMBER, "a number expected")[0])

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self._wrong(f"more than {MOST_DEPTH} brackets inside each other")

    def _next(self) -> str:
        self._space()
        return self.text[self.at : self.at + 1]

    def _space(self) -> None:
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _matched(self, form: re.Pattern[str], problem: str) -> re.Match[str]:
        match = form.match(self.text, self.at)
        if match is None:
            raise self._wrong(problem)
        self.at = match.end()
        return match

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            raise self._wrong(f"`{sign}` expected")
        self.at += 1

    def _wrong(self, problem: str) -> HoldfastError:
        line = self.text.count("\n", 0, self.at) + 1
        return HoldfastError(
            f"line {line}: {problem}, at `{self.text[self.at : self.at + 30]}`",
            hint="the file must hold one value, such as `var data = {…}`; code is not run",
        )


def _plain_number(text: str) -> float | int:
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 20 else float(text)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    return ESCAPES.get(match[4], match[4])
