"""Line charts of accuracy against severity or radius: one picture of all lines, and one small panel for each."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from holdfast.core.types import Score
from holdfast.site import svg, wording
from holdfast.site.series import ChartPoint, ChartPoints, Series, on_one_ladder, segments, tick_texts

DISTINCT = 6  # colours and shapes one can tell apart; of more lines the lowest are picked out
PICKED_OUT = 3
LABEL_GAP = 15.0


@dataclass(frozen=True, slots=True)
class ChartArea:
    """The area of a chart: places on the page for a strength and a share."""

    left: float
    top: float
    width: float
    height: float
    start: float
    end: float

    def x(self, value: float) -> float:
        return self.left + self.width * (value - self.start) / ((self.end - self.start) or 1)

    def y(self, share: float) -> float:
        return self.top + self.height * (1 - share)

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def overview(drawn: Sequence[Series], *, clean: Score | None, width: int, name: str, title: str) -> Markup:
    """All lines of one axis in one picture, each labelled at its end."""
    drawn = sorted(on_one_ladder(drawn), key=lambda one: one.last.score.value)
    narrow = width < 500
    labels = min(max(len(_cut(one.label, narrow)) for one in drawn) * 7.4 + 26, width * 0.42)
    height = max(320 if narrow else 400, int(LABEL_GAP * len(drawn)) + 70)
    root = svg.picture(width, height, name=name, title=title, description=_described(drawn), class_="chart overview")
    frame = _frame(drawn[0], left=36, top=14, width=width - 36 - labels, height=height - 14 - 44)
    _axes(root, frame, drawn[0], shares=(0, 25, 50, 75, 100), clean=clean)
    if clean is not None:
        text = f"undisturbed {wording.percent_text(clean)}"
        svg.node(root, "text", text, x=frame.right, y=frame.y(clean.value) - 7, text_anchor="end", class_="halo")
    few = len(drawn) <= DISTINCT
    ends = svg.spread_apart(
        [frame.y(one.last.score.value) for one in drawn], gap=LABEL_GAP, low=frame.top + 4, high=frame.bottom - 2
    )
    for i in reversed(range(len(drawn))):
        one = drawn[i]
        distinct = few or i < PICKED_OUT
        group = svg.node(root, "g", class_=f"line c{(i + 1) % DISTINCT}" if distinct else "line muted")
        _line(group, frame, one.own, shape=svg.SHAPES[i % len(svg.SHAPES)] if distinct else "circle", bands=few)
        x, y = frame.x(one.last.x), frame.y(one.last.score.value)
        svg.node(group, "polyline", points=svg.path([(x + 6, y), (frame.right + 12, ends[i])]), class_="leader")
        label = svg.node(group, "text", _cut(one.label, narrow), x=frame.right + 16, y=ends[i] + 4, class_="label")
        svg.node(label, "title", one.label)
    return svg.markup(root)


def panel(one: Series, *, clean: Score | None, letters: Mapping[str, str], name: str, width: int) -> Markup:
    """One line with its interval, other models beside it as thin lines with their letters."""
    shown = {model: points for model, points in one.others.items() if model in letters}
    height = width * 0.5 + 52
    root = svg.picture(
        width,
        height,
        name=name,
        title=f"{one.label}: accuracy against {one.axis}",
        description=" ".join([_described([one]), *(f"{model}: {_told(points)}." for model, points in shown.items())]),
        class_="chart",
    )
    frame = _frame(one, left=30, top=10, width=width - 30 - (28 if shown else 12), height=height - 10 - 42)
    _axes(root, frame, one, shares=(0, 50, 100), clean=clean)
    ends = [frame.y(_measured(points)[-1].score.value) for points in shown.values()]
    label_ys = svg.spread_apart(ends, gap=11, low=frame.top, high=frame.bottom)
    for (model, points), label_y in zip(shown.items(), label_ys, strict=True):
        group = svg.node(root, "g", class_=f"rival r{list(letters).index(model) % 3}")
        svg.node(group, "title", f"{model}: {_told(points)}")
        _rival(group, frame, points)
        svg.node(group, "text", letters[model], x=frame.right + 9, y=label_y + 4)
    _line(svg.node(root, "g", class_="line c0"), frame, one.own, shape="circle", bands=True)
    return svg.markup(root)


def _leaps(group: ET.Element, frame: ChartArea, points: ChartPoints) -> None:
    """Joins what lies on both sides of a step that was not measured, dotted."""
    for before, after in pairwise(segments(points)):
        ends = [(frame.x(point.x), frame.y(point.score.value)) for point in (before[-1], after[0])]
        svg.node(group, "polyline", points=svg.path(ends), class_="leap")


def _rival(group: ET.Element, frame: ChartArea, points: ChartPoints) -> None:
    _leaps(group, frame, points)
    for stretch in segments(points):
        corners = [(frame.x(point.x), frame.y(point.score.value)) for point in stretch]
        svg.node(group, "polyline", points=svg.path(corners))
        for (x, y), point in zip(corners, stretch, strict=True):
            svg.marker(group, x, y, shape="circle", size=1.8, hollow=point.partial)


def _line(group: ET.Element, frame: ChartArea, points: ChartPoints, *, shape: str, bands: bool) -> None:
    _leaps(group, frame, points)
    for stretch in segments(points):
        if bands and len(stretch) > 1:
            upper = [(frame.x(point.x), frame.y(point.score.high)) for point in stretch]
            lower = [(frame.x(point.x), frame.y(point.score.low)) for point in reversed(stretch)]
            svg.node(group, "polygon", points=svg.path([*upper, *lower]), class_="band")
        elif bands:
            _whisker(group, frame, stretch[0])
        if len(stretch) > 1:
            along = svg.path((frame.x(point.x), frame.y(point.score.value)) for point in stretch)
            svg.node(group, "polyline", points=along, class_="stroke")
        for point in stretch:
            x, y = frame.x(point.x), frame.y(point.score.value)
            svg.marker(group, x, y, shape=shape, hollow=point.partial)
            svg.node(svg.node(group, "circle", cx=x, cy=y, r=9, class_="touch"), "title", point.text)


def _whisker(group: ET.Element, frame: ChartArea, point: ChartPoint) -> None:
    x, low, high = frame.x(point.x), frame.y(point.score.low), frame.y(point.score.high)
    svg.node(group, "line", x1=x, x2=x, y1=low, y2=high, class_="whisker")
    for end in (low, high):
        svg.node(group, "line", x1=x - 3, x2=x + 3, y1=end, y2=end, class_="whisker")


def _frame(one: Series, *, left: float, top: float, width: float, height: float) -> ChartArea:
    start = one.ticks[0] if one.axis == "severity" else min(0.0, one.ticks[0])
    return ChartArea(left, top, width, height, start, one.ticks[-1])


def _axes(root: ET.Element, frame: ChartArea, one: Series, *, shares: Sequence[int], clean: Score | None) -> None:
    group = svg.node(root, "g", class_="axes")
    for share in shares:
        y = frame.y(share / 100)
        svg.node(group, "line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid")
        svg.node(group, "text", f"{share}", x=frame.left - 7, y=y + 4, text_anchor="end")
    title, texts = tick_texts(one.axis, one.ticks)
    free = frame.right + 100.0
    for tick, text in reversed(list(zip(one.ticks, texts, strict=True))):
        x = frame.x(tick)
        svg.node(group, "line", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 4, class_="tick")
        if x + 3.6 * len(text) < free:
            svg.node(group, "text", text, x=x, y=frame.bottom + 17, text_anchor="middle")
            free = x - 3.6 * len(text) - 5
    middle = frame.left + frame.width / 2
    svg.node(group, "text", title, x=middle, y=frame.bottom + 36, text_anchor="middle", class_="name")
    if clean is not None:
        y = frame.y(clean.value)
        svg.node(group, "line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="clean")


def _described(drawn: Sequence[Series]) -> str:
    return " ".join(f"{one.label}: {_told(one.own)}." for one in drawn)


def _told(points: ChartPoints) -> str:
    return "; ".join(point.text for point in _measured(points))


def _measured(points: ChartPoints) -> list[ChartPoint]:
    return [point for point in points if point is not None]


def _cut(label: str, narrow: bool) -> str:
    most = 17 if narrow else 44
    return label if len(label) <= most else f"{label[: most - 1]}…"
