"""What a store says of one model: every run scored, set against the undisturbed one and beside other models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.intervals import z_value
from holdfast.core.types import Score
from holdfast.metrics.accuracy import Accuracy
from holdfast.metrics.compare import Comparison, compare
from holdfast.metrics.summary import Line, largest, line
from holdfast.site.conditions import condition, group, labels, order, trail
from holdfast.site.specimens import Specimen, specimens
from holdfast.store.files import Unusable
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class Beside:
    """Another model's run. `comparison` is ours against it on shared samples; `problem` says why there is none."""

    footer: Footer
    accuracy: Score
    comparison: Comparison | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of the model. `difference` is against the undisturbed run, on the samples both hold."""

    label: str
    line: Line
    difference: Score | None
    size: Score | None
    reasons: dict[str, int]
    unanswered: int
    beside: tuple[Beside, ...]
    specimens: tuple[Specimen, ...]
    pictures: int

    @property
    def footer(self) -> Footer:
        return self.line.footer

    @property
    def accuracy(self) -> Score:
        return self.line.accuracy

    @property
    def group(self) -> str:
        return group(self.footer)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything a report is made of. `nearby` are runs of other models that this one has no counterpart to."""

    model: str
    runs: tuple[Measured, ...]
    nearby: tuple[Beside, ...]
    unreadable: tuple[str, ...]
    superseded: int

    @property
    def newest(self) -> Footer:
        return max((run.footer for run in self.runs), key=lambda footer: footer.finished)

    @property
    def datasets(self) -> dict[str, tuple[Measured, ...]]:
        """The runs by dataset; content that changed under one name is another dataset."""
        contents: dict[str, set[str]] = {}
        for run in self.runs:
            contents.setdefault(run.footer.dataset, set()).add(run.footer.data)
        by_name: dict[str, tuple[Measured, ...]] = {}
        for run in self.runs:
            known = run.footer.dataset
            name = known if len(contents[known]) == 1 else f"{known} [data {run.footer.data[:8] or 'unknown'}]"
            by_name[name] = (*by_name.get(name, ()), run)
        return by_name

    @property
    def others(self) -> tuple[str, ...]:
        """The other models met on the way, most runs in common first."""
        met = Counter(other.footer.model for run in self.runs for other in run.beside)
        return tuple(sorted(met, key=lambda name: (-met[name], name)))


def findings(store: Store, model: str, *, beside: Collection[str] | None = None) -> Findings:
    """Reads every run once: a store larger than memory is fine. `beside` names the models to compare with."""
    every = list(store.footers().values())
    if not every:
        raise HoldfastError(f"no finished runs in {store.url}", hint="`holdfast evaluate` makes some")
    mine = [footer for footer in every if footer.model == model]
    if not mine:
        raise unknown("model", model, {footer.model for footer in every})
    chosen = sorted(largest(mine), key=order)
    theirs = largest(footer for footer in every if footer.model != model and (beside is None or footer.model in beside))
    rivals = _rivals(theirs)
    reader = _Reader(store)
    named = labels(chosen)
    runs: list[Measured] = []
    clean: Rows | None = None
    for footer in chosen:
        rows = reader.rows(footer)
        if rows is None:
            continue
        reference = _reference(footer, chosen)
        if reference is None:
            clean = None
        elif clean is None or clean.footer.key != reference.key:
            clean = rows if reference.key == footer.key else reader.rows(reference)
        runs.append(_measured(named[footer.key], rows, clean, reader, rivals.get(condition(footer), [])))
    if not runs:
        why = next(iter(reader.problems.values()), "they are gone")
        raise HoldfastError(
            f"no run of `{model}` in {store.url} can be read: {why}", hint="`holdfast verify` says more"
        )
    return Findings(
        model=model,
        runs=tuple(runs),
        nearby=tuple(_nearby(chosen, theirs, reader)),
        unreadable=tuple(reader.problems.values()),
        superseded=len(mine) - len(chosen),
    )


