"""Accuracy class by class, its mean over classes, and the share of the most frequent class to compare with."""

from __future__ import annotations

import math

import numpy as np

from holdfast.core.errors import unknown
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.metrics.means import SampledValues, mean_over
from holdfast.store.rows import Rows

CHOSEN = "chosen by the samples that measure it: name a class for its interval"


def per_class(rows: Rows) -> dict[int, Score]:
    """The share right of every class that has samples, by its label."""
    labels, correct = rows.labels, rows.correct
    counts = np.bincount(labels) if len(labels) else np.zeros(0, dtype=np.int64)
    right = np.bincount(labels, weights=correct, minlength=len(counts)) if len(labels) else counts
    return {int(label): wilson(int(right[label]), int(counts[label])) for label in np.flatnonzero(counts)}


def class_name(rows: Rows, label: int) -> str:
    """The name of a class as its rows have it; its number where they have none."""
    names = rows.footer.classes
    return names[label] if label < len(names) else str(label)


@register("metric", "per-class-accuracy")
class PerClassAccuracy:
    """Share right among the samples of one class, by number or name; without one, of the class that does worst.

    The worst of several classes has no interval, and `n` counts all samples, as all of them decide which class is
    worst; the worst of many classes looks worse than it is, the more so the fewer samples they have.
    """

    def __init__(self, *, label: int | str | None = None) -> None:
        self.label = label

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        scores = per_class(rows)
        if self.label is None:
            worst = min(scores.values(), key=lambda score: score.value, default=None)
            if worst is None or len(scores) == 1:
                return worst
            return without_interval(worst.value, len(rows), f"the lowest of {len(scores)} classes, {CHOSEN}")
        named = {class_name(rows, label): label for label in scores}
        label = self.label if isinstance(self.label, int) else named.get(self.label)
        if label is None:
            raise unknown(f"class of run {rows.footer.key}", str(self.label), named)
        return scores.get(label)

    def in_words(self, rows: Rows) -> str:
        """The class that does worst, by name, where none was asked for."""
        scores = per_class(rows)
        if self.label is not None or not scores:
            return ""
        return class_name(rows, min(scores, key=lambda label: (scores[label].value, -scores[label].n)))

    def details(self, rows: Rows) -> dict[str, object]:
        """The score of every class, by its name."""
        return {
            class_name(rows, label): {"value": score.value, "low": score.low, "high": score.high, "n": score.n}
            for label, score in per_class(rows).items()
        }


@register("metric", "balanced-accuracy", source="Korn & Graubard 1998")
class BalancedAccuracy:
    """Mean over classes of the share right in each: a model that always answers one of k classes has 1 / k.

    Classes without samples are left out. The interval is that of `means.mean_over`: classes share no samples.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        members = [np.flatnonzero(rows.labels == label) for label in np.unique(rows.labels)]
        return mean_over([SampledValues(rows_of_class, rows.correct[rows_of_class]) for rows_of_class in members])


COUNTED = "a count of these very labels, no estimate of anything"


@register("metric", "majority-share")
class MajorityShare:
    """Share of the most frequent label: the accuracy of a model that always answers that class, to compare with."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        largest = int(np.bincount(rows.labels).max(initial=0)) if len(rows) else 0
        return without_interval(largest / len(rows) if len(rows) else math.nan, len(rows), COUNTED)
