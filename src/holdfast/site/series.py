"""Lines to draw: runs that differ in one severity or one radius and in nothing else. A missing step is kept as one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from holdfast.core.types import Score
from holdfast.core.values import number_text
from holdfast.site import wording
from holdfast.site.conditions import THEN, StrengthAxis, axes, condition, labels, strength_on
from holdfast.site.model_results import MeasuredRun, OtherRun
from holdfast.site.views import identity
from holdfast.store.footer import Footer

ChartPoints = tuple["ChartPoint | None", ...]


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One measured value on a line."""

    x: float
    score: Score
    partial: bool
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line of the model, and those of other models under the same conditions. None where nothing was measured."""

    label: str
    axis: str
    ticks: tuple[float, ...]
    own: ChartPoints
    others: dict[str, ChartPoints]
    keys: frozenset[str]

    @property
    def lowest(self) -> ChartPoint:
        return min(self.measured, key=lambda point: point.score.value)

    @property
    def last(self) -> ChartPoint:
        return self.measured[-1]

    @property
    def measured(self) -> list[ChartPoint]:
        return [point for point in self.own if point is not None]


def series(runs: Sequence[MeasuredRun], nearby: Iterable[OtherRun], clean: MeasuredRun | None = None) -> list[Series]:
    """Every line of two points or more, along severities and along radii.

    An attack of radius 0 is none: a line along radii begins at `clean` where that rests on the same samples.
    """
    lines: dict[tuple[StrengthAxis, str, str, str], list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        for axis in axes(run.footer):
            key = (axis, condition(run.footer, without=axis), run.footer.weights, run.footer.model_full)
            lines[key].append(run)
    joined = {key: some for key, some in lines.items() if len({strength_on(run.footer, key[0]) for run in some}) > 1}
    spare = list(nearby)
    all_series = []
    for axis in dict.fromkeys(key[0] for key in joined):
        along = [(key[1], some) for key, some in joined.items() if key[0] == axis]
        named = labels([some[0].footer for _, some in along], without=axis)
        for label, (met, some) in zip(named, along, strict=True):
            near = [other for other in spare if axis in axes(other.footer)]
            made = _series(label, some, axis, [each for each in near if condition(each.footer, without=axis) == met])
            all_series.append(made if clean is None else _from_zero(made, some[0].footer, clean))
    return all_series


def unjoined(runs: Sequence[MeasuredRun], drawn: Iterable[Series]) -> list[MeasuredRun]:
    """The runs that lie on no line: one strength only, or none."""
    keys = {key for one in drawn for key in one.keys}
    return [run for run in runs if run.footer.key not in keys]


def on_one_ladder(drawn: Sequence[Series]) -> list[Series]:
    """The same lines over the same ticks, for one picture of all."""
    ticks = _ladder("severity", {tick for one in drawn for tick in one.ticks})
    return [replace(one, ticks=ticks, own=_laid(one.measured, ticks)) for one in drawn]


def without_common_end(drawn: Sequence[Series]) -> tuple[list[Series], str]:
    """The lines with what all of them end in taken out of their names, and that end: `then pgd-linf at …`."""
    parts = [one.label.split(THEN) for one in drawn]
    common: list[str] = []
    while len(parts) > 1 and all(len(some) > 1 for some in parts) and len({some[-1] for some in parts}) == 1:
        common.insert(0, parts[0][-1])
        parts = [some[:-1] for some in parts]
    named = [replace(one, label=THEN.join(some)) for one, some in zip(drawn, parts, strict=True)]
    return named, f"then {THEN.join(common)}" if common else ""


def segments(points: ChartPoints) -> list[list[ChartPoint]]:
    """The stretches without a gap."""
    runs = groupby(points, key=lambda point: point is not None)
    return [[point for point in run if point is not None] for is_measured, run in runs if is_measured]


def tick_texts(axis: str, ticks: Sequence[float]) -> tuple[str, list[str]]:
    """The name of an axis and its tick labels; 255ths are counted, for `8` is quicker to read than `8/255`."""
    if axis == "severity":
        return axis, [f"{tick:g}" for tick in ticks]
    texts = [number_text(tick) if tick else "0" for tick in ticks]
    if all(text.endswith("/255") or tick == 0 for text, tick in zip(texts, ticks, strict=True)):
        return f"{axis}, in 255ths", [text.removesuffix("/255") for text in texts]
    return axis, [text if "/" in text else f"{tick:g}" for text, tick in zip(texts, ticks, strict=True)]


def _series(label: str, runs: Sequence[MeasuredRun], axis: StrengthAxis, spare: Sequence[OtherRun]) -> Series:
    own = {strength_on(run.footer, axis): _point(axis, run.footer, run.accuracy) for run in runs}
    theirs: dict[str, dict[float, ChartPoint]] = defaultdict(dict)
    for other in [*spare, *(other for run in runs for other in run.beside)]:
        point = _point(axis, other.footer, other.accuracy)
        theirs[other.footer.model][point.x] = point
    ticks = _ladder(axis.name, {*own, *(x for points in theirs.values() for x in points)})
    return Series(
        label=label,
        axis=axis.name,
        ticks=ticks,
        own=_laid(own.values(), ticks),
        others={model: _laid(points.values(), ticks) for model, points in sorted(theirs.items())},
        keys=frozenset(run.footer.key for run in runs),
    )


def _from_zero(one: Series, attacked: Footer, clean: MeasuredRun) -> Series:
    footer = clean.footer
    is_same = len(attacked.changes) == 1 and (footer.n, footer.selection) == (attacked.n, attacked.selection)
    if one.axis != "radius" or not is_same or 0.0 in one.ticks or identity(footer) != identity(attacked):
        return one
    text = f"undisturbed: {wording.percent_text(clean.accuracy)} ({wording.with_interval(clean.accuracy, footer)})"
    start = ChartPoint(0.0, clean.accuracy, footer.is_partial, "radius 0", text)
    ticks = (0.0, *one.ticks)
    others = {model: (None, *points) for model, points in one.others.items()}
    return replace(one, ticks=ticks, own=(start, *one.own), others=others)


def _ladder(axis: str, values: Iterable[float]) -> tuple[float, ...]:
    """Every place where a point could be: severities at the pace of those measured; the radii anyone measured.

    Of severities 1, 3, 5 none is missing; of 1, 2, 4, 5 the third is.
    """
    known = sorted(set(values))
    if axis == "severity" and len(known) > 1 and all(value == int(value) for value in known):
        pace = math.gcd(*(int(value - known[0]) for value in known[1:]))
        return tuple(float(step) for step in range(int(known[0]), int(known[-1]) + 1, pace))
    return tuple(known)


def _laid(points: Iterable[ChartPoint], ticks: Sequence[float]) -> ChartPoints:
    by_tick = {point.x: point for point in points}
    return tuple(by_tick.get(tick) for tick in ticks)


def _point(axis: StrengthAxis, footer: Footer, score: Score) -> ChartPoint:
    x = strength_on(footer, axis)
    where = f"{axis.name} {number_text(x) if axis.name == 'radius' else f'{x:g}'}"
    text = f"{where}: {wording.percent_text(score)} ({wording.with_interval(score, footer)})"
    return ChartPoint(x, score, footer.is_partial, where, text)