class _Reader:
    """Rows of a store; what cannot be read is kept to be told, once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problems: dict[str, str] = {}

    def rows(self, footer: Footer) -> Rows | None:
        try:
            return self.store.read(footer.key)
        except Unusable as error:
            self.problems[footer.key] = error.problem
            if self.store.tell is not None:
                self.store.left_aside(error.problem)
            return None


def _measured(label: str, rows: Rows, clean: Rows | None, reader: _Reader, theirs: Sequence[Footer]) -> Measured:
    pictures = reader.store.pictures(rows.footer.key)
    against = None if clean is None or not rows.footer.changes else _compared(rows, clean)
    reasons = Counter(str(reason) for reason in rows.table.column("reason").to_pylist() if reason is not None)
    return Measured(
        label=label,
        line=line(rows),
        difference=against.difference if isinstance(against, Comparison) else None,
        size=_mean_size(rows, clean),
        reasons=dict(reasons.most_common()),
        unanswered=int(np.isnan(rows.predictions).sum()),
        beside=tuple(_beside(rows, theirs, reader)),
        specimens=specimens(label, rows, clean, pictures),
        pictures=len(pictures),
    )


def _beside(rows: Rows, theirs: Sequence[Footer], reader: _Reader) -> Iterator[Beside]:
    for footer in theirs:
        other = reader.rows(footer)
        if other is not None:
            found = _compared(rows, other)
            compared, problem = (found, None) if isinstance(found, Comparison) else (None, found)
            yield Beside(footer, Accuracy()(other), compared, problem)


def _compared(one: Rows, other: Rows) -> Comparison | str:
    try:
        return compare(one, other)
    except HoldfastError as error:
        return error.problem


def _nearby(mine: Sequence[Footer], theirs: Sequence[Footer], reader: _Reader) -> Iterator[Beside]:
    """Others' runs on the same dataset under the same kind of change: they show where ours has a gap."""
    trails, conditions = {trail(footer) for footer in mine}, {condition(footer) for footer in mine}
    for footer in theirs:
        if trail(footer) in trails and condition(footer) not in conditions:
            rows = reader.rows(footer)
            if rows is not None:
                yield Beside(footer, Accuracy()(rows))


def _rivals(theirs: Sequence[Footer]) -> dict[str, list[Footer]]:
    """By condition, one run of each other model: the largest, then the latest."""
    best: dict[str, dict[str, Footer]] = {}
    for footer in sorted(theirs, key=lambda footer: (footer.model, footer.n, footer.finished)):
        best.setdefault(condition(footer), {})[footer.model] = footer
    return {met: list(by_model.values()) for met, by_model in best.items()}


def _reference(footer: Footer, mine: Sequence[Footer]) -> Footer | None:
    """The undisturbed run of the same weights on the same data, of the same seed where there is one."""
    found = [other for other in mine if not other.changes and _identity(other) == _identity(footer)]
    return max(found, key=lambda other: (other.seed == footer.seed, other.n, other.key), default=None)


def _identity(footer: Footer) -> tuple[str, str, str, str]:
    return (footer.dataset, footer.data, footer.weights, footer.model_full)


def _mean_size(rows: Rows, clean: Rows | None) -> Score | None:
    """Mean size over broken samples: wrong here, and right when undisturbed where that is known."""
    sizes = rows.floats("size")
    broken = ~rows.correct & np.isfinite(sizes)
    if clean is not None:
        wrong_before = {name for name, right in zip(clean.ids, clean.correct, strict=True) if not right}
        broken &= np.array([name not in wrong_before for name in rows.ids], dtype=bool)
    some = sizes[broken]
    if len(some) == 0:
        return None
    half = z_value() * float(some.std(ddof=1)) / math.sqrt(len(some)) if len(some) > 1 else math.inf
    mean = float(some.mean())
    return Score(mean, mean - half, mean + half, len(some))
