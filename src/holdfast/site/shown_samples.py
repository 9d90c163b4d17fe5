"""Samples to look at: before and after, what the model said, chosen for what they teach."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.site.conditions import in_levels
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows
from holdfast.store.store import Picture

MOST = 12
PICTURE_BYTES = 540_000  # of PNG on one page, so that with base64 it stays under a megabyte
SMALL = 96  # pixels a side up to which an image is enlarged without smoothing
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A class and how sure the model was of it."""

    name: str
    confidence: float


@dataclass(frozen=True, slots=True)
class ShownSample:
    """One sample that the model got wrong: right before the change, or undisturbed, where `before` is None."""

    id: str
    dataset: str
    scenario: str
    label: str
    before: Answer | None
    after: Answer
    size: float | None
    picture: Picture
    width: int
    height: int
    attacked: bool
    in_levels: bool

    @property
    def is_small(self) -> bool:
        return max(self.width, self.height) <= SMALL

    @property
    def is_changed(self) -> bool:
        """An undisturbed sample is shown once."""
        return self.picture.before != self.picture.after

    @property
    def cost(self) -> int:
        """Bytes on the page. A small attacked sample carries its pictures twice, for the difference."""
        return (len(self.picture.before) + len(self.picture.after)) * (2 if self.shows_difference else 1)

    @property
    def shows_difference(self) -> bool:
        return self.is_small and self.attacked


def shown_samples(
    scenario: str, rows: Rows, clean: Rows | None, pictures: Sequence[Picture]
) -> tuple[ShownSample, ...]:
    """The samples with pictures that the change turned from right to wrong, the most confident mistakes first.

    A sample that was wrong before, or of which that is not known, is not among them. Of an undisturbed run: all wrong.
    """
    if not pictures:
        return ()
    here = {name: i for i, name in enumerate(rows.ids)}
    there = {name: i for i, name in enumerate(clean.ids)} if clean is not None else {}
    sizes = rows.floats("size")
    samples = []
    for picture in pictures:
        i = here.get(picture.id)
        dimensions = _dimensions(picture.after)
        if i is None or dimensions is None or rows.correct[i] or np.isnan(rows.predictions[i]):
            continue
        before = _right_answer(clean, there.get(picture.id)) if rows.footer.changes else None
        if rows.footer.changes and before is None:
            continue
        samples.append(
            ShownSample(
                id=picture.id,
                dataset=rows.footer.dataset,
                scenario=scenario,
                label=_class_name(rows.footer, rows.labels[i]),
                before=before,
                after=Answer(_class_name(rows.footer, rows.predictions[i]), float(rows.confidence[i])),
                size=None if np.isnan(sizes[i]) else float(sizes[i]),
                picture=picture,
                width=dimensions[0],
                height=dimensions[1],
                attacked=rows.footer.is_attacked,
                in_levels=in_levels(rows.footer),
            )
        )
    return tuple(sorted(samples, key=lambda one: (-one.after.confidence, one.id)))


def picked(runs: Iterable[Sequence[ShownSample]], budget: int, *, most: int = MOST) -> tuple[ShownSample, ...]:
    """The best of every run in turn, each sample once, within the bytes allowed; one at least."""
    queues = [list(some) for some in runs if some]
    seen: set[str] = set()
    chosen: list[ShownSample] = []
    spent = 0
    while any(queues) and len(chosen) < most:
        for queue in queues:
            while queue and queue[0].id in seen:
                queue.pop(0)
            if queue and len(chosen) < most:
                one = queue.pop(0)
                if not chosen or spent + one.cost <= budget:
                    seen.add(one.id)
                    spent += one.cost
                    chosen.append(one)
    return tuple(chosen)


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _right_answer(rows: Rows | None, i: int | None) -> Answer | None:
    """What the model answered to the undisturbed sample, if it was right."""
    if rows is None or i is None or not rows.correct[i]:
        return None
    return Answer(_class_name(rows.footer, rows.predictions[i]), float(rows.confidence[i]))


def _class_name(footer: Footer, index: float) -> str:
    i = int(index)
    return footer.classes[i] if i < len(footer.classes) else f"class {i}"


def _dimensions(png: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG; None for what is none."""
    if not png.startswith(PNG) or len(png) < 24:
        return None
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)
