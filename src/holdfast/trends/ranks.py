"""Ranks with intervals: which ranks the samples decide, and which are chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.registry import register
from holdfast.core.table import Table
from holdfast.core.types import Score, without_interval
from holdfast.metrics.difference_tests import mcnemar_z
from holdfast.trends.shared_predictions import side_by_side
from holdfast.trends.spaces import Floats

if TYPE_CHECKING:
    from holdfast.metrics import Rows

NO_COUNT = "the number of samples behind the scores is not known"
AT_ONCE = 4_000_000  # pairs of models held in memory


class Rank(NamedTuple):
    """A model's rank (1 is best; equal scores share the better rank), with its interval over samples."""

    model: str
    score: float
    rank: int
    low: int
    high: int


def rank_intervals(models: Sequence[str], correct: NDArray[np.bool_]) -> tuple[Rank, ...]:
    """Ranks by accuracy, from predictions (models, samples) on the same samples.

    A model ranks behind every model that is better than it beyond chance (McNemar's test, at a level for all pairs of
    the model together), and before every one that is worse; what lies between is its interval. Pairing keeps what
    models have in common: an image that all get wrong moves no place.
    """
    right = np.asarray(correct, dtype=bool)
    if right.ndim != 2 or right.shape[0] != len(models) or not right.shape[1]:
        raise Misuse(f"answers are (models, samples): {len(models)} models, got an array of shape {right.shape}")
    numbers = right.astype(np.float32)

    def beyond(some: slice) -> Floats:
        """Standard errors by which one is ahead of the other, negative where it is behind."""
        only, only_other = numbers[some] @ (1 - numbers).T, (1 - numbers[some]) @ numbers.T
        return mcnemar_z(only, only_other)

    return _placed(models, right.mean(axis=1), beyond)


def rank_intervals_of_scores(table: Table, setting: str) -> tuple[Rank, ...]:
    """Places from scores and counts alone: as if each score had samples of its own, so the intervals are a little wide.

    Models without a score have no place.
    """
    chosen = table.where(np.isfinite(table.column(setting)))
    values, counts = chosen.column(setting), chosen.count(setting).astype(np.float64)
    if (counts <= 0).any():
        raise Misuse("the place of a score needs the count behind every score")

    def beyond(some: slice) -> Floats:
        n, m = counts[some, None], counts[None]
        pooled = (values[some, None] * n + values[None] * m) / (n + m)
        variance = pooled * (1 - pooled) * (1 / n + 1 / m)
        gap = values[some, None] - values[None]
        return np.asarray(np.divide(gap, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0))

    return _placed(chosen.models, values, beyond)


@cache
def step_limits(others: int, tail: float) -> Floats:
    """Standard errors beyond which the best of `others`, the second best … is ahead: (others,), falling.

    The r-th best counts as ahead only if the largest of as many equals as are left (others - r + 1) lies so far ahead
    in `tail` of cases; differences to one model go together by 1/2 (Dunnett 1955, stepwise as in Marcus, Peritz and
    Gabriel 1976). So at most `tail` of places lie before the interval, whichever models are equal.
    """
    at, step = np.linspace(-9, 9, 361, retstep=True)
    weight = np.exp(-at * at / 2) / math.sqrt(2 * math.pi) * step
    left = np.unique(np.round(np.geomspace(1, max(others, 1), 40)))
    low, high = np.zeros(len(left)), np.full(len(left), 9.0)
    for _ in range(40):
        middle = (low + high) / 2
        below = np.exp(left[:, None] * log_ndtr(math.sqrt(2) * middle[:, None] + at)) @ weight
        low, high = np.where(below < 1 - tail, middle, low), np.where(below < 1 - tail, high, middle)
    return np.asarray(np.interp(np.log(np.arange(others, 0, -1)), np.log(left), high), dtype=np.float64)


def _placed(models: Sequence[str], values: Floats, beyond: Callable[[slice], Floats]) -> tuple[Rank, ...]:
    """Places, and how many models stand surely before and behind each. In order of place."""
    from scipy.stats import rankdata  # takes a second to import

    count = len(models)
    limits = step_limits(max(count - 1, 0), (1 - CONFIDENCE) / 2)
    ranks = rankdata(-np.round(values, 12), method="min").astype(int)
    low, high = np.ones(count, dtype=int), np.full(count, count)
    step = max(1, AT_ONCE // max(count, 1))
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        ahead = beyond(some)
        low[some] += _beyond_limits(-ahead, limits)
        high[some] -= _beyond_limits(ahead, limits)
    low, high = np.minimum(low, ranks), np.maximum(high, ranks)
    made = map(Rank, models, values.tolist(), ranks.tolist(), low.tolist(), high.tolist())
    return tuple(sorted(made, key=lambda each: (each.rank, each.model)))


def _beyond_limits(ahead: Floats, limits: Floats) -> NDArray[np.int64]:
    """How many of the others are ahead of each model, step by step: the first that is not ends the count."""
    if not len(limits):
        return np.zeros(len(ahead), dtype=np.int64)
    best = -np.partition(-ahead, 0, axis=1)[:, 0]
    made = np.zeros(len(ahead), dtype=np.int64)
    some = np.flatnonzero(best > limits[0])
    ordered = -np.sort(-ahead[some], axis=1)[:, : len(limits)]
    made[some] = np.logical_and.accumulate(ordered > limits, axis=1).sum(axis=1)
    return made


@register("metric", "rank")
class ModelRank:
    """A model's place among all models by accuracy, 1 for the best, with the places that its samples allow.

    From answers to the same samples, pair by pair; from counts where only scores are known.
    """

    per_model = True
    alone = True

    def of_predictions(self, rows: Mapping[str, Rows]) -> Mapping[str, Score]:
        seen = side_by_side(rows)
        made = rank_intervals(seen.models, seen.correct)
        return {each.model: Score(each.rank, each.low, each.high, len(seen.ids)) for each in made}

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        from scipy.stats import rankdata

        name = settings[0]
        chosen = table.where(np.isfinite(table.column(name)))
        counts = chosen.count(name)
        if not chosen.models or not (counts > 0).all():
            ranks = rankdata(-chosen.column(name), method="min").tolist()
            return {
                model: without_interval(rank, 0, NO_COUNT) for model, rank in zip(chosen.models, ranks, strict=True)
            }
        made = rank_intervals_of_scores(chosen, name)
        return {each.model: Score(each.rank, each.low, each.high, int(counts.min())) for each in made}
