"""Ranks with intervals: which ranks the samples decide, and which are chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE, z_value
from holdfast.core.registry import register
from holdfast.core.table import Table
from holdfast.core.types import Score, without_interval
from holdfast.trends.shared_predictions import HasPredictions, side_by_side
from holdfast.trends.spaces import Floats

NO_COUNT = "the number of samples behind the scores is not known"
AT_ONCE = 4_000_000  # pairs of models held in memory


class Rank(NamedTuple):
    """A model's rank (1 is best; equal scores share the better rank), with its interval over samples."""

    model: str
    score: float
    rank: int
    low: int
    high: int


def rank_intervals(
    models: Sequence[str], correct: NDArray[np.bool_], *, confidence: float = CONFIDENCE
) -> tuple[Rank, ...]:
    """Ranks by accuracy, from predictions (models, samples) on the same samples.

    A model ranks behind every model that is better than it beyond chance (McNemar, continuity corrected, over all
    pairs of the model together), and before every one that is worse; what lies between is its interval. Pairing keeps
    what models have in common: an image that all get wrong moves no place.
    """
    right = np.asarray(correct, dtype=bool)
    if right.ndim != 2 or right.shape[0] != len(models) or not right.shape[1]:
        raise Misuse(f"answers are (models, samples): {len(models)} models, got an array of shape {right.shape}")
    numbers = right.astype(np.float32)

    def beyond(some: slice) -> Floats:
        only, only_other = numbers[some] @ (1 - numbers).T, (1 - numbers[some]) @ numbers.T
        return _z((only - only_other).astype(np.float64), (only + only_other).astype(np.float64), 1.0)

    return _placed(models, right.mean(axis=1), beyond, confidence)


def rank_intervals_of_scores(table: Table, setting: str, *, confidence: float = CONFIDENCE) -> tuple[Rank, ...]:
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
        return _z(values[some, None] - values[None], variance, (1 / n + 1 / m) / 2)

    return _placed(chosen.models, values, beyond, confidence)


def _z(gap: Floats, variance: Floats, correction: Floats | float) -> Floats:
    """Standard errors by which one is ahead of the other, negative where it is behind."""
    size = np.maximum(np.abs(gap) - correction, 0.0)
    return np.sign(gap) * np.divide(size, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0)


def _placed(
    models: Sequence[str], values: Floats, beyond: Callable[[slice], Floats], confidence: float
) -> tuple[Rank, ...]:
    """Places, and how many models stand surely before and behind each. In order of place."""
    count = len(models)
    limit = z_value(1 - (1 - confidence) / max(count - 1, 1))
    ranks = rankdata(-np.round(values, 12), method="min").astype(int)
    low, high = np.ones(count, dtype=int), np.full(count, count)
    step = max(1, AT_ONCE // max(count, 1))
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        ahead = beyond(some)
        low[some] += (ahead < -limit).sum(axis=1)
        high[some] -= (ahead > limit).sum(axis=1)
    low, high = np.minimum(low, ranks), np.maximum(high, ranks)
    made = [
        Rank(*each) for each in zip(models, values.tolist(), ranks.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    return tuple(sorted(made, key=lambda each: (each.rank, each.model)))


@register("metric", "rank")
class ModelRank:
    """A model's place among all models by accuracy, 1 for the best, with the places that its samples allow.

    From answers to the same samples, pair by pair; from counts where only scores are known.
    """

    per_model = True
    alone = True

    def of_predictions(self, rows: Mapping[str, HasPredictions]) -> Mapping[str, Score]:
        seen = side_by_side(rows)
        made = rank_intervals(seen.models, seen.correct)
        return {each.model: Score(each.rank, each.low, each.high, len(seen.ids)) for each in made}

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        name = settings[0]
        chosen = table.where(np.isfinite(table.column(name)))
        counts = chosen.count(name)
        if not chosen.models or not (counts > 0).all():
            ranks = rankdata(-chosen.column(name), method="min").tolist()
            return {
                model: without_interval(rank, 0, NO_COUNT) for model, rank in zip(chosen.models, ranks, strict=True)
            }
        least = int(counts.min())
        made = rank_intervals_of_scores(chosen, name)
        return {each.model: Score(each.rank, each.low, each.high, least) for each in made}
