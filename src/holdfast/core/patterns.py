"""Texts with braces for alternatives: `{contrast,jpeg}:severity={1,3}` stands for four, in reading order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.errors import Misuse
from holdfast.core.values import CLOSE, MOST_LETTERS, OPEN, depths, shortened

Lists = Mapping[str, Sequence[str]]
MOST_TEXTS = 20_000  # that the patterns of one suite or command stand for
MOST_EXPANDED = 20_000_000  # letters of them
MOST_BRACES = 32  # inside each other


def expanded(pattern: str, lists: Lists | None = None) -> list[str]:
    """All texts a pattern with braces stands for, in reading order: `a{1,2{x,y}}` is `a1`, `a2x`, `a2y`.

    The name of a list alone in braces stands for each of its texts.
    """
    return Patterns(lists).texts([pattern])


class Patterns:
    """Texts with braces and what they stand for, with a limit on how many and how long that is in all."""

    def __init__(self, lists: Lists | None = None) -> None:
        self.lists = lists or {}
        self.known: dict[str, list[str]] = {}
        self.made = 0

    def texts(self, patterns: Iterable[str]) -> list[str]:
        """What all the patterns stand for, in their order."""
        every: list[str] = []
        for pattern in patterns:
            if len(pattern) > MOST_LETTERS:
                raise Misuse(f"`{shortened(pattern)}` is {len(pattern):,} letters long, at most {MOST_LETTERS:,}")
            texts = self._expanded(pattern, 0)
            self.made += len(texts)
            if self.made > MOST_TEXTS:
                raise self._too_many(pattern)
            every += texts
        return every

    def _expanded(self, pattern: str, depth: int) -> list[str]:
        if depth > MOST_BRACES:
            hint = "does a list name itself?" if self.lists else None
            raise Misuse(f"more than {MOST_BRACES} braces inside each other in `{shortened(pattern)}`", hint=hint)
        texts, at = [""], 0
        while (start := pattern.find("{", at)) >= 0:
            options, end = _alternatives(pattern, start)
            before, inner = _unopened(pattern[at:start], pattern), self._inner(options, depth + 1)
            letters = sum(map(len, texts)) * len(inner) + len(texts) * sum(map(len, inner))
            if len(texts) * len(inner) > MOST_TEXTS or letters > MOST_EXPANDED:
                raise self._too_many(pattern)
            texts = [text + before + one for text in texts for one in inner]
            at = end + 1
        rest = _unopened(pattern[at:], pattern)
        return [text + rest for text in texts]

    def _inner(self, options: list[str], depth: int) -> list[str]:
        if len(options) > 1 or options[0] not in self.lists:
            return self._each(options, depth)
        name = options[0]
        if name not in self.known:
            self.known[name] = self._each(self.lists[name], depth)
        return self.known[name]

    def _each(self, patterns: Sequence[str], depth: int) -> list[str]:
        texts: list[str] = []
        for pattern in patterns:
            texts += self._expanded(pattern, depth)
            if len(texts) > MOST_TEXTS:
                raise self._too_many(pattern)
        return texts

    def _too_many(self, pattern: str) -> Misuse:
        hint = "list fewer alternatives, or evaluate them in parts"
        return Misuse(f"`{shortened(pattern)}` stands for more than {MOST_TEXTS:,} texts", hint=hint)


def _alternatives(pattern: str, start: int) -> tuple[list[str], int]:
    """What stands between the commas of the brace that opens at `start`, and where it closes.

    A comma inside brackets belongs to what they hold, one before an argument to the arguments: `{mix:[a,b],c=1,d}` has
    two alternatives. A bracket that does not close before the brace does is a letter like any other.
    """
    ends: list[int] = []  # where alternatives end
    brackets: list[str] = []  # what closes those that are open
    before = 0  # ends before the first of these
    letters = map(pattern.__getitem__, range(start, len(pattern)))
    for i, depth in enumerate(depths(letters, opening="{", closing="}", quote=""), start):
        letter = pattern[i]
        if depth == 0:
            starts = [start + 1, *(end + 1 for end in ends)]
            return _with_arguments([pattern[a:b].strip() for a, b in zip(starts, [*ends, i], strict=True)]), i
        if (depth or 0) > MOST_BRACES:
            raise Misuse(f"more than {MOST_BRACES} braces inside each other in `{shortened(pattern)}`")
        if depth == 1 and letter == ",":
            ends.append(i)
        elif depth == 1 and letter in OPEN:
            before = before if brackets else len(ends)
            brackets.append(CLOSE[OPEN.index(letter)])
        elif depth == 1 and letter in brackets:
            while brackets.pop() != letter:
                pass
            if not brackets:
                del ends[before:]
    raise Misuse(f"a brace is opened but not closed in `{shortened(pattern, 200)}`")


def _with_arguments(options: list[str]) -> list[str]:
    """Further arguments belong to the alternative before: `{,+pgd-linf:radius=1,steps=5}` has two, not three."""
    joined = options[:1]
    for option in options[1:]:
        if _is_argument(option) and ":" in joined[-1].rpartition("+")[2]:
            joined[-1] += f",{option}"
        else:
            joined.append(option)
    return joined


def _is_argument(option: str) -> bool:
    """`steps=5`; what has a colon or a plus outside brackets is a ref with a name."""
    name, equals, value = option.partition("=")
    outside = (letter for letter, depth in zip(value, depths(value), strict=True) if depth == 0)
    return bool(equals) and name.isidentifier() and not {":", "+"} & set(outside)


def _unopened(text: str, pattern: str) -> str:
    if "}" in text:
        raise Misuse(f"a brace is closed but not opened in `{shortened(pattern, 200)}`")
    return text
