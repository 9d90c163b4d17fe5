"""The ledger of a run: of every sample, in the order they are measured, whether it is right, wrong or not yet known.

A sample without a label is known once it is measured, and neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.store import Rows

CHECKPOINT = 100  # samples between looks at the precision, so that where a run stops does not depend on its batches
UNKNOWN, UNLABELLED = -1, 2

Marks = NDArray[np.int8]


def marks(rows: Rows) -> Marks:
    """What the ledger says of rows: 1 for right, 0 for wrong, 2 where there is no label."""
    if not rows.has_labels:
        return np.full(len(rows), UNLABELLED, dtype=np.int8)
    return np.asarray(rows.correct, dtype=np.int8)


@dataclass(slots=True)
class Ledger:
    """`correct` holds the marks of samples, -1 for not yet known; `precision` is where the run may stop."""

    correct: Marks
    precision: float | None = None

    @classmethod
    def empty(cls, samples: int, precision: float | None) -> Ledger:
        return cls(np.full(samples, UNKNOWN, dtype=np.int8), precision)

    def enter(self, span: range | Sequence[int], right: Marks) -> None:
        self.correct[np.asarray(span, dtype=np.int64)] = right

    @property
    def known(self) -> int:
        return int((self.correct != UNKNOWN).sum())

    @property
    def standing(self) -> Score | None:
        """The share of right answers so far; None where samples have no labels."""
        if (self.correct == UNLABELLED).any():
            return None
        return wilson(int((self.correct == 1).sum()), self.known)

    @property
    def is_whole(self) -> bool:
        """Whether nothing more needs to be measured."""
        return self.known == len(self.correct) or self.reached() is not None

    def missing(self, size: int) -> list[range]:
        """Shards of the fixed division that are not wholly there, as ranges of the order."""
        n = len(self.correct)
        divided = [range(start, min(start + size, n)) for start in range(0, n, size)]
        return [span for span in divided if (self.correct[span.start : span.stop] == UNKNOWN).any()]

    def reached(self) -> int | None:
        """How many samples suffice for the precision asked for; None while there are not enough."""
        if self.precision is None:
            return None
        unknown = np.flatnonzero(self.correct == UNKNOWN)
        upto = int(unknown[0]) if len(unknown) else len(self.correct)
        right = np.cumsum(self.correct[:upto], dtype=np.int64)
        for n in range(CHECKPOINT, upto + 1, CHECKPOINT):
            score = wilson(int(right[n - 1]), n)
            if (score.high - score.low) / 2 <= self.precision:
                return n
        return None
