"""Reliability diagrams: accuracy against stated confidence, from the bins that the calibration error is made of."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.core.rounding import percent
from holdfast.metrics.calibration import reliability
from holdfast.metrics.calibration_error import CalibrationError, ReliabilityBin
from holdfast.site import svg, wording
from holdfast.site.line_charts import ChartArea
from holdfast.store import Footer, Store

SHARES = (0, 25, 50, 75, 100)
BOUNDS = ("value", "low", "high")


@dataclass(frozen=True, slots=True)
class Reliability:
    """The diagram of one run, with its calibration error in words."""

    label: str
    text: str
    drawing: Markup


def diagrams(store: Store, footers: Iterable[Footer]) -> list[Reliability]:
    """Of every undisturbed run among these that kept confidences."""
    made = []
    for i, footer in enumerate(each for each in footers if not each.changes):
        rows = store.read_or_tell(footer.key)
        error = None if rows is None else reliability(rows)
        if error is not None and error.bins:
            drawing = diagram(error, name=f"reliability{i}", title=f"{footer.dataset}: accuracy against confidence")
            made.append(Reliability(footer.dataset, told(error), drawing))
    return made


def told(error: CalibrationError) -> str:
    """`calibration error 2.1 % [0.4, 4.0], plain 3.9 %, n = 1,000`"""
    score = error.debiased
    return f"calibration error {score.percent()}, plain {percent(error.plain)} %, n = {wording.with_commas(score.n)}"


def diagram(error: CalibrationError, *, name: str, title: str, width: int = 300) -> Markup:
    """A point per bin at its mean confidence, with the interval of its accuracy; dashed: a calibrated model."""
    described = "; ".join(map(_told, error.bins)) + f". {told(error)}."
    root = svg.picture(width, width, name=name, title=title, description=described, class_="chart")
    frame = ChartArea(34, 10, width - 34 - 12, width - 10 - 44, 0.0, 1.0)
    _axes(root, frame)
    group = svg.node(root, "g", class_="line c0")
    for one in error.bins:
        x, value, low, high = frame.x(one.confidence), *(frame.y(getattr(one.accuracy, part)) for part in BOUNDS)
        svg.node(group, "line", x1=x, x2=x, y1=low, y2=high, class_="whisker")
        svg.marker(group, x, value, shape="circle")
        svg.node(svg.node(group, "circle", cx=x, cy=value, r=9, class_="touch"), "title", _told(one))
    return svg.markup(root)


def _axes(root: ET.Element, frame: ChartArea) -> None:
    group = svg.node(root, "g", class_="axes")
    for mark in SHARES:
        x, y = frame.x(mark / 100), frame.y(mark / 100)
        svg.node(group, "line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid")
        svg.node(group, "text", f"{mark}", x=frame.left - 7, y=y + 4, text_anchor="end")
        svg.node(group, "text", f"{mark}", x=x, y=frame.bottom + 17, text_anchor="middle")
    middle = frame.left + frame.width / 2
    svg.node(group, "text", "confidence, %", x=middle, y=frame.bottom + 36, text_anchor="middle", class_="name")
    svg.node(group, "line", x1=frame.x(0), x2=frame.x(1), y1=frame.y(0), y2=frame.y(1), class_="clean")


def _told(one: ReliabilityBin) -> str:
    confidence, n = percent(one.confidence), wording.with_commas(one.accuracy.n)
    return f"confidence {confidence} %: {one.accuracy.percent()} right, n = {n}"
