"""What a suite holds: its columns, its parts, and what it says of itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.errors import unknown

Terms = tuple[tuple[str, ...], ...]
SPACES = ("logit", "linear", "probit")
UNITS = ("percent", "fraction", "points", "number", "nats")
BETTER = ("higher", "lower", "")
LOGITS = ("", "all")


@dataclass(frozen=True, slots=True)
class Column:
    """A score of a board: the mean of its terms, each the mean of all it lists; `of` names other columns instead.

    `score` makes something else than accuracy of each scenario, or than a mean of them all, by name: a metric, against
    the rows of `reference` where it needs some, or one of `boards.column_scores`. An `effective-robustness` is the
    first column of `of` above what `weights` and `intercept` make of the others on the scale `space`; `line` says whose
    line that is. With a `pivot` that line ends there, and `weights_above` and `intercept_above` go on above it. A
    `detail` is not needed for an entry to be complete. `caveats`: what keeps its numbers or ranks from being like for
    like with those printed.
    """

    name: str
    title: str = ""
    unit: str = "percent"
    better: str = "higher"
    scenarios: Terms = ()
    settings: Terms = ()
    of: tuple[str, ...] = ()
    score: str = ""
    part: str = ""
    reference: str = ""
    weights: tuple[float, ...] = ()
    intercept: float = 0.0
    line: str = ""
    detail: bool = False
    space: str = SPACES[0]
    pivot: float | None = None
    weights_above: tuple[float, ...] = ()
    intercept_above: float = 0.0
    caveats: tuple[str, ...] = ()

    @property
    def every_scenario(self) -> list[str]:
        """The scenarios of all terms, without the reference."""
        return [text for term in self.scenarios for text in term]

    @property
    def every_setting(self) -> list[str]:
        return [text for term in self.settings for text in term]


@dataclass(frozen=True, slots=True)
class SuitePart:
    """Some scenarios of a suite under a name, to run alone or to score together.

    `settings` are the names that published results have for its scenarios, one each and in their order.
    """

    name: str
    title: str
    scenarios: tuple[str, ...]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of scenarios, and what it asks for when the caller does not.

    Lines over its models are drawn on the scale `space`, through the models that `fit` selects without those that
    `leave_out` does (selectors of `trends.selecting`; all models without any). `imports` is the format of `holdfast
    import` that brings its published results. `logits`: `all` where rows keep every logit, however many classes there
    are. `parameters` are the values that its texts were filled with, `variant` those of them that are not the default,
    as in `NAME:network=alexnet`, `choices` the usual values of each. `is_moved`: it is of another dataset than its
    own, so that nothing published belongs to it. `own_size`: every dataset is at the size and crop of the evaluated
    model.
    """

    name: str
    title: str
    scenarios: tuple[str, ...]
    about: str = ""
    source: str = ""
    dataset: str = ""
    models: tuple[str, ...] = ()
    samples: int | None = None
    published: tuple[str, ...] = ()
    sort: str = ""
    board: tuple[Column, ...] = ()
    parts: tuple[SuitePart, ...] = ()
    notes: tuple[str, ...] = ()
    space: str = SPACES[0]
    fit: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    imports: str = ""
    logits: str = LOGITS[0]
    parameters: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    variant: str = ""
    is_moved: bool = False
    own_size: bool = False

    @property
    def board_name(self) -> str:
        """Names the board of this suite: one per suite, parameters and dataset."""
        name = f"{self.name}:{self.variant}" if self.variant else self.name
        return f"{name} on {self.dataset}" if self.is_moved else name

    @property
    def options(self) -> str:
        """What `holdfast evaluate` and `holdfast board` need after the name of the suite."""
        variant = f":{self.variant}" if self.variant else ""
        return variant + (f" --dataset {shlex.quote(self.dataset)}" if self.is_moved else "")

    @property
    def caveats(self) -> dict[str, list[str]]:
        """Every caveat, with the titles of the columns that it is of; details only where no other column has it."""
        made: dict[str, list[str]] = {}
        for column in sorted(self.board, key=lambda column: column.detail):
            for text in column.caveats:
                if not column.detail or text not in made:
                    made.setdefault(text, []).append(column.title or column.name)
        return made

    def only(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The scenarios of some parts, in the order of the suite; of no part: all."""
        known = {part.name: part for part in self.parts}
        for name in parts:
            if name not in known:
                otherwise = None if known else f"suite `{self.name}` has no parts"
                raise unknown(f"part of `{self.name}`", name, known, otherwise=otherwise)
        kept = {text for name in parts for text in known[name].scenarios}
        return tuple(text for text in self.scenarios if text in kept) if parts else self.scenarios
