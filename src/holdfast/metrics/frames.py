"""pm-k: whether a model that is right about a frame of a video stays right about the frames around it."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.store.rows import Rows

ID = re.compile(r"(?P<anchor>.*?(?P<at>\d+))/(?:[^/|]*?)(?P<frame>\d+)(?P<also>(?:\|\d+)*)")


class FrameId(NamedTuple):
    """A frame's anchor, how many frames apart they are, and the classes that are right besides the label."""

    anchor: str
    apart: int
    also: frozenset[int]


def frame_of(name: str) -> FrameId | None:
    """Reads `video/anchor/frame|class`; None for the id of anything else."""
    match = ID.fullmatch(name)
    if match is None or match["anchor"].count("/") < 1:
        return None
    also = frozenset(int(label) for label in match["also"].split("|")[1:])
    return FrameId(match["anchor"], abs(int(match["frame"]) - int(match["at"])), also)


def pm_k(rows: Rows, k: int) -> Score:
    """Share of anchors that are right together with every frame at most `k` away; an image alone is its own anchor."""
    read = [frame_of(name) for name in rows.ids]
    frames = [frame or FrameId(name, 0, frozenset()) for name, frame in zip(rows.ids, read, strict=True)]
    if rows.footer.is_partial and any(read):
        raise HoldfastError(
            f"pm-{k} needs every frame, run {rows.footer.key} has {rows.footer.n} of {rows.footer.population}",
            hint="evaluate it without --samples and --precision",
        )
    right: dict[str, bool] = {}
    anchors = set()
    for frame, correct, prediction in zip(frames, rows.correct, rows.predictions, strict=True):
        if frame.apart > k:
            continue
        if not frame.apart:
            anchors.add(frame.anchor)
        right[frame.anchor] = right.get(frame.anchor, True) and bool(correct or prediction in frame.also)
    alone = sorted(right.keys() - anchors)
    if alone:
        raise HoldfastError(f"the frames around {alone[0]} have no anchor", hint="evaluate the whole dataset")
    return wilson(sum(right.values()), len(right))


@register("metric", "pm-k", source="arXiv:1906.02168")
class PmK:
    """Share of anchor frames that are right together with all frames up to k away; pm-0 is the anchors' accuracy."""

    def __init__(self, *, k: int = 10) -> None:
        if k < 0:
            raise Misuse(f"`k` is 0 or more, got {k}")
        self.k = k

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return pm_k(rows, self.k)
