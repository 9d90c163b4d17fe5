"""Counts how often the intervals of a simulated case hold the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from coverage_cases import Case

SEED = 0
LEAST, MOST = 0.93, 0.995
ROUNDING = 1e-9
STEP = 100  # trials between two looks at whether a cell is decided
GIVEN = 0.02  # share of draws with an interval under which a cell is left empty


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

    @property
    def is_empty(self) -> bool:
        return self.given < GIVEN * self.trials

    @property
    def is_inside(self) -> bool:
        """Whether two standard errors about the coverage lie within what is promised."""
        return is_inside(self.held, self.given)


def within(held: int, given: int) -> tuple[float, float]:
    """Wilson's interval of a measured coverage, two standard errors to either side."""
    if not given:
        return 0.0, 1.0
    share, z = held / given, 2.0
    middle = (share + z * z / (2 * given)) / (1 + z * z / given)
    half = z / (1 + z * z / given) * (share * (1 - share) / given + z * z / (4 * given * given)) ** 0.5
    return middle - half, middle + half


def is_inside(held: int, given: int) -> bool:
    low, high = within(held, given)
    return low >= LEAST and high <= MOST


def measured(
    case: Case, trials: int, seed: int = SEED, *, is_known: Callable[[Measured], bool] | None = None
) -> Iterator[Measured]:
    """A case at all its sizes and shares.

    With `is_known`, rows for which more trials would tell nothing new: trials go on until every other row lies within
    what is promised by two standard errors, up to `case.more` times as many.
    """
    for n in case.sizes:
        for share in case.shares:
            yield from at_once(case, n, share, trials, seed, is_known)


def at_once(
    case: Case, n: int, share: float, trials: int, seed: int, is_known: Callable[[Measured], bool] | None
) -> list[Measured]:
    """A case at one size and share."""
    random = np.random.default_rng([seed, n, round(1000 * share)])
    given: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    least = max(20, round(case.slow * trials))
    most = round(case.more * least) if is_known else least
    done = 0
    while True:
        for _ in range(least if not done else STEP):
            done += 1
            for row, (score, truth) in case.draw(random, n, share).items():
                given[row] += score.has_interval
                held[row] += score.low - ROUNDING <= truth <= score.high + ROUNDING
        found = [Measured(case.group, row, n, share, done, number, held[row]) for row, number in given.items()]
        if done >= most or all(
            made.is_empty or made.is_inside or (is_known is not None and is_known(made)) for made in found
        ):
            return found
