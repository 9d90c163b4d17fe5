"""Accuracy class by class: a model that is good on average may know nothing of one class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.core.errors import unknown
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.store.rows import Rows


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

    Of several classes that do equally badly, the one with most samples counts: its interval is the narrowest. The
    interval is that of one class, and `n` counts all samples, for they all had a say in which class is worst. Where
    classes have few samples the worst of many looks worse than it is.
    """

    def __init__(self, *, label: int | str | None = None) -> None:
        self.label = label

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        scores = per_class(rows)
        if self.label is None:
            worst = min(scores.values(), key=lambda score: (score.value, -score.n), default=None)
            return None if worst is None else replace(worst, n=len(rows))
        named = {class_name(rows, label): label for label in scores}
        label = self.label if isinstance(self.label, int) else named.get(self.label)
        if label is None:
            raise unknown(f"class of run {rows.footer.key}", str(self.label), named)
        return scores.get(label)
