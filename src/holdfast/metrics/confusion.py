"""Confusion: which class is taken for which, and into which class wrong answers fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from holdfast.core.errors import Misuse, unknown
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.metrics.per_class_accuracy import class_name
from holdfast.store.rows import Rows

LARGEST = "the largest of many shares, chosen by the samples that measure it: name two classes for its interval"
FEWEST = 10  # samples of a class whose shares are worth comparing
CHANCE = 0.01  # that any class is named though errors spread evenly
LEAST = 0.05  # share of wrong answers below which a class is not worth naming, however sure
TIMES = 1.5  # an even share, which the lower end of the interval must exceed


class Confusion(NamedTuple):
    """Counts (labels, predictions) over all classes, their names, and samples per label without a usable answer."""

    classes: tuple[str, ...]
    counts: NDArray[np.int64]
    unanswered: NDArray[np.int64]

    @property
    def totals(self) -> NDArray[np.int64]:
        """Samples per label."""
        return np.asarray(self.counts.sum(axis=1) + self.unanswered)

    def record(self) -> dict[str, object]:
        """What a program reads: rows are labels, columns predictions."""
        counts, unanswered = self.counts.tolist(), self.unanswered.tolist()
        return {"classes": list(self.classes), "counts": counts, "unanswered": unanswered}


def confusion(rows: Rows) -> Confusion:
    """How often each class was answered for each label."""
    predictions, labels = rows.predictions, rows.labels
    known = ~np.isnan(predictions)
    most = [len(rows.footer.classes), *(int(part.max()) + 1 for part in (labels, predictions[known]) if len(part))]
    size = max(most)
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (labels[known], predictions[known].astype(np.int64)), 1)
    unanswered = np.bincount(labels[~known], minlength=size)
    return Confusion(tuple(class_name(rows, label) for label in range(size)), counts, unanswered)


@register("metric", "confusion")
class ConfusionShare:
    """Share of the samples of a class (`label`) that are taken for another (`predicted`), by number or name.

    Without both, the largest share of any two classes, of those with 10 samples or more where there are such; without
    an interval, for the pair was chosen for being the largest. `--json` has the whole matrix.
    """

    unit = "percent"

    def __init__(self, *, label: int | str | None = None, predicted: int | str | None = None) -> None:
        if (label is None) != (predicted is None):
            raise Misuse(
                "`confusion` takes `label` and `predicted`, or neither", hint="confusion:label=cat,predicted=dog"
            )
        self.label, self.predicted = label, predicted

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        made = confusion(rows)
        totals = made.totals
        if self.label is not None and self.predicted is not None:
            label, predicted = (_index(made.classes, name, rows) for name in (self.label, self.predicted))
            return wilson(int(made.counts[label, predicted]), int(totals[label])) if totals[label] else None
        pair = most_confused(made)
        share = 0.0 if pair is None else float(made.counts[pair] / totals[pair[0]])
        return without_interval(share, len(rows), LARGEST) if len(rows) else None

    def in_words(self, rows: Rows) -> str:
        """The pair that is confused most, where none was asked for."""
        made = confusion(rows)
        pair = most_confused(made) if self.label is None else None
        return "" if pair is None else f"{made.classes[pair[0]]} taken for {made.classes[pair[1]]}"

    def details(self, rows: Rows) -> dict[str, object]:
        """The whole matrix, and the pair that is confused most."""
        made = confusion(rows)
        pair = most_confused(made)
        named = None if pair is None else {"label": made.classes[pair[0]], "predicted": made.classes[pair[1]]}
        return made.record() | {"largest": named}


def most_confused(made: Confusion) -> tuple[int, int] | None:
    """The label and the wrong answer with the largest share of the label's samples; None where nothing is wrong."""
    totals = made.totals
    fewest = FEWEST if (totals >= FEWEST).any() else 1
    wrong = made.counts.astype(np.float64)
    np.fill_diagonal(wrong, 0)
    shares = np.where(totals[:, None] >= fewest, wrong / np.maximum(totals, 1)[:, None], 0.0)
    if not shares.any():
        return None
    label, predicted = np.unravel_index(int(shares.argmax()), shares.shape)
    return int(label), int(predicted)


@dataclass(frozen=True, slots=True)
class DominantClass:
    """A class by its index, the share of wrong answers that name it, and the share an even spread would give it."""

    index: int
    count: int
    share: Score
    expected: float


def dominant_class(rows: Rows) -> DominantClass | None:
    """The class that wrong answers name most; None where an even spread gives as many, or nearly.

    Even means: samples of every class go wrong alike, and a wrong answer names each other class alike. The count of a
    class is then binomial; its tail is tested at 1 % over all classes together (Bonferroni). A sample without a usable
    answer names no class and is not counted.
    """
    answered = ~np.isnan(rows.predictions)
    wrong = rows.predictions[answered & ~rows.correct].astype(np.int64)
    if not len(wrong):
        return None
    classes = max(len(rows.footer.classes), int(wrong.max()) + 1, int(rows.labels.max()) + 1, 2)
    counts = np.bincount(wrong, minlength=classes)
    index = int(counts.argmax())
    count = int(counts[index])
    expected = (1 - float((rows.labels == index).mean())) / (classes - 1)
    share = wilson(count, len(wrong))
    tail = float(betainc(count, len(wrong) - count + 1, expected)) if expected < 1 else 1.0
    is_large = share.value >= LEAST and share.low > min(TIMES * expected, (1 + expected) / 2)
    return DominantClass(index, count, share, expected) if is_large and tail * classes < CHANCE else None


def _index(classes: tuple[str, ...], name: int | str, rows: Rows) -> int:
    if isinstance(name, int) and 0 <= name < len(classes):
        return name
    if isinstance(name, str) and name in classes:
        return classes.index(name)
    raise unknown(f"class of run {rows.footer.key}", str(name), classes)
