"""What each shift costs over many models, and catastrophic degradation: a model that loses far more than the others do.

OODRobustBench (arXiv:2310.12793, section 3.2 and Appendix E) shows such outliers under noise: one model loses 46
points of robustness where the average is 9. An outlier is what lies beyond the whiskers of its box plots (Figures 2, 9
and 10), drawn over the other models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.core.rounding import percent
from holdfast.core.table import Table
from holdfast.core.types import Flag, Score, without_interval

FENCE = 1.5  # interquartile ranges beyond the upper quartile: Tukey's whisker
FEWEST = 8  # other models: quartiles of fewer are meaningless
LEAST = 0.01  # an outlier by less than a point over the whisker is no catastrophe


class Catastrophe(NamedTuple):
    """A model under a shift: what it loses, what the others lose (median), and the most that is usual among them."""

    model: str
    shift: str
    loss: float
    typical: float
    usual: float
    others: int

    @property
    def flag(self) -> Flag:
        """For a report or a board."""
        return Flag(
            "catastrophic-degradation",
            "warning",
            f"loses {percent(self.loss)} points under {self.shift}, where {self.others} other models lose "
            f"{percent(self.typical)} (median) and {percent(self.usual)} at most usually",
        )


def catastrophes(
    table: Table, reference: str, shifts: Sequence[str] | None = None, *, fence: float = FENCE
) -> tuple[Catastrophe, ...]:
    """Every model and shift whose loss is an outlier against the other models, largest excess first.

    The loss is the score under `reference` minus that under the shift. Cells without a value take no part; a shift that
    fewer than nine models have is refused if it was asked for by name, else passed over.
    """
    start = table.column(reference)
    outliers = []
    for shift in shifts if shifts is not None else [name for name in table.settings if name != reference]:
        losses = start - table.column(shift)
        known = np.flatnonzero(~np.isnan(losses))
        if len(known) <= FEWEST:
            if shifts is None:
                continue
            raise Misuse(
                f"an outlier takes {FEWEST + 1} models with both `{reference}` and `{shift}`, got {len(known)}"
            )
        for i in known:
            others = losses[known[known != i]]
            low, typical, high = np.quantile(others, [0.25, 0.5, 0.75])
            usual = float(high + fence * (high - low))
            if losses[i] > usual + LEAST:
                loss = float(losses[i])
                outliers.append(Catastrophe(table.models[i], shift, loss, float(typical), usual, len(others)))
    return tuple(sorted(outliers, key=lambda each: each.usual - each.loss))


@register("metric", "catastrophic-degradation", source="arXiv:2310.12793")
class CatastrophicDegradation:
    """Under how many shifts a model loses far more than the other models do: more than the whisker of their box plot.

    The last setting is the reference, all before it are shifts. A count, without an interval.
    """

    per_model = True

    def __init__(self, *, fence: float = FENCE) -> None:
        self.fence = fence

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        *shifts, reference = settings
        outliers = catastrophes(table, reference, shifts, fence=self.fence)
        columns = np.stack([table.column(name) for name in settings], axis=1)
        known = [table.models[i] for i in np.flatnonzero(np.isfinite(columns).all(axis=1))]
        counts = Counter(each.model for each in outliers)
        return {model: without_interval(float(counts[model]), len(known) - 1, "a count of shifts") for model in known}

    def notes(self, table: Table, settings: Sequence[str]) -> dict[str, str]:
        """By model, what it loses and what is usual, in words."""
        *shifts, reference = settings
        texts_by_model: dict[str, list[str]] = {}
        for each in catastrophes(table, reference, shifts, fence=self.fence):
            texts_by_model.setdefault(each.model, []).append(each.flag.explanation)
        return {model: "; ".join(texts) for model, texts in texts_by_model.items()}


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
