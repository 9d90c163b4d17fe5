"""The class into which wrong answers fall, where that is more than an even spread explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.store.rows import Rows

CHANCE = 0.01  # that any class is named though errors spread evenly
LEAST = 0.05  # share of wrong answers below which a class is not worth naming, however sure
TIMES = 1.5  # an even share, which the lower end of the interval must exceed


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
    index, count = _most(wrong, classes)
    expected = (1 - float((rows.labels == index).mean())) / (classes - 1)
    share = wilson(count, len(wrong))
    tail = float(betainc(count, len(wrong) - count + 1, expected)) if expected < 1 else 1.0
    is_large = share.value >= LEAST and share.low > min(TIMES * expected, (1 + expected) / 2)
    return DominantClass(index, count, share, expected) if is_large and tail * classes < CHANCE else None


def _most(wrong: NDArray[np.int64], classes: int) -> tuple[int, int]:
    counts = np.bincount(wrong, minlength=classes)
    index = int(counts.argmax())
    return index, int(counts[index])
