"""Shares with their intervals as bars from 0 to 100 %, as wide as their table cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from holdfast.core.types import Score
from holdfast.site import svg, wording


class OtherScore(NamedTuple):
    """Another model on the same bar, by its letter."""

    letter: str
    name: str
    score: Score


def bar(score: Score, *, partial: bool, rivals: Sequence[OtherScore] = (), scale: bool = False) -> Markup:
    """One share with its interval; hollow and dashed for a part of the samples."""
    middle = 31 if rivals else 9
    height = middle + (26 if scale else 9)
    root = svg.node(None, "svg", role="img", class_="bar partial" if partial else "bar", width="100%", height=height)
    part = ", part of the samples" if partial else ""
    own_text = f"{wording.percent_text(score)}, interval {wording.interval_text(score)}{part}"
    texts = [own_text, *(f"{rival.name} {wording.percent_text(rival.score)}" for rival in rivals)]
    root.set("aria-label", "; ".join(texts))
    svg.node(root, "line", x1="0%", x2="100%", y1=middle, y2=middle, class_="rail")
    for share in (0, 25, 50, 75, 100):
        svg.node(root, "line", x1=f"{share}%", x2=f"{share}%", y1=middle - 3, y2=middle + 3, class_="rail")
        if scale:
            anchor = {0: "start", 100: "end"}.get(share, "middle")
            text = "100 %" if share == 100 else f"{share}"
            svg.node(root, "text", text, x=f"{share}%", y=middle + 20, text_anchor=anchor)
    apart = svg.spread_apart([rival.score.value for rival in rivals], gap=0.03, low=0.01, high=0.99)
    for one, x in zip(rivals, apart, strict=True):
        group = svg.node(root, "g", class_="rival")
        svg.node(group, "title", f"{one.name}: {wording.with_bounds(one.score)}")
        at = _share(one.score.value)
        svg.node(group, "line", x1=at, x2=at, y1=middle - 8, y2=middle + 5, class_="tick")
        svg.node(group, "text", one.letter, x=_share(x), y=middle - 13, text_anchor="middle")
    own = svg.node(root, "g", class_="own")
    if not math.isnan(score.low):
        low, high = _share(score.low), _share(score.high)
        svg.node(own, "line", x1=low, x2=high, y1=middle, y2=middle, class_="range")
        for end in (low, high):
            svg.node(own, "line", x1=end, x2=end, y1=middle - 5, y2=middle + 5, class_="cap")
    svg.node(own, "circle", cx=_share(score.value), cy=middle, r=3.6, class_="mark hollow" if partial else "mark")
    return svg.markup(root)


def _share(value: float) -> str:
    return f"{100 * value:.2f}%"
