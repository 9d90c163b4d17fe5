"""What each shift costs over many models, as boxes: OODRobustBench's Figures 2, 9 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.core.table import Table
from holdfast.metrics.catastrophe import FENCE


class Outlier(NamedTuple):
    """A model beyond the whiskers."""

    model: str
    loss: float


class LossBox(NamedTuple):
    """The losses of models under a shift: quartiles, whiskers (the furthest within 1.5 box heights), and outliers."""

    shift: str
    reference: str
    n: int
    mean: float
    low: float
    first: float
    median: float
    third: float
    high: float
    outliers: tuple[Outlier, ...]

    def record(self) -> dict[str, object]:
        """What a program reads."""
        return self._asdict() | {"outliers": [each._asdict() for each in self.outliers]}


def loss_box(table: Table, shift: str, reference: str) -> LossBox | None:
    """The score under the reference minus that under the shift, over the models that have both; None without any."""
    losses = table.column(reference) - table.column(shift)
    known = np.flatnonzero(np.isfinite(losses))
    if not len(known):
        return None
    values = losses[known]
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    fence = FENCE * (third - first)
    inside = (values >= first - fence) & (values <= third + fence)
    outliers = [Outlier(table.models[i], float(losses[i])) for i in known[~inside]]
    return LossBox(
        shift,
        reference,
        len(known),
        float(values.mean()),
        float(values[inside].min()),
        float(first),
        float(median),
        float(third),
        float(values[inside].max()),
        tuple(sorted(outliers, key=lambda each: -each.loss)),
    )


def loss_boxes(table: Table, shifts: Sequence[tuple[str, str]]) -> list[LossBox]:
    """A box for every (shift, reference) that models have."""
    boxes = (loss_box(table, shift, reference) for shift, reference in shifts)
    return [box for box in boxes if box is not None]
