"""Which places of a ranking are decided, and which are a matter of the samples drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.metrics.resampling import draw_counts
from holdfast.trends.bootstrap import DRAWS, sample_draws
from holdfast.trends.spaces import Floats


class Rank(NamedTuple):
    """A model's place (1 is best; equal scores share the better place), with its interval over samples."""

    model: str
    score: float
    rank: int
    low: int
    high: int


def rank_intervals(
    models: Sequence[str],
    correct: NDArray[np.bool_],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> tuple[Rank, ...]:
    """Places by accuracy, from answers (models, samples) to the same samples, drawn again together.

    Drawing samples and not scores keeps what models have in common: an image that all get wrong moves no place.
    """
    correct = np.asarray(correct, dtype=bool)
    if correct.ndim != 2 or correct.shape[0] != len(models) or not correct.shape[1]:
        raise Misuse(f"answers are (models, samples): {len(models)} models, got an array of shape {correct.shape}")
    weights = draw_counts(correct.shape[1], draws, seed=seed)
    drawn = weights @ correct.T.astype(np.float64) / correct.shape[1]
    return ranks_of_draws(models, correct.mean(axis=1), drawn, confidence=confidence)


def rank_intervals_of_scores(
    table: Table, setting: str, *, draws: int = DRAWS, seed: int = 0, confidence: float = CONFIDENCE
) -> tuple[Rank, ...]:
    """Places from scores and counts alone: every score drawn for itself, so the intervals are a little too wide.

    Models without a score have no place.
    """
    chosen = table.where(np.isfinite(table.column(setting)))
    values = chosen.column(setting)
    drawn = sample_draws(values, chosen.count(setting), draws, seed=seed)
    return ranks_of_draws(chosen.models, values, drawn, confidence=confidence)


def ranks_of_draws(
    models: Sequence[str], values: Floats, drawn: Floats, *, confidence: float = CONFIDENCE
) -> tuple[Rank, ...]:
    """Places of any score for which there are draws, (draws, models); higher is better. In order of place."""
    places = rankdata(-values, method="min").astype(int)
    # rounding: counts of the same number of samples may differ in the last digit after division
    again = rankdata(-np.round(drawn, 12), method="min", axis=1)
    tail = (1 - confidence) / 2
    low = np.quantile(again, tail, axis=0, method="lower").astype(int)
    high = np.quantile(again, 1 - tail, axis=0, method="higher").astype(int)
    # a place the samples never drew is still the place observed
    low, high = np.minimum(low, places), np.maximum(high, places)
    made = [
        Rank(*each) for each in zip(models, values.tolist(), places.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    return tuple(sorted(made, key=lambda each: (each.rank, each.model)))
