"""The ledger of a run: of every sample, in the order they are measured, whether it is right, wrong or not yet known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import wilson
from holdfast.core.types import Score

CHECKPOINT = 100  # samples between looks at the precision, so that where a run stops does not depend on its batches
UNKNOWN = -1


@dataclass(slots=True)
class Ledger:
    """`correct` holds 1 for right, 0 for wrong, -1 for not yet known; `precision` is where the run may stop."""

    correct: NDArray[np.int8]
    precision: float | None = None

    @classmethod
    def empty(cls, samples: int, precision: float | None) -> Ledger:
        return cls(np.full(samples, UNKNOWN, dtype=np.int8), precision)

    def enter(self, span: range | Sequence[int], right: NDArray[np.bool_]) -> None:
        self.correct[np.asarray(span, dtype=np.int64)] = right

    @property
    def known(self) -> int:
        return int((self.correct != UNKNOWN).sum())

    @property
    def standing(self) -> Score:
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
