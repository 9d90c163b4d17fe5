"""The stability constant of MultiRobustBench: how steeply accuracy falls between attacks of nearly equal difficulty.

It is a largest slope over pairs of attacks, so one near-tie can set it; the result names the pair, and a conditioned
form leaves out the pairs whose difficulties do not differ by more than chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import CONFIDENCE, z_value
from holdfast.core.types import Score, without_interval
from holdfast.metrics.multi_attack import Battery, Strength, knowledge

Array = NDArray[np.float64]

NEAR = 0.03  # the paper's α, on fractions
NO_INTERVAL = "the largest of many slopes, each divided by a small difference: no interval covers it"
TIE = 1e-12  # two best accuracies closer than this are the same number


class Stability(NamedTuple):
    """The constant, the pair that sets it, and how much their best known and own accuracies differ.

    `pairs` of attacks were compared; with none, the constant is 0 as in the paper. `least_gap` is the smallest
    difference in difficulty that was allowed for the pair: 0 as published, the margin of chance when conditioned.
    """

    constant: Score
    known: Strength | None
    other: Strength | None
    gap: float
    difference: float
    pairs: int
    least_gap: float


def stability(cells: Battery, trained: Mapping[str, float], *, near: float = NEAR) -> Stability:
    """As published: the largest |accuracy difference| / |difficulty difference| over pairs less than `near` apart.

    The first of a pair is an attack seen in training (or none), the second any; ties in difficulty do not count.
    """
    return _largest(cells, trained, near, np.zeros((len(cells), len(cells))))


def conditioned_stability(
    cells: Battery,
    trained: Mapping[str, float],
    *,
    near: float = NEAR,
    confidence: float = CONFIDENCE,
) -> Stability:
    """The same over pairs whose difficulties differ by more than chance, given the counts of the best accuracies."""
    if not cells.best_n:
        raise HoldfastError(
            "a conditioned stability constant needs the count behind the best accuracies",
            hint="give best_n: 30,000 for MultiRobustBench, three models on 10,000 images",
        )
    variance = cells.best * (1 - cells.best) / cells.best_n
    least = z_value(confidence) * np.sqrt(variance[:, None] + variance[None, :])
    if float(np.nanmin(least)) >= near:
        raise Misuse(
            f"with {cells.best_n} samples no two difficulties within {near:g} differ by more than chance",
            hint="use more samples, or a larger `near`",
        )
    return _largest(cells, trained, near, least)


def _largest(cells: Battery, trained: Mapping[str, float], near: float, least: Array) -> Stability:
    if cells.missing:
        raise HoldfastError(
            f"{cells.missing} of {len(cells)} accuracies are missing, and one of them may set the stability constant",
            hint="measure them, or leave these attacks out of the battery",
        )
    seen = set(knowledge(cells.entries, trained).seen)
    known = np.array([entry in seen for entry in cells.entries], dtype=bool)
    slopes = _slopes(cells.accuracies, cells.best, near, least)[known]
    pairs = int(np.isfinite(slopes).sum())
    if not pairs:
        return Stability(without_interval(0.0, cells.n, NO_INTERVAL), None, None, math.nan, math.nan, 0, math.nan)
    row, other = np.unravel_index(int(np.nanargmax(slopes)), slopes.shape)
    first = int(np.flatnonzero(known)[row])
    value = float(slopes[row, other])
    return Stability(
        without_interval(value, cells.n, NO_INTERVAL),
        cells.entries[first],
        cells.entries[int(other)],
        float(abs(cells.best[first] - cells.best[other])),
        float(abs(cells.accuracies[first] - cells.accuracies[other])),
        pairs,
        float(least[first, other]),
    )


def _slopes(accuracies: Array, best: Array, near: float, least: Array) -> Array:
    """Slope of every pair, NaN for those that do not count."""
    gaps = np.abs(best[:, None] - best[None, :])
    counts = (gaps > TIE) & (gaps >= least) & (gaps < near)
    differences = np.abs(accuracies[:, None] - accuracies[None, :])
    made: Array = np.divide(differences, gaps, out=np.full(gaps.shape, np.nan), where=counts)
    return made
