"""Accuracy class by class: a model that is good on average may know nothing of one class."""

from __future__ import annotations

import numpy as np

from holdfast.core.errors import unknown
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
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

    The worst of several classes has no interval, and `n` counts all samples, for they all had a say in which class is
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
