"""Balanced accuracy: every class counts the same, however many samples it has."""

from __future__ import annotations

import numpy as np

from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.means import SampledValues, mean_over
from holdfast.store.rows import Rows


def balanced_accuracy(rows: Rows) -> Score:
    """The mean over classes that have samples, with the interval of `means.mean_over`: classes share no samples."""
    members = [np.flatnonzero(rows.labels == label) for label in np.unique(rows.labels)]
    return mean_over([SampledValues(rows_of_class, rows.correct[rows_of_class]) for rows_of_class in members])


@register("metric", "balanced-accuracy", source="Korn & Graubard 1998")
class BalancedAccuracy:
    """Mean over classes of the share right in each: a model that always answers one of k classes has 1 / k.

    Classes without samples are left out.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return balanced_accuracy(rows)
