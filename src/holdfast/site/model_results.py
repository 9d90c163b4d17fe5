"""The results of one model in a store: every run scored, compared with the undisturbed run and with other models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from holdfast.core.errors import HoldfastError, NoLabels, unknown
from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.metrics.accuracy import Accuracy
from holdfast.metrics.compare import Comparison, compare
from holdfast.metrics.confusion import DominantClass, dominant_class
from holdfast.metrics.means import mean_of_sizes
from holdfast.metrics.summary import NO_SCORE, Line, largest_selection, line
from holdfast.site.conditions import (
    SEARCHED,
    StrengthAxis,
    change_names,
    change_text,
    condition,
    group,
    labels,
    reading_order,
)
from holdfast.site.shown_samples import ShownSample, shown_samples
from holdfast.site.views import Name, View, every_view, identity, rows_at
from holdfast.store.files import Unusable
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows
from holdfast.store.store import Picture, Store

KEPT = 8  # runs in memory: those of other models are asked for at every radius of a sweep


@dataclass(frozen=True, slots=True)
class OtherRun:
    """Another model's run. `comparison` is ours against it on shared samples; `problem` says why there is none."""

    footer: Footer
    accuracy: Score
    comparison: Comparison | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of the model, or one radius of a run that searched over radii.

    `difference` is against the undisturbed run, on the samples both hold; `kept` is the share of the samples right
    there that stay right; `dominant` the class that wrong predictions name most, if one dominates; `predictions` the
    rows of a corrupted run without their logits, to average over runs.
    """

    label: str
    line: Line
    difference: Score | None
    kept: Score | None
    dominant: DominantClass | None
    size: Score | None
    reasons: dict[str, int]
    unanswered: int
    beside: tuple[OtherRun, ...]
    shown_samples: tuple[ShownSample, ...]
    pictures: int
    predictions: Rows | None = field(default=None, compare=False, repr=False)

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
class ModelResults:
    """Everything a report is made of.

    `runs` are the lines to show, a search over radii at each of them; `files` has every run once. `finished` counts the
    runs of the model in the store, also those that are not shown: of fewer samples, or not readable. `nearby` are runs
    of other models that this one has no counterpart to.
    """

    store: str
    model: str
    runs: tuple[MeasuredRun, ...]
    files: tuple[MeasuredRun, ...]
    finished: int
    nearby: tuple[OtherRun, ...]
    unreadable: tuple[str, ...]
    superseded: int

    @property
    def newest(self) -> Footer:
        return max((run.footer for run in self.runs), key=lambda footer: footer.finished)

    @property
    def datasets(self) -> dict[str, tuple[MeasuredRun, ...]]:
        """The runs by dataset; content that changed under one name is another dataset."""
        contents: dict[str, set[str]] = {}
        for run in self.runs:
            contents.setdefault(run.footer.dataset, set()).add(run.footer.data)
        by_name: dict[str, tuple[MeasuredRun, ...]] = {}
        for run in self.runs:
            known = run.footer.dataset
            name = known if len(contents[known]) == 1 else f"{known} [data {run.footer.data[:8] or 'unknown'}]"
            by_name[name] = (*by_name.get(name, ()), run)
        return by_name

    @property
    def others(self) -> tuple[str, ...]:
        """The other models with runs under the same scenarios, most runs in common first."""
        met = Counter(other.footer.model for run in self.runs for other in run.beside)
        return tuple(sorted(met, key=lambda name: (-met[name], name)))


def model_results(store: Store, model: str, *, beside: Collection[str] | None = None) -> ModelResults:
    """Reads every run once: a store larger than memory is fine. `beside` names the models to compare with."""
    every = list(store.footers().values())
    if not every:
        raise HoldfastError(f"no finished runs in {store.url}", hint="`holdfast evaluate` makes some")
    mine = [footer for footer in every if footer.model == model]
    if not mine:
        raise unknown("model", model, {footer.model for footer in every})
    every, mine = ([footer for footer in some if footer.has_labels] for some in (every, mine))
    if not mine:
        raise NoLabels(f"`{model}` was measured on data without labels alone", hint=NO_SCORE)
    chosen = largest_selection(mine)
    theirs = largest_selection(
        footer for footer in every if footer.model != model and (beside is None or footer.model in beside)
    )
    reader = _RowCache(store)
    shown, met = every_view(chosen, reader.keeps_radii), every_view(theirs, reader.keeps_radii)
    rivals = _rivals(met)
    clean: Rows | None = None
    runs: dict[Name, MeasuredRun] = {}
    for view, label in zip(shown, labels([view.footer for view in shown]), strict=True):
        rows = reader.rows(view)
        if rows is None:
            continue
        reference = _reference(view, shown)
        if reference is None:
            clean = None
        elif clean is None or clean.footer != reference.footer:
            clean = rows if reference.name == view.name else reader.rows(reference)
        pictures = store.pictures(view.footer.key) if view.is_last else []
        whole = reader.whole(view.footer.key)
        theirs_here = _beside(rows, rivals.get(condition(view.footer), []), reader)
        runs[view.name] = _measured(label, rows, clean, pictures, whole, tuple(theirs_here))
    if not runs:
        why = next(iter(reader.problems.values()), "they are gone")
        raise HoldfastError(
            f"no run of `{model}` in {store.url} can be read: {why}", hint="`holdfast verify` says more"
        )
    return ModelResults(
        store=store.url,
        model=model,
        runs=tuple(runs.values()),
        files=tuple(_files(chosen, runs.values())),
        finished=len(mine),
        nearby=tuple(_nearby(shown, met, reader)),
        unreadable=tuple(reader.problems.values()),
        superseded=len(mine) - len(chosen),
    )


@dataclass(slots=True)
class _RowCache:
    """Reads rows and keeps the last few; `problems` says once what cannot be read."""

    store: Store
    problems: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Rows] = field(default_factory=dict)

    def rows(self, view: View) -> Rows | None:
        """The rows at the view's radius; None where they cannot be read."""
        rows = self.whole(view.footer.key)
        return None if rows is None else rows_at(rows, view)

    def keeps_radii(self, footer: Footer) -> bool:
        """Whether the rows say at which radius each sample broke; yes of rows that cannot be read."""
        rows = self.whole(footer.key)
        return rows is None or rows.table.column("radius").null_count < len(rows)

    def whole(self, key: str) -> Rows | None:
        """The rows as they are."""
        if key in self.kept:
            return self.kept[key]
        if key in self.problems:
            return None
        try:
            rows = self.store.read(key)
        except Unusable as error:
            self.problems[key] = error.problem
            if self.store.tell is not None:
                self.store.left_aside(error.problem)
            return None
        while len(self.kept) >= KEPT:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = rows
        return rows


