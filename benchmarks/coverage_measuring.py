"""Counts how often the intervals of a simulated case hold the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from coverage_cases import Case

SEED = 0
LEAST, MOST = 0.93, 0.995
ROUNDING = 1e-9


class Measured(NamedTuple):
    """How often one interval held the truth, and how often there was one."""

    group: str
    row: str
    n: int
    share: float
    trials: int
    given: int
    held: int

    @property
    def coverage(self) -> float:
        return self.held / self.given if self.given else float("nan")

    @property
    def slack(self) -> float:
        """Three standard errors of a coverage of 95 %."""
        return 3 * (0.95 * 0.05 / max(self.given, 1)) ** 0.5


def measured(case: Case, trials: int, seed: int = SEED) -> Iterator[Measured]:
    """A case at all its sizes and shares."""
    for n in case.sizes:
        for share in case.shares:
            random = np.random.default_rng([seed, n, round(1000 * share)])
            given: dict[str, int] = defaultdict(int)
            held: dict[str, int] = defaultdict(int)
            count = max(20, round(case.slow * trials))
            for _ in range(count):
                for row, (score, truth) in case.draw(random, n, share).items():
                    given[row] += score.has_interval
                    held[row] += score.low - ROUNDING <= truth <= score.high + ROUNDING
            for row, number in given.items():
                yield Measured(case.group, row, n, share, count, number, held[row])
