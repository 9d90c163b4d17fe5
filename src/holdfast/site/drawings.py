"""Figures as SVG files that stand alone: scatter plots with lines, heat maps, boxes and bars."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.rounding import percent, shown
from holdfast.site.svg import node, path, picture
from holdfast.trends.spaces import SPACES, Floats

STYLE = """
svg { background: #fff; font: 11px sans-serif; } text { fill: #222; } .small { font-size: 9px; }
.frame { fill: none; stroke: #888; } .grid { stroke: #ddd; } .same { stroke: #999; stroke-dasharray: 4 3; }
.line { fill: none; stroke: #c22; stroke-width: 1.6; } .base { stroke: #06c; stroke-dasharray: 2 2; }
.bar, .box { fill: #9bc4e8; stroke: #246; } .mid { stroke: #c22; stroke-width: 1.6; } .whisker { stroke: #246; }
"""
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#d62728")
LEVELS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
WIDTH, HEIGHT, LEFT, TOP = 300.0, 260.0, 52.0, 30.0  # of a panel, in pixels
ACROSS = 3  # panels side by side
NUMBERS = 900  # cells of a heat map that are still written out


class ScatterPoint(NamedTuple):
    """A model: its two scores, its group, and whether a line was fitted on it."""

    name: str
    x: float
    y: float
    group: str
    is_fitted: bool


class ScatterPanel(NamedTuple):
    """One scatter plot. Lines are runs of dots; `base` is the height of a baseline model."""

    title: str
    x: str
    y: str
    points: Sequence[ScatterPoint]
    lines: Sequence[tuple[Floats, Floats]]
    note: str
    space: str = "linear"
    base: float | None = None


class BarRow(NamedTuple):
    """Bars of one shift: a value of each measure, with its interval; None where there is none."""

    name: str
    values: Sequence[tuple[float, float, float] | None]


class BoxRow(NamedTuple):
    """A box: whiskers, quartiles, median, and points beyond."""

    name: str
    marks: tuple[float, float, float, float, float]
    beyond: Sequence[float]


def write_drawing(root: ET.Element, out: Path) -> None:
    """Writes a figure; only SVG is written."""
    if out.suffix.lower() != ".svg":
        raise Misuse(f"a figure is written as .svg, got {out}", hint="--out figure.svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    out.write_text(ET.tostring(root, encoding="unicode") + "\n", encoding="utf-8")


def scatter_drawing(panels: Sequence[ScatterPanel]) -> ET.Element:
    """Panels side by side, with the groups of their points named once below."""
    groups = list(dict.fromkeys(point.group for panel in panels for point in panel.points))
    columns = min(ACROSS, len(panels))
    rows = math.ceil(len(panels) / columns)
    legend = 16.0 * (len(groups) + 1) if len(groups) > 1 else 0.0
    root = _canvas(columns * WIDTH + 10, rows * HEIGHT + legend + 10, "models against models' line")
    for i, panel in enumerate(panels):
        _panel(root, panel, (i % columns) * WIDTH, (i // columns) * HEIGHT, groups)
    for i, group in enumerate(groups if len(groups) > 1 else ()):
        y = rows * HEIGHT + 16 * (i + 1)
        node(root, "circle", cx=LEFT, cy=y - 4, r=4, fill=_colour(groups, group))
        node(root, "text", group or "other", x=LEFT + 10, y=y)
    return root


def heat_map(values: Floats, rows: Sequence[str], columns: Sequence[str], title: str) -> ET.Element:
    """Cells coloured from 0 to 1, grey where there is none, written out where they are few."""
    is_large = values.size > NUMBERS
    wide, high = (7.0, 6.0) if is_large else (34.0, 18.0)
    left = 8.0 + (4.5 if is_large else 6.2) * max(map(len, rows), default=0)
    top = 30.0 + (3.2 if is_large else 4.6) * max(map(len, columns), default=0)
    root = _canvas(left + wide * len(columns) + 40, top + high * len(rows) + 20, title)
    node(root, "text", title, x=8, y=16)
    size = "5px" if is_large else "10px"
    for j, name in enumerate(columns):
        x = left + wide * (j + 0.5)
        node(root, "text", name, x=x, y=top - 4, transform=f"rotate(-50 {x:.1f} {top - 4:.1f})", font_size=size)
    for i, name in enumerate(rows):
        y = top + high * i
        node(root, "text", name, x=left - 4, y=y + high * 0.72, text_anchor="end", font_size=size)
        for j in range(len(columns)):
            value = float(values[i, j])
            is_known = math.isfinite(value)
            cell = node(root, "rect", x=left + wide * j, y=y, width=wide, height=high, fill=_shade(value))
            if is_large:
                continue
            node(cell, "title", f"{name}, {columns[j]}: {shown(value, 3) if is_known else 'none'}")
            if is_known:
                text = shown(value, 2)
                node(root, "text", text, x=left + wide * (j + 0.5), y=y + 12, text_anchor="middle", class_="small")
    return root


def box_drawing(rows: Sequence[BoxRow], title: str) -> ET.Element:
    """A box per shift, in points."""
    values = [0.0, *(value for row in rows for value in (*row.marks, *row.beyond))]
    left, bottom = 16.0 + 6.2 * max((len(row.name) for row in rows), default=0), TOP + 20.0 * len(rows)
    root = _canvas(left + 380, bottom + 36, title)
    node(root, "text", title, x=8, y=16)
    across = _scale(values, left, left + 360)
    for tick in np.linspace(min(values), max(values), 5):
        node(root, "line", x1=across(tick), x2=across(tick), y1=TOP, y2=bottom, class_="grid")
        node(root, "text", percent(float(tick)), x=across(tick), y=bottom + 14, text_anchor="middle", class_="small")
    for i, row in enumerate(rows):
        y = TOP + 20.0 * i + 4
        low, first, median, third, high = map(across, row.marks)
        node(root, "line", x1=low, x2=high, y1=y + 6, y2=y + 6, class_="whisker")
        node(root, "rect", x=first, y=y, width=max(third - first, 0.5), height=12, class_="box")
        node(root, "line", x1=median, x2=median, y1=y, y2=y + 12, class_="mid")
        for value in row.beyond:
            node(root, "circle", cx=across(value), cy=y + 6, r=2, fill="none", stroke="#246")
        node(root, "text", row.name, x=left - 6, y=y + 10, text_anchor="end")
    return root


def bar_drawing(rows: Sequence[BarRow], measures: Sequence[str], title: str) -> ET.Element:
    """Bars with intervals, a block per measure."""
    root = _canvas(len(measures) * 420.0, TOP + 20.0 * len(rows) + 40, title)
    for k, measure in enumerate(measures):
        known = [row.values[k] for row in rows]
        every = [part for value in known if value is not None for part in value if math.isfinite(part)]
        left, right = 420.0 * k + 150, 420.0 * k + 400
        across = _scale([0.0, *every], left, right)
        node(root, "text", f"{title}: {measure}" if not k else measure, x=420.0 * k + 8, y=16)
        for i, (row, value) in enumerate(zip(rows, known, strict=True)):
            y = TOP + 20.0 * i + 4
            node(root, "text", row.name, x=left - 6, y=y + 10, text_anchor="end", class_="small")
            if value is None:
                continue
            start, end = sorted((across(0.0), across(value[0])))
            bar = node(root, "rect", x=start, y=y, width=max(end - start, 0.5), height=12, class_="bar")
            node(bar, "title", f"{row.name}: {shown(value[0], 3)}")
            if math.isfinite(value[1]) and math.isfinite(value[2]):
                node(root, "line", x1=across(value[1]), x2=across(value[2]), y1=y + 6, y2=y + 6, class_="whisker")
            node(root, "text", shown(value[0], 2), x=end + 4, y=y + 10, class_="small")
    return root


def _canvas(width: float, height: float, title: str) -> ET.Element:
    root = picture(width, height, name="figure", title=title, description=title, class_="figure")
    root.set("width", f"{width:.0f}")
    root.set("height", f"{height:.0f}")
    node(root, "style", STYLE)
    return root


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _panel(root: ET.Element, panel: ScatterPanel, x: float, y: float, groups: Sequence[str]) -> None:
    space = SPACES[panel.space]
    forward = space.forward
    kept = [point for point in panel.points if _is_drawable(point.x, panel) and _is_drawable(point.y, panel)]
    held = node(root, "g", transform=f"translate({x:.1f} {y:.1f})")
    node(held, "text", panel.title, x=LEFT, y=14)
    node(held, "text", panel.note, x=LEFT, y=26, class_="small")
    right, bottom = WIDTH - 12, HEIGHT - 40
    node(held, "rect", x=LEFT, y=TOP, width=right - LEFT, height=bottom - TOP, class_="frame")
    node(held, "text", panel.x, x=(LEFT + right) / 2, y=bottom + 30, text_anchor="middle", class_="small")
    turned = f"rotate(-90 12 {(TOP + bottom) / 2:.1f})"
    node(held, "text", panel.y, x=12, y=(TOP + bottom) / 2, text_anchor="middle", class_="small", transform=turned)
    if not kept:
        return
    xs, ys = (forward(np.array([getattr(point, part) for point in kept])) for part in ("x", "y"))
    across, up = _scale(_padded(xs), LEFT, right), _scale(_padded(ys), bottom, TOP)
    for tick, at in _ticks(xs, panel):
        node(held, "line", x1=across(at), x2=across(at), y1=TOP, y2=bottom, class_="grid")
        node(held, "text", percent(tick), x=across(at), y=bottom + 13, text_anchor="middle", class_="small")
    for tick, at in _ticks(ys, panel):
        node(held, "line", x1=LEFT, x2=right, y1=up(at), y2=up(at), class_="grid")
        node(held, "text", percent(tick), x=LEFT - 4, y=up(at) + 3, text_anchor="end", class_="small")
    low, high = max(xs.min(), ys.min()), min(xs.max(), ys.max())
    if low < high:
        node(held, "line", x1=across(low), y1=up(low), x2=across(high), y2=up(high), class_="same")
    if panel.base is not None and _is_drawable(panel.base, panel):
        at = up(float(forward(np.array([panel.base]))[0]))
        if TOP <= at <= bottom:
            node(held, "line", x1=LEFT, x2=right, y1=at, y2=at, class_="base")
    for line_x, line_y in panel.lines:
        dots = [(across(a), up(b)) for a, b in zip(forward(line_x), forward(line_y), strict=True)]
        inside = [(a, b) for a, b in dots if LEFT <= a <= right and TOP <= b <= bottom]
        if len(inside) > 1:
            node(held, "polyline", points=path(inside), class_="line")
    for point, a, b in zip(kept, xs, ys, strict=True):
        colour = _colour(groups, point.group)
        fill = colour if point.is_fitted else "#fff"
        mark = node(held, "circle", cx=across(float(a)), cy=up(float(b)), r=3, fill=fill, stroke=colour)
        node(mark, "title", f"{point.name}: {percent(point.x)}, {percent(point.y)}")


def _is_drawable(value: float, panel: ScatterPanel) -> bool:
    return math.isfinite(value) and (not SPACES[panel.space].has_edges or 0 < value < 1)


def _padded(values: Floats) -> list[float]:
    low, high = float(values.min()), float(values.max())
    room = 0.06 * ((high - low) or 0.1)
    return [low - room, high + room]


def _ticks(values: Floats, panel: ScatterPanel) -> list[tuple[float, float]]:
    """Scores worth a mark on an axis, and where they lie on its scale."""
    low, high = _padded(values)
    if SPACES[panel.space].has_edges:
        ticks = np.array(LEVELS)
        at = SPACES[panel.space].forward(ticks)
    else:
        step = 10.0 ** math.floor(math.log10(high - low))
        step *= next((k for k in (0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / (k * step) <= 6), 5.0)
        at = ticks = step * np.arange(math.ceil(low / step), math.floor(high / step) + 1, dtype=np.float64)
    return [(float(tick), float(where)) for tick, where in zip(ticks, at, strict=True) if low <= where <= high]


def _colour(groups: Sequence[str], group: str) -> str:
    return COLOURS[groups.index(group) % len(COLOURS)]


def _shade(value: float) -> str:
    """White at 0, blue at 1, grey where there is no value."""
    if not math.isfinite(value):
        return "#ccc"
    share = min(1.0, max(0.0, value))
    red, green, blue = (round(255 + (end - 255) * share) for end in (70, 130, 200))
    return f"#{red:02x}{green:02x}{blue:02x}"
