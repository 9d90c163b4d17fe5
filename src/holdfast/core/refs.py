"""Refs, scenarios and runs: what is measured, as text that reads back and as keys that name its rows.

    pgd-linf:radius=8/255,steps=10                       a ref
    folder:/data/birds,size=224+fog:severity=3+pgd-l2    a scenario: a dataset, then what happens to it, in order

A ref holds every argument, defaults included, and the version of what it names. So a changed default or a changed
implementation is another key, and never mistaken for rows made before.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.core.errors import Misuse
from holdfast.core.values import KEYWORD, Value, parse_value, shortened, split, value_text

Args = tuple[tuple[str, Value], ...]
NOT_IN_NAMES = '+:,=()[]{}"\\'  # what refs and scenarios are written with
MOST_NAME = 80  # letters
TELLING = ("severity", "radius")  # always in the text: a reader should not have to know the default


class Parsed(NamedTuple):
    """A ref as written, before anyone knows what the name means."""

    name: str
    positional: tuple[Value, ...]
    keywords: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Ref:
    """A named component with all its arguments; equal refs do equal things.

    `alias` is the short name that a user gave it: tables and messages show it, keys and footers do not.
    """

    kind: str
    name: str
    args: Args
    version: int
    positional: int = 0
    shown: frozenset[str] = field(default=frozenset(), compare=False)
    alias: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.alias or self.plain

    @property
    def plain(self) -> str:
        """The text without arguments at their default, whatever name the ref has."""
        return self._text(tuple(arg for arg in self.args if arg[0] in self.shown))

    @property
    def full(self) -> str:
        """The text with every argument spelled out."""
        return self._text(self.args)

    @property
    def key(self) -> str:
        """A digest of kind, name, version and all arguments."""
        return digest(self.identity)

    @property
    def identity(self) -> list[object]:
        return [self.kind, self.name, self.version, [[name, value_text(value)] for name, value in self.args]]

    def arg(self, name: str) -> Value:
        return dict(self.args)[name]

    def _text(self, args: Args) -> str:
        nameless = {name for name, _ in self.args[: self.positional]}
        items = [value_text(value) if name in nameless else f"{name}={value_text(value)}" for name, value in args]
        return f"{self.name}:{','.join(items)}" if items else self.name


@dataclass(frozen=True, slots=True)
class Scenario:
    """A dataset and what happens to it, in order."""

    dataset: Ref
    changes: tuple[Ref, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    @property
    def plain(self) -> str:
        return "+".join(part.plain for part in self.parts)

    @property
    def parts(self) -> tuple[Ref, ...]:
        return (self.dataset, *self.changes)

    @property
    def full(self) -> str:
        return "+".join(part.full for part in self.parts)

    @property
    def key(self) -> str:
        return digest([part.identity for part in self.parts])


@dataclass(frozen=True, slots=True)
class Run:
    """A model under a scenario, on a choice of samples; `key` names its rows.

    `weights` and `data` are digests of what the refs pointed to, so that new weights under an old path are a new run.
    `answers` is a digest of the label map, where there is one, and `behaviour` names how a model answers that can
    change without its weights. `logits` is `all` where rows keep every logit that they would not keep otherwise.
    `sources` names what changes took from outside, such as photographs, where that is not what comes with the package.
    `samples` is how many of the keyed, stratified order were asked for (None: all);
    `precision` is the half-width of the interval at which the run may stop.
    """

    model: Ref
    scenario: Scenario
    seed: int = 0
    samples: int | None = None
    precision: float | None = None
    weights: str = ""
    data: str = ""
    answers: str = ""
    behaviour: str = ""
    logits: str = ""
    sources: str = ""

    @property
    def family(self) -> str:
        """The same for every choice of samples: rows of one family may stand in for each other."""
        scenario = [part.identity for part in self.scenario.parts]
        late = [f"{name} {text}" for name, text in (("logits", self.logits), ("sources", self.sources)) if text]
        more = [self.answers, self.behaviour, *late] if self.answers or self.behaviour or late else []
        return digest([self.model.identity, self.weights, scenario, self.data, self.seed, *more])

    @property
    def key(self) -> str:
        return digest([self.family, self.samples, self.precision])

    @property
    def selection(self) -> str:
        """The choice of samples in words: `all`, `500 samples`, `precision 1%`."""
        words = [] if self.samples is None else [f"{self.samples} samples"]
        if self.precision is not None:
            words.append(f"precision {100 * self.precision:g}%")
        return ", ".join(words) or "all"


def parse_ref(text: str) -> Parsed:
    """Reads `name:positional,key=value,...`."""
    name, *rest = split(text.strip(), ":", most=1)
    name = name.strip()
    if not name:
        raise Misuse(
            f"a ref starts with a name, got `{shortened(text)}`", hint="write it like `pgd-linf:radius=8/255,steps=10`"
        )
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    for item in split(rest[0], ",") if rest and rest[0].strip() else []:
        if KEYWORD.match(item.strip()):
            key, _, value = item.strip().partition("=")
            if key in keywords:
                raise Misuse(f"`{shortened(key)}` is given twice in `{shortened(text, 200)}`")
            keywords[key] = parse_value(value)
        elif keywords:
            problem = f"`{shortened(item.strip())}` has no name in `{shortened(text, 200)}`"
            raise Misuse(problem, hint="write `name=value`, or quote the comma")
        else:
            positional.append(parse_value(item))
    return Parsed(name, tuple(positional), keywords)


def named_ref(ref: Ref, name: str) -> Ref:
    """The ref under a short name."""
    return replace(ref, alias=checked_name(name))


def split_name(text: str) -> tuple[str, str]:
    """`mine=python:nets:make` as its name and its ref; the name is empty where there is none."""
    before, equals, rest = text.partition("=")
    if not equals or ":" in before or "+" in before or "," in before:
        return "", text
    return checked_name(before.strip()), rest


def checked_name(name: str) -> str:
    """A short name for a model or a dataset; refused where it could be taken for a ref, or cannot be shown."""
    odd = sorted(set(printable_name(name)) & set(NOT_IN_NAMES))
    if odd:
        listed = " ".join(odd)
        raise Misuse(
            f"`{shortened(name)}` cannot be a name: it has {listed}", hint=f"a name has none of {NOT_IN_NAMES}"
        )
    return name


def printable_name(name: str, *, most: int = MOST_NAME) -> str:
    """The name of anything; refused where tables and files cannot show it."""
    if name != name.strip() or not name or not name.isprintable() or len(name) > most:
        raise Misuse(
            f"`{shortened(name)!r}` cannot be a name".replace("`'", "`").replace("'`", "`"),
            hint=f"a name is one line of at most {most} letters, without blanks at its ends",
        )
    return name


def digest(thing: object) -> str:
    """A short stable digest of anything JSON can hold."""
    text = json.dumps(thing, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
