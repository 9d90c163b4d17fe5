"""Intervals against published examples and against what they promise: coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.core.intervals import wilson
from holdfast.metrics.intervals import mcnemar, paired_difference


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", Table I, method 3 (Wilson)
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    score = wilson(successes, n)
    assert round(score.low, 4) == low
    assert round(score.high, 4) == high


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy_and_contains_the_share(pair: tuple[int, int]) -> None:
    successes, n = pair
    score = wilson(successes, n)
    theirs = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert score.low == pytest.approx(theirs.low, abs=1e-9)
    assert score.high == pytest.approx(theirs.high, abs=1e-9)
    assert 0 <= score.low <= score.value <= score.high <= 1


def test_no_samples_say_nothing() -> None:
    score = wilson(0, 0)
    assert math.isnan(score.value)
    assert (score.low, score.high, score.n) == (0.0, 1.0, 0)
    nothing = np.zeros(0, dtype=bool)
    assert paired_difference(nothing, nothing).n == 0


def pairs(both: int, only_one: int, only_other: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    one = np.repeat([True, True, False, False], [both, only_one, only_other, neither])
    other = np.repeat([True, False, True, False], [both, only_one, only_other, neither])
    return one, other


def test_the_paired_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    chances = np.array([0.5, 0.2, 0.1, 0.2])
    truth = chances[1] - chances[2]
    covered = 0
    for _ in range(2000):
        score = paired_difference(*pairs(*random.multinomial(80, chances)))
        covered += score.low <= truth <= score.high
    # 95 % of 2,000 with a standard error of 0.5 points; the method is known to be slightly conservative
    assert 0.935 <= covered / 2000 <= 0.975


def test_the_paired_interval_is_narrower_than_the_unpaired_for_models_that_agree() -> None:
    one, other = pairs(700, 60, 40, 200)
    score = paired_difference(one, other)
    first, second = wilson(int(one.sum()), 1000), wilson(int(other.sum()), 1000)
    assert score.high - score.low < 0.6 * math.hypot(first.high - first.low, second.high - second.low)


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(lambda counts: sum(counts) > 0))
def test_the_paired_difference_turns_with_its_arguments(counts: tuple[int, int, int, int]) -> None:
    one, other = pairs(*counts)
    there, back = paired_difference(one, other), paired_difference(other, one)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)
    assert -1 <= there.low <= there.value <= there.high <= 1


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_exact_binomial_test(only_one: int, only_other: int) -> None:
    expected = stats.binomtest(only_one, only_one + only_other).pvalue if only_one + only_other else 1.0
    assert mcnemar(only_one, only_other) == pytest.approx(expected, rel=1e-9)
