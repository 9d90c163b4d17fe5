"""Accuracy under a shift without its labels, from how sure a model is: three ways, each for one model alone.

All take for granted that confidence means under the shift what it means without it. Nothing without labels tells
whether it does, so none has an interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.trends.spaces import Floats

WHY = "confidence may mean something else under the shift, and nothing without labels tells how much"


class ByConfidence(NamedTuple):
    """Three predictions of a model's accuracy under a shift; NaN where it has no confidences.

    `average` is the mean confidence under the shift; `difference` (DoC, arXiv:2107.03315) the accuracy without it less
    what confidence falls by; `thresholded` (ATC, arXiv:2201.04234) the share of samples surer than a threshold, which
    without the shift as many samples exceed as are right.
    """

    thresholded: float
    difference: float
    average: float


def by_confidence(before: Floats, right: NDArray[np.bool_], after: Floats) -> ByConfidence:
    """From confidences without the shift, whether these answers are right, and confidences under the shift.

    NaN is no usable answer: its confidence is 0, and no threshold holds it.
    """
    assert before.shape == right.shape, "one confidence per answer"
    if not len(before) or not len(after) or np.isnan(before).all() or np.isnan(after).all():
        return ByConfidence(float("nan"), float("nan"), float("nan"))
    before, after = np.nan_to_num(before), np.nan_to_num(after)
    fallen = float(before.mean() - after.mean())
    return ByConfidence(
        _thresholded(before, int((~right).sum()), after),
        float(np.clip(right.mean() - fallen, 0, 1)),
        float(after.mean()),
    )


def _thresholded(before: Floats, wrong: int, after: Floats) -> float:
    """The share above the threshold below which as many samples lie without the shift as are wrong.

    Samples at the threshold count by the share of those without the shift that are needed to come out right there.
    """
    if wrong == len(before):
        return 0.0
    threshold = np.sort(before)[wrong]
    at, above = int((before == threshold).sum()), int((before > threshold).sum())
    counted = (len(before) - wrong - above) / at
    return float(((after > threshold).sum() + counted * (after == threshold).sum()) / len(after))
