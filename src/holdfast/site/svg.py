"""Small pieces of SVG: built as elements, so that every text is escaped; coloured by the page's style sheet."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from statistics import fmean

from markupsafe import Markup

SHAPES = ("circle", "square", "diamond", "triangle", "wedge")


def node(parent: ET.Element | None, tag: str, text: str | None = None, **attributes: str | float) -> ET.Element:
    """An element below another. `stroke_width` means `stroke-width`, `class_` means `class`."""
    named = {name.rstrip("_").replace("_", "-"): _text(value) for name, value in attributes.items()}
    made = ET.Element(tag, named) if parent is None else ET.SubElement(parent, tag, named)
    made.text = text
    return made


def picture(width: float, height: float, *, name: str, title: str, description: str, class_: str) -> ET.Element:
    """A drawing with its alternative text. `name` is unique on the page."""
    root = node(None, "svg", role="img", class_=class_, viewBox=f"0 0 {_text(width)} {_text(height)}")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    node(root, "title", title, id=f"{name}-title")
    node(root, "desc", description, id=f"{name}-desc")
    return root


def marker(parent: ET.Element, x: float, y: float, *, shape: str, size: float = 3.6, hollow: bool = False) -> None:
    """A mark of its own shape; hollow for a value from a part of the samples."""
    class_ = "mark hollow" if hollow else "mark"
    if shape == "circle":
        node(parent, "circle", cx=x, cy=y, r=size, class_=class_)
        return
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
        "triangle": ((0, -1.25), (1.25, 1), (-1.25, 1)),
        "wedge": ((0, 1.25), (1.25, -1), (-1.25, -1)),
    }[shape]
    points = path((x + dx * size * 0.92, y + dy * size * 0.92) for dx, dy in corners)
    node(parent, "polygon", points=points, class_=class_)


def path(points: Iterable[tuple[float, float]]) -> str:
    """`x,y x,y …` for polylines and polygons."""
    return " ".join(f"{_text(x)},{_text(y)}" for x, y in points)


def markup(root: ET.Element) -> Markup:
    """The drawing as HTML."""
    return Markup(ET.tostring(root, encoding="unicode"))


def spread_apart(ideal: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """The positions nearest to `ideal` (least squares), in the same order, `gap` apart, from `low` to `high`."""
    if not ideal:
        return []
    order = sorted(range(len(ideal)), key=lambda i: ideal[i])
    gap = min(gap, (high - low) / max(1, len(ideal) - 1))
    # isotonic regression by pooling neighbours that would come too close
    pools: list[list[float]] = []
    for rank, i in enumerate(order):
        pools.append([ideal[i] - rank * gap])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    free = [fmean(pool) for pool in pools for _ in pool]
    most = high - (len(ideal) - 1) * gap
    placed = [0.0] * len(ideal)
    for rank, i in enumerate(order):
        placed[i] = min(max(free[rank], low), most) + rank * gap
    return placed


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
