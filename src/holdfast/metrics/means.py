"""Means of shares measured on samples they may have in common, with intervals that hold at 0 and 1.

Means and differences of scores too, without losing the interval, the count, or a missing cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import CONFIDENCE, share_bounds, z_value
from holdfast.core.types import Score, without_interval
from holdfast.metrics.bootstrap_draws import percentiles

Floats = NDArray[np.float64]

LONG_TAIL = 1.0  # skewness beyond which the samples may have missed most of a tail
DRAWS = 1000
ROUNDING = 1e-12
FEWEST = 10  # samples, for a mean of numbers without a largest
TOGETHER = "a mean of scores without their samples, which alone tell how the scores vary together"
AT_ONCE = 2_000_000  # weights held in memory: 16 MB


class SampledValues(NamedTuple):
    """What was measured on some samples: `values` in [0, 1], one for each of `ids`; it counts `weight` in the mean."""

    ids: NDArray[Any]
    values: NDArray[Any]
    weight: float = 1.0


def mean_over(cells: Sequence[SampledValues], *, more: float = 0.0, draws: int = DRAWS, seed: int = 0) -> Score:
    """The weighted mean of cells over their samples; n counts the samples, once however many cells they are in.

    A sample that is in several cells varies in all of them at once. The variance is estimated from what the cells make
    of each sample, and the mean is treated as a share of as many samples as would vary as much (Korn and Graubard
    1998), in Wilson's interval with continuity correction. One cell of right and wrong answers has the interval of
    `wilson`. Towards a long tail, of which few samples tell little, the bound of Gaffke (2005) is taken where it lies
    further out; it takes `draws`. So are the cells' own Wilson intervals together (MOVER, Zou and Donner 2008) where
    cells differ more than the samples inside them. `more` is a variance to add, of what the mean is compared with.
    """
    kept = _normal(cells)
    if not kept:
        return Score(math.nan, 0.0, 1.0, 0)
    value = math.fsum(cell.weight * float(cell.values.mean()) for cell in kept)
    if min(value, 1 - value) < ROUNDING:
        value = float(round(value))
    samples = _samples(kept)
    count = _effective(kept, samples, value)
    if more and 0 < value < 1:
        count = 1 / (1 / count + more / (value * (1 - value)))
    low, high = share_bounds(value * count, count)
    below, above = _beyond_tails(samples, np.random.default_rng(seed), draws)
    least, most = value - _root_of_squares(kept, 0), value + _root_of_squares(kept, 1)
    low, high = min(low, below, max(least, 0.0), value), max(high, above, min(most, 1.0), value)
    return Score(value, low, high, len(samples.values))


def mean_of_values(values: ArrayLike, *, draws: int = DRAWS) -> Score:
    """The mean of one number in [0, 1] per sample."""
    array = np.asarray(values, dtype=np.float64)
    return mean_over([SampledValues(np.arange(len(array)), array)], draws=draws)


def mean_of_sizes(values: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> Score:
    """The mean of numbers without a largest: the bootstrap of Student's t, which allows for a long tail.

    Without an interval for fewer than ten samples, and where all have one value.
    """
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    if not n:
        return without_interval(math.nan, 0, "no samples")
    mean, spread = float(array.mean()), float(array.std())
    if n < FEWEST:
        return without_interval(mean, n, f"a mean of fewer than {FEWEST} samples")
    if spread <= 1e-9 * abs(mean):
        return without_interval(mean, n, "all samples have the same value")
    random = np.random.default_rng(seed)
    turned = np.empty(draws)
    step = max(1, AT_ONCE // n)
    for start in range(0, draws, step):
        drawn = array[random.integers(0, n, (min(step, draws - start), n))]
        turned[start : start + len(drawn)] = (drawn.mean(axis=1) - mean) / np.maximum(drawn.std(axis=1), 1e-9 * spread)
    below, above = percentiles(turned)
    return Score(mean, min(mean, mean - float(above) * spread), max(mean, mean - float(below) * spread), n)


def mean_of(scores: Mapping[str, Score | None] | Sequence[Score | None], *, what: str = "scores") -> Score:
    """The mean of several scores; a missing one is refused, never left out in silence.

    The mean of one keeps its interval; several have none, as scores alone do not tell how they vary together:
    `mean_over` takes the samples and has one. n is the smallest of the counts.
    """
    named = dict(scores) if isinstance(scores, Mapping) else {str(i + 1): each for i, each in enumerate(scores)}
    if not named:
        raise HoldfastError(f"the mean of no {what} is not defined")
    absent = [name for name, each in named.items() if each is None or math.isnan(each.value)]
    if absent:
        raise HoldfastError(
            f"{len(absent)} of {len(named)} {what} are missing, `{absent[0]}` first",
            hint="measure them, or leave them out by name and say so",
        )
    kept = [each for each in named.values() if each is not None]
    if len(kept) == 1:
        return kept[0]
    return without_interval(math.fsum(each.value for each in kept) / len(kept), min(each.n for each in kept), TOGETHER)


def difference(one: Score, other: Score, correlation: float = 0.0) -> Score:
    """`one` minus `other`, with the interval of Newcombe (1998, method 10) where both have one.

    `correlation` says how the two vary together (`correlation_of_means`): 0 for samples that have nothing in common.
    """
    value = one.value - other.value
    if not (one.has_interval and other.has_interval):
        return without_interval(value, min(one.n, other.n), one.why or other.why)
    low = value - difference_reach(one.value - one.low, other.high - other.value, correlation)
    high = value + difference_reach(one.high - one.value, other.value - other.low, correlation)
    return Score(value, low, high, min(one.n, other.n))


def difference_reach(one: float, other: float, correlation: float) -> float:
    """How far a difference reaches whose two parts reach so far and vary together by `correlation`."""
    return math.sqrt(max(one * one - 2 * correlation * one * other + other * other, 0.0))


def scaled(score: Score, factor: float) -> Score:
    """A score in other units."""
    return Score(factor * score.value, factor * score.low, factor * score.high, score.n, score.why)


def correlation_of_means(one: Sequence[SampledValues], other: Sequence[SampledValues]) -> float:
    """How two means vary together, by the samples that both rest on; 0 where one of them does not vary."""
    ids, moves = [], []
    for cells in (one, other):
        kept = _normal(cells)
        ids.append(np.concatenate([cell.ids for cell in kept]))
        moves.append(
            np.concatenate([cell.weight * (cell.values - cell.values.mean()) / len(cell.values) for cell in kept])
        )
    names, index = np.unique(np.concatenate(ids), return_inverse=True)
    sums = np.zeros((2, len(names)))
    np.add.at(sums[0], index[: len(ids[0])], moves[0])
    np.add.at(sums[1], index[len(ids[0]) :], moves[1])
    size = math.sqrt(float((sums[0] ** 2).sum() * (sums[1] ** 2).sum()))
    return float(sums[0] @ sums[1]) / size if size > 0 else 0.0


class _Samples(NamedTuple):
    """All samples, each with what it counts in the mean and what its cells make of it; where each cell has its own."""

    weight: Floats
    values: Floats
    indices: tuple[NDArray[np.int64], ...]

    @property
    def is_share(self) -> bool:
        """Whether every sample is in all cells, and right or wrong in all of them."""
        in_all = all(len(index) == len(self.values) for index in self.indices)
        return in_all and bool((np.abs(self.values - 0.5) > 0.5 - 1e-12).all())


def _normal(cells: Sequence[SampledValues]) -> list[SampledValues]:
    """The cells that have samples; their weights sum to 1."""
    kept = [
        SampledValues(np.asarray(ids), np.asarray(values, dtype=np.float64), weight) for ids, values, weight in cells
    ]
    kept = [cell for cell in kept if len(cell.values)]
    total = math.fsum(cell.weight for cell in kept)
    return [cell._replace(weight=cell.weight / total) for cell in kept]


def _samples(cells: Sequence[SampledValues]) -> _Samples:
    first = cells[0].ids
    if all(cell.ids is first or np.array_equal(cell.ids, first) for cell in cells):
        indices, n = [np.arange(len(first))] * len(cells), len(first)
    else:
        names, index = np.unique(np.concatenate([cell.ids for cell in cells]), return_inverse=True)
        indices, n = np.split(index, np.cumsum([len(cell.ids) for cell in cells])[:-1]), len(names)
    weight, values = np.zeros(n), np.zeros(n)
    for cell, index in zip(cells, indices, strict=True):
        np.add.at(weight, index, cell.weight / len(cell.values))
        np.add.at(values, index, cell.weight * cell.values / len(cell.values))
    return _Samples(weight, np.clip(values / weight, 0.0, 1.0), tuple(indices))


def _effective(cells: Sequence[SampledValues], samples: _Samples, value: float) -> float:
    """How many samples, right or wrong in all cells alike, would vary as much as these."""
    n, spread = len(samples.values), value * (1 - value)
    alike = 1 / float((samples.weight**2).sum())  # samples, if each were right or wrong in all its cells
    if spread == 0 or samples.is_share:
        return alike
    moved = np.zeros(n)
    variance, shares, inner, separate = 0.0, 0.0, 0.0, 0.0
    for (_, values, share), index in zip(cells, samples.indices, strict=True):
        size, mean = len(values), float(values.mean())
        separate += share**2 / size
        if size == 1:  # no variance of its own: that of all
            shares, inner, variance = shares + share * spread, inner + share * spread, variance + share**2 * spread
            continue
        grown = size / (size - 1)
        np.add.at(moved, index, share * math.sqrt(grown) * (values - mean) / size)
        shares += share * mean * (1 - mean) * grown
        inner += share * float(values.var()) * grown
    # errors seen in large cells alone are to be expected in small ones, where each counts for more
    variance = max(variance + float((moved**2).sum()), inner * separate)
    # estimated from few samples: as wide as Student's t asks for, to first order
    variance *= 1 + (z_value() ** 2 + 1) / (2 * max(n - 1, 1))
    seen = alike  # where nothing varied: the next sample may
    if variance > 1e-12 * spread / alike:
        seen = max(shares / variance, min(alike, spread / variance))
    unseen = z_value() ** 2 / 4 * max(0.0, 1 / seen**2 - (variance / spread) ** 2)
    return spread / (variance + unseen)


def _root_of_squares(cells: Sequence[SampledValues], side: int) -> float:
    """How far the mean reaches to a side if cells vary each for itself: the root of their squared reaches."""
    mean, size, weight = (
        np.array(some)
        for some in zip(*((cell.values.mean(), len(cell.values), cell.weight) for cell in cells), strict=True)
    )
    value = float(weight @ mean)
    if weight @ (mean * (1 - mean)) >= value * (1 - value) / 2 - 1e-12:
        return 0.0
    inner = np.array([cell.values.var() for cell in cells])
    count = size * np.maximum(mean * (1 - mean) / np.where(inner > 0, inner, np.inf), 1.0)  # of right and wrong answers
    zz = z_value() ** 2 / count
    half = np.sqrt(mean * (1 - mean) * zz + zz * zz / 4) / (1 + zz)
    bound = (mean + zz / 2) / (1 + zz) + (half if side else -half)
    return float(np.sqrt((weight**2 * (bound - mean) ** 2).sum()))


def _beyond_tails(samples: _Samples, random: np.random.Generator, draws: int) -> tuple[float, float]:
    """Bounds of the mean towards a long tail of the samples' own values; (1, 0) where they have none."""
    weight, values = samples.weight, samples.values
    moved = values - values.mean()
    square = float((moved**2).mean())
    skew = float((moved**3).mean()) / square**1.5 if square > 1e-24 else 0.0
    if not draws or abs(skew) <= LONG_TAIL or np.isin(values, (0, 1)).all():
        return 1.0, 0.0
    tail = (1 - CONFIDENCE) / 2
    if skew > 0:
        return 1.0, float(np.quantile(_reweighted_means(weight, values, 1.0, random, draws), 1 - tail))
    return float(np.quantile(_reweighted_means(weight, values, 0.0, random, draws), tail)), 0.0


def _reweighted_means(weight: Floats, values: Floats, end: float, random: np.random.Generator, draws: int) -> Floats:
    """The mean under random weights, one sample of value `end` added (Gaffke; Learned-Miller and Thomas 2019)."""
    weight, values = np.append(weight, weight.mean()), np.append(values, end)
    made = np.empty(draws)
    step = max(1, AT_ONCE // len(values))
    for start in range(0, draws, step):
        weights = random.standard_exponential((min(step, draws - start), len(values))) * weight
        made[start : start + len(weights)] = weights @ values / weights.sum(axis=1)
    return made
