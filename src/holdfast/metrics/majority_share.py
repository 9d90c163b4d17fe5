"""The share of the most frequent label: what a model reaches that always gives the same answer."""

from __future__ import annotations

import math

import numpy as np

from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.store.rows import Rows

COUNTED = "a count of these very labels, no estimate of anything"


@register("metric", "majority-share")
class MajorityShare:
    """Share of the most frequent label: the accuracy of a model that always answers that class, to compare with."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        largest = int(np.bincount(rows.labels).max(initial=0)) if len(rows) else 0
        return without_interval(largest / len(rows) if len(rows) else math.nan, len(rows), COUNTED)