def _measured(
    label: str,
    rows: Rows,
    clean: Rows | None,
    pictures: Sequence[Picture],
    whole: Rows | None,
    beside: tuple[OtherRun, ...],
) -> MeasuredRun:
    against = None if clean is None or not rows.footer.changes else _compared(rows, clean)
    reasons = Counter(str(reason) for reason in rows.table.column("reason").to_pylist() if reason is not None)
    is_corrupted = group(rows.footer) == "corrupted"
    return MeasuredRun(
        label=label,
        line=line(rows),
        difference=against.difference if isinstance(against, Comparison) else None,
        kept=_kept(against) if isinstance(against, Comparison) else None,
        dominant=dominant_class(rows),
        size=_mean_size(rows, clean),
        reasons=dict(reasons.most_common()),
        unanswered=0 if whole is None else int(np.isnan(whole.predictions).sum()),
        beside=beside,
        predictions=Rows(rows.table.select(["id", "label", "prediction"]), rows.footer) if is_corrupted else None,
        shown_samples=shown_samples(_picture_label(label, rows.footer), rows, clean, pictures),
        pictures=len(pictures),
    )


def _picture_label(label: str, footer: Footer) -> str:
    """In a search over radii every sample has its own radius, so the label names none."""
    is_search = bool(footer.changes) and SEARCHED in footer.changes[-1].args
    return change_text(footer, without=StrengthAxis(len(footer.changes) - 1, "radius")) if is_search else label


def _kept(against: Comparison) -> Score:
    """Of the samples right when undisturbed, the share that stays right."""
    right = round(against.other.value * against.other.n)
    return wilson(right - against.only_other, right)


def _files(chosen: Sequence[Footer], runs: Iterable[MeasuredRun]) -> Iterator[MeasuredRun]:
    """Every run once, under its own name: a search over radii by its largest radius."""
    last = {run.footer.key: run for run in runs}  # a search stands before its attack first, and at most radius last
    there = [footer for footer in sorted(chosen, key=reading_order) if footer.key in last]
    for footer, label in zip(there, labels(there), strict=True):
        yield replace(last[footer.key], label=label)


def _beside(rows: Rows, theirs: Sequence[View], reader: _RowCache) -> Iterator[OtherRun]:
    for view in theirs:
        other = reader.rows(view)
        if other is not None:
            comparison = _compared(rows, other)
            compared, problem = (comparison, None) if isinstance(comparison, Comparison) else (None, comparison)
            yield OtherRun(view.footer, Accuracy()(other), compared, problem)


def _compared(one: Rows, other: Rows) -> Comparison | str:
    try:
        return compare(one, other)
    except HoldfastError as error:
        return error.problem


def _nearby(mine: Sequence[View], theirs: Sequence[View], reader: _RowCache) -> Iterator[OtherRun]:
    """Others' runs on the same dataset under the same kind of change: they show where ours has a gap."""
    trails, conditions = {change_names(view.footer) for view in mine}, {condition(view.footer) for view in mine}
    for view in theirs:
        if change_names(view.footer) in trails and condition(view.footer) not in conditions:
            rows = reader.rows(view)
            if rows is not None:
                yield OtherRun(view.footer, Accuracy()(rows))


def _rivals(theirs: Sequence[View]) -> dict[str, list[View]]:
    """By condition, one run of each other model: the largest, then the latest."""
    best: dict[str, dict[str, View]] = {}
    for view in sorted(theirs, key=lambda view: (view.footer.model, view.footer.n, view.footer.finished)):
        best.setdefault(condition(view.footer), {})[view.footer.model] = view
    return {met: list(by_model.values()) for met, by_model in best.items()}


def _reference(view: View, mine: Sequence[View]) -> View | None:
    """The undisturbed run of the same weights on the same data, of the same seed where there is one."""
    footer = view.footer
    undisturbed = [other for other in mine if not other.footer.changes and identity(other.footer) == identity(footer)]
    return max(
        undisturbed,
        key=lambda other: (other.footer.seed == footer.seed, other.footer.n, other.footer.key),
        default=None,
    )


def _mean_size(rows: Rows, clean: Rows | None) -> Score | None:
    """Mean size over broken samples: wrong here, changed at all, and right when undisturbed where that is known."""
    sizes = rows.floats("size")
    broken = ~rows.correct & np.isfinite(sizes) & (sizes > 0)  # an attack leaves alone what is wrong before it
    if clean is not None:
        wrong_before = {name for name, right in zip(clean.ids, clean.correct, strict=True) if not right}
        broken &= np.array([name not in wrong_before for name in rows.ids], dtype=bool)
    return mean_of_sizes(sizes[broken]) if broken.any() else None
