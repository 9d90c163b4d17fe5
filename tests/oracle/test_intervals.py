"""Intervals against published examples and against what they promise: coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from holdfast.core.intervals import share_intervals, wilson
from holdfast.metrics.difference_tests import (
    exact_bounds,
    mcnemar,
    mcnemar_z,
    paired_difference,
    unpaired_difference,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", Table I, method 4 (Wilson, corrected)
    [(81, 263, 0.2535, 0.3682), (15, 148, 0.0598, 0.1644), (0, 20, 0.0, 0.2005), (1, 29, 0.0018, 0.1963)],
)
def test_wilson_gives_the_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    score = wilson(successes, n)
    assert round(score.low, 4) == low
    assert round(score.high, 4) == high


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy_and_contains_the_share(pair: tuple[int, int]) -> None:
    successes, n = pair
    score = wilson(successes, n)
    theirs = stats.binomtest(successes, n).proportion_ci(method="wilsoncc")
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
def test_mcnemar_is_the_binomial_test_with_equal_outcomes_counted_half(only_one: int, only_other: int) -> None:
    differing, most = only_one + only_other, max(only_one, only_other)
    expected = stats.binomtest(most, differing).pvalue - stats.binom.pmf(most, differing, 0.5) if differing else 1.0
    assert mcnemar(only_one, only_other) == pytest.approx(expected if only_one != only_other else 1.0, rel=1e-9)
    assert 2 * stats.norm.sf(abs(mcnemar_z(only_one, only_other))) == pytest.approx(mcnemar(only_one, only_other))
    assert np.sign(mcnemar_z(only_one, only_other)) == np.sign(only_one - only_other)


@given(st.tuples(*[st.integers(0, 60)] * 4).filter(lambda counts: sum(counts) > 0))
def test_a_paired_interval_leaves_out_0_where_and_only_where_the_test_rejects_it(counts: tuple[int, ...]) -> None:
    score = paired_difference(*pairs(*counts))
    assert (score.low > 0 or score.high < 0) == (mcnemar(counts[1], counts[2]) < 0.05)


def test_verdict_interval_and_p_agree_for_the_closest_counts_of_up_to_400_samples_that_differ() -> None:
    """For each number of differing samples: the least lead that the test finds, and one less."""
    for differing in (*range(1, 60), *range(60, 400, 17)):
        most = np.arange((differing + 1) // 2, differing + 1)
        chances = [mcnemar(k, differing - k) for k in most.tolist()]
        assert chances == sorted(chances, reverse=True)
        found = int(np.searchsorted(-np.array(chances), -0.05, side="right"))
        for k in most[max(0, found - 1) : found + 1].tolist():
            score = paired_difference(*pairs(30, k, differing - k, 30))
            assert (score.low > 0) == (mcnemar(k, differing - k) < 0.05), (k, differing - k)


def test_eleven_against_three_of_a_hundred_are_a_difference_by_interval_and_p() -> None:
    score = paired_difference(*pairs(40, 11, 3, 46))
    assert mcnemar(11, 3) == pytest.approx((2 * (91 + 14 + 1) + 364) / 2**14, abs=1e-9)  # of 14 choose 3
    assert 0 < score.low < score.high
    assert mcnemar(10, 3) == pytest.approx((2 * (78 + 13 + 1) + 286) / 2**13, abs=1e-9)
    assert paired_difference(*pairs(40, 10, 3, 47)).low < 0
    assert mcnemar(4, 0) == pytest.approx(1 / 16), "rejected without the exact distribution, in 12.5 % of cases"
    assert paired_difference(*pairs(40, 4, 0, 47)).low == 0


def rejected(differing: int) -> float:
    """How often equal models that differ on so many samples are called different."""
    return float(
        sum(stats.binom.pmf(k, differing, 0.5) for k in range(differing + 1) if mcnemar(k, differing - k) < 0.05)
    )


def test_equal_models_are_called_different_in_five_percent_of_cases_and_in_seven_where_all_samples_differ() -> None:
    """Every outcome of n samples, whatever share of them the models differ on."""
    given_differing = np.array([rejected(differing) for differing in range(101)])
    above = {differing: share for differing, share in enumerate(given_differing.tolist()) if share > 0.07}
    assert above == pytest.approx({8: 0.0703, 16: 0.0768}, abs=1e-4)
    shares = np.linspace(0.005, 1, 200)
    for n in (*range(1, 30), 50, 100):
        level = stats.binom.pmf(np.arange(n + 1), n, shares[:, None]) @ given_differing[: n + 1]
        assert level[shares <= 0.9].max() < 0.054, n
        assert level[shares <= 0.98].max() < 0.07, n
        assert np.median(level) < 0.0505, n


@pytest.mark.parametrize("counts", [(20, 12, 2, 16), (36, 1, 7, 0), (43, 0, 1, 0), (3, 9, 0, 1)])
def test_the_ends_of_the_paired_interval_are_where_the_score_test_rejects(counts: tuple[int, int, int, int]) -> None:
    """Tango's closed form against a search for the likeliest shares under a difference."""
    _, only_one, only_other, _ = counts
    n = sum(counts)
    score = paired_difference(*pairs(*counts))

    def unlikely(rare: float, at: float) -> float:
        terms = (only_one, rare + at), (only_other, rare), (n - only_one - only_other, 1 - 2 * rare - at)
        return -float(sum(special.xlogy(count, share) for count, share in terms))

    def z(at: float) -> float:
        limits = (max(0.0, -at), (1 - at) / 2)
        found = optimize.minimize_scalar(
            unlikely, args=(at,), bounds=limits, method="bounded", options={"xatol": 1e-12}
        )
        return (only_one - only_other - n * at) / math.sqrt(n * (2 * found.x + at - at * at))

    for end, sign in ((score.low, 1), (score.high, -1)):
        if abs(end) < 1:
            assert sign * z(end) == pytest.approx(1.959964, abs=2e-3)


