"""Intervals of scores over models and pairs of models: how often they hold the truth, and what others compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr

from holdfast.metrics.error_consistency import kappa
from holdfast.trends.fits import correlation, explained, pearson

TRIALS = 250


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("n", "right"), [(20, 0.5), (100, 0.5), (100, 0.9), (1000, 0.99), (1000, 0.01)])
def test_error_consistency_is_held_or_has_no_interval(n: int, right: float, alike: float) -> None:
    """Two models that copy each other's luck on a share of the samples: κ is that share."""
    random = np.random.default_rng(int(n + 100 * right + 10 * alike))
    held = []
    for _ in range(TRIALS):
        one = random.random(n) < right
        other = np.where(random.random(n) < alike, one, random.random(n) < right)
        made = kappa(one, other)
        if not math.isnan(made.low):
            held.append(made.low <= alike <= made.high)
    if len(held) > TRIALS / 3:
        assert np.mean(held) > 0.91  # 95 to 99 % over 1,000 trials
    else:
        assert min(right, 1 - right) * n < 12  # too few right, or wrong, to say


def test_kappa_is_cohens() -> None:
    random = np.random.default_rng(0)
    for n in (1, 2, 7, 50):
        one, other = random.random((2, n)) < 0.6
        observed = np.mean(one == other)
        expected = one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean())
        target = (observed - expected) / (1 - expected) if expected < 1 else math.nan
        assert kappa(one, other).value == pytest.approx(target, nan_ok=True)


def test_pearson_and_its_interval_are_scipys() -> None:
    random = np.random.default_rng(1)
    for n in (4, 10, 300):
        x = random.normal(size=n)
        y = random.uniform(-1, 1) * x + random.normal(size=n)
        theirs = pearsonr(x, y)
        made = correlation(pearson(x, y), n)
        low, high = theirs.confidence_interval()
        assert (made.value, made.low, made.high) == pytest.approx((theirs.statistic, low, high))
        squared = explained(made)
        assert squared.low <= squared.value <= squared.high
    assert math.isnan(correlation(0.5, 3).low)
    assert explained(correlation(0.05, 30)).low == 0
