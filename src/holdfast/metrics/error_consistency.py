"""Error consistency: whether two models err on the same samples more often than their accuracies alone explain.

Cohen's κ on right and wrong, as in Geirhos et al. (arXiv:2006.16736). 1: the same samples; 0: as by chance; below 0:
they avoid each other's errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.intervals import CONFIDENCE, share_bounds, z_value
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.means import difference_reach, mean_of
from holdfast.store.rows import Rows

FEWEST = 5  # right and wrong answers of each model
NO_CHANCE = 1e-12  # of differing: below it all answers are right, or all wrong
WIDEST = 50.0  # a log odds ratio beyond which nothing is left to tell


def error_consistency(one: Rows, other: Rows) -> Score:
    """κ of two runs on the same samples; NaN where both are always right or both always wrong."""
    other = aligned(other, one.ids)
    if len(other) != len(one) or (one.labels != other.labels).any():
        raise HoldfastError("the two runs are not of the same samples with the same labels")
    return kappa(one.correct, other.correct)


def kappa(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Score:
    """(observed - expected) / (1 - expected) agreement of being right.

    Bounds by the odds ratio of errors at the observed accuracies (Fisher's exact distribution, mid-p); the upper one is
    that of observed over expected disagreement (MOVER) where it lies further out, as where most errors are shared. None
    where a model has fewer than five right or five wrong answers.
    """
    assert one.shape == other.shape, "paired samples: the same samples in the same order"
    n = len(one)
    if not n:
        return without_interval(math.nan, 0, "no samples")
    right, other_right, same = (float(part.mean()) for part in (one, other, one == other))
    expected = right * other_right + (1 - right) * (1 - other_right)
    value = (same - expected) / (1 - expected) if 1 - expected > NO_CHANCE else math.nan
    wrong, other_wrong, both = int((~one).sum()), int((~other).sum()), int((~one & ~other).sum())
    if min(wrong, other_wrong, n - wrong, n - other_wrong) < FEWEST:
        return without_interval(value, n, f"a model has fewer than {FEWEST} right or wrong answers")
    low, high = (_kappa_at(odds, wrong / n, other_wrong / n) for odds in _odds(both, wrong, other_wrong, n))
    return Score(value, min(low, value), max(high, _by_disagreement(one, other), value), n)


def _by_disagreement(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Upper bound of κ = 1 - observed / expected disagreement, both uncertain, on the scale of logarithms."""
    n, differ = len(one), one != other
    right, other_right = float(one.mean()), float(other.mean())
    expected = right * (1 - other_right) + other_right * (1 - right)
    moved = (1 - 2 * other_right) * (one - right) + (1 - 2 * right) * (other - other_right)
    spread = float(moved.std()) / math.sqrt(n)
    together = float(np.corrcoef(differ, moved)[0, 1]) if differ.any() and not differ.all() and spread > 0 else 0.0
    low, _ = share_bounds(float(differ.sum()), n)
    if low <= 0:
        return 1.0
    observed = float(differ.mean())
    reach = difference_reach(math.log(observed / low), z_value() * spread / expected, together)
    return 1 - observed / expected * math.exp(-reach)


def _odds(both: int, wrong: int, other_wrong: int, n: int) -> tuple[float, float]:
    """Bounds of the log odds ratio, from the number both get wrong given what each does (Fisher's distribution)."""
    k = np.arange(max(0, wrong + other_wrong - n), min(wrong, other_wrong) + 1)
    log = -(gammaln(k + 1) + gammaln(wrong - k + 1) + gammaln(other_wrong - k + 1))
    log -= gammaln(n - wrong - other_wrong + k + 1)
    weight = np.where(k == both, 0.5, (k > both).astype(np.float64))

    def above(odds: float) -> float:
        """How likely more than observed is, half of what was observed counted."""
        chance = np.exp(log + k * odds - (log + k * odds).max())
        return float(weight @ chance / chance.sum())

    tail = (1 - CONFIDENCE) / 2
    low = -math.inf if both == k[0] else _where(above, tail)
    high = math.inf if both == k[-1] else _where(above, 1 - tail)
    return low, high


def _where(rising: Callable[[float], float], level: float) -> float:
    low, high = -WIDEST, WIDEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2


def _kappa_at(log_odds: float, wrong: float, other_wrong: float) -> float:
    """κ of two models with these shares of errors whose errors have this odds ratio (Plackett 1965)."""
    least, most = max(0.0, wrong + other_wrong - 1), min(wrong, other_wrong)
    if abs(log_odds) < 1e-9:
        both = wrong * other_wrong
    elif log_odds <= -WIDEST or log_odds >= WIDEST:
        both = least if log_odds < 0 else most
    else:
        odds = math.exp(log_odds)
        half = 1 + (wrong + other_wrong) * (odds - 1)
        both = (half - math.sqrt(half * half - 4 * odds * (odds - 1) * wrong * other_wrong)) / (2 * (odds - 1))
    by_chance = wrong * (1 - other_wrong) + other_wrong * (1 - wrong)
    return 2 * (min(max(both, least), most) - wrong * other_wrong) / by_chance


def consistency_matrix(runs: Sequence[Rows]) -> NDArray[np.float64]:
    """κ of every pair of runs on the same samples; the diagonal is 1, or NaN where κ is not defined."""
    right = np.stack([aligned(rows, runs[0].ids).correct for rows in runs]).astype(np.float64)
    shares = right.mean(axis=1)
    same = (right @ right.T + (1 - right) @ (1 - right).T) / right.shape[1]
    expected = np.outer(shares, shares) + np.outer(1 - shares, 1 - shares)
    nothing = np.full(same.shape, np.nan)
    made: NDArray[np.float64] = np.divide(same - expected, 1 - expected, out=nothing, where=1 - expected > NO_CHANCE)
    return made


@register("metric", "error-consistency", source="arXiv:2006.16736")
class ErrorConsistency:
    """Cohen's κ of being right: with another model (`model`), else the mean over all others; 1 for the same errors.

    Of the samples that both saw. Against `reference` rows, those of the same model without the change.
    """

    per_model = True

    def __init__(self, *, model: str | None = None) -> None:
        self.model = model

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        return None if reference is None else _shared_kappa(rows, reference)

    def of_predictions(self, rows: Mapping[str, Rows]) -> Mapping[str, Score]:
        if self.model is not None and self.model not in rows:
            raise unknown("model measured under this scenario", self.model, rows)
        if len(rows) < 2:
            raise HoldfastError("error consistency is of two models or more, and one was measured")
        scores_by_model: dict[str, list[Score]] = {name: [] for name in rows}
        for one, other in combinations(rows, 2):
            if self.model in (None, one, other):
                score = _shared_kappa(rows[one], rows[other])
                for name in (one, other):
                    if self.model in (None, one if name == other else other):
                        scores_by_model[name].append(score)
        defined = {
            name: scores for name, scores in scores_by_model.items() if not any(math.isnan(s.value) for s in scores)
        }
        return {name: mean_of(scores) for name, scores in defined.items() if scores}

    def matrix(self, rows: Mapping[str, Rows]) -> dict[str, object]:
        """κ of every pair, on the samples that all models saw."""
        shared = set.intersection(*(set(each.ids) for each in rows.values()))
        ids = [name for name in next(iter(rows.values())).ids if name in shared]
        return {
            "models": list(rows),
            "kappa": consistency_matrix([aligned(each, ids) for each in rows.values()]).tolist() if ids else [],
            "n": len(ids),
        }


def _shared_kappa(one: Rows, other: Rows) -> Score:
    theirs = set(other.ids)
    shared = [name for name in one.ids if name in theirs]
    if not shared:
        raise HoldfastError(f"`{one.footer.model}` and `{other.footer.model}` share no samples")
    return error_consistency(aligned(one, shared), aligned(other, shared))