def test_two_models_that_never_differ_are_known_to_the_closed_form() -> None:
    score, z = paired_difference(*pairs(43, 0, 0, 1)), 1.959964
    assert score.high == -score.low == pytest.approx(z * z / (44 + z * z), abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    # Newcombe 1998, "Interval estimation for the difference between independent proportions", Table II, method 6
    [((56, 70), (48, 80), 0.0528, 0.3382), ((9, 10), (3, 10), 0.1700, 0.8406)],
)
def test_the_unpaired_interval_is_that_of_miettinen_and_nurminen(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    made = unpaired_difference(*one, *other)
    assert made.difference.low == pytest.approx(low, abs=5e-4)
    assert made.difference.high == pytest.approx(high, abs=5e-4)


@given(st.integers(1, 80), st.integers(1, 80), st.data())
def test_an_unpaired_interval_and_its_p_say_the_same(n: int, m: int, data: st.DataObject) -> None:
    right, other = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    made, back = unpaired_difference(right, n, other, m), unpaired_difference(other, m, right, n)
    score = made.difference
    assert (score.low > 0 or score.high < 0) == (made.p < 0.05)
    assert -1 <= score.low <= score.value <= score.high <= 1
    assert (score.low, score.high, made.p) == pytest.approx(
        (-back.difference.high, -back.difference.low, back.p), abs=1e-9
    )
    pooled = (right + other) / (n + m)
    variance = pooled * (1 - pooled) * (1 / n + 1 / m) * (n + m) / (n + m - 1)
    z = abs(right / n - other / m) / math.sqrt(variance) if variance else 0.0
    assert made.p == pytest.approx(2 * stats.norm.sf(z), abs=1e-9), "the pooled test of two shares"


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_exact_bounds_are_those_of_scipy(pair: tuple[int, int]) -> None:
    low, high = exact_bounds([pair[0]], [pair[1]], 0.05)
    theirs = stats.binomtest(*pair).proportion_ci(method="exact")
    assert (low[0], high[0]) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.lists(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1))
def test_many_shares_have_the_bounds_of_one(counts: list[tuple[int, int]]) -> None:
    right, n = np.array(counts).T
    low, high = share_intervals(right / n, n)
    expected = [wilson(int(k), int(m)) for k, m in counts]
    assert list(zip(low, high, strict=True)) == [pytest.approx((each.low, each.high)) for each in expected]


@pytest.mark.parametrize("counts", [(10, 10, 0, 10), (0, 20, 0, 30), (5, 56, 0, 29), (190, 200, 150, 180)])
def test_the_unpaired_interval_is_that_of_statsmodels(counts: tuple[int, int, int, int]) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    low, high = proportion.confint_proportions_2indep(*counts, method="score", compare="diff", correction=True)
    made = unpaired_difference(*counts).difference
    assert (made.low, made.high) == pytest.approx((low, high), abs=1e-3)
