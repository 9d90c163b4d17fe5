"""Intervals, tests and rounding worked out by hand, or inverted by a plain search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from holdfast.core.intervals import printed_score, share_bounds, wilson, z_value
from holdfast.core.rounding import figures, rounded, shown
from holdfast.metrics.difference_tests import exact_bounds, mcnemar, paired_difference, unpaired_difference
from holdfast.metrics.multi_attack import Battery, Strength, _variance_of_sum
from holdfast.metrics.stability import stability


def test_the_normal_quantiles_of_the_tables() -> None:
    """Two-sided: 95 % leaves 2.5 % on each side."""
    assert z_value() == pytest.approx(1.959964, abs=5e-7)
    assert z_value(0.90) == pytest.approx(1.644854, abs=5e-7)
    assert z_value(0.99) == pytest.approx(2.575829, abs=5e-7)


def test_wilson_with_continuity_correction_solves_its_own_equation() -> None:
    """Newcombe 1998, method 4: each bound is the share at which |observed - share| - 1/2n is z standard errors."""
    for successes, n in ((1, 10), (81, 263), (15, 148), (19, 20), (3, 4), (500, 1000)):
        observed, (low, high) = successes / n, share_bounds(successes, n)
        for bound in (low, high):
            distance = abs(observed - bound) - 1 / (2 * n)
            assert distance == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / n), rel=1e-5)
        assert low < observed < high


def test_the_ends_of_the_scale_have_one_sided_bounds() -> None:
    nothing, everything = wilson(0, 20), wilson(20, 20)
    assert (nothing.low, everything.high) == (0, 1)
    # 0 of n: (h - 1/2n)² = z² h (1 - h) / n
    assert (nothing.high - 1 / 40) ** 2 == pytest.approx(1.959964**2 * nothing.high * (1 - nothing.high) / 20, rel=1e-5)
    assert everything.low == pytest.approx(1 - nothing.high)
    assert wilson(1, 2).n == 2
    empty = wilson(0, 0)
    assert (math.isnan(empty.value), empty.low, empty.high, empty.n) == (True, 0, 1, 0)


def test_a_wider_confidence_is_a_wider_interval() -> None:
    widths = [np.subtract(*share_bounds(30, 100, confidence=level)[::-1]) for level in (0.5, 0.9, 0.95, 0.99)]
    assert widths == sorted(widths)


def test_a_printed_number_has_an_interval_only_as_a_share_of_a_known_count() -> None:
    share = printed_score(0.25, 40, "percent")
    assert (share.value, share.n) == (0.25, 40)
    assert (share.low, share.high) == pytest.approx(share_bounds(10, 40))
    assert printed_score(0.25, 40, "fraction") == share
    for other in (printed_score(0.25, 0, "percent"), printed_score(0.25, 40, "points")):
        assert (other.value, other.n) == (0.25, 0)
        assert math.isnan(other.low)
        assert math.isnan(other.high)
    assert printed_score(0.004, 100, "percent").low == 0  # less than one of a hundred: none of them
    assert printed_score(0.996, 100, "percent").high == 1
    # printed 33.3 % of 3: the interval is that of 1 of 3, and holds the number as printed
    coarse = printed_score(0.333, 3, "percent")
    assert coarse.low == pytest.approx(share_bounds(1, 3)[0])


@pytest.mark.parametrize(
    ("only_one", "only_other", "p"),
    # a fair coin that often: half of what is as extreme and all that is more, on both sides
    [(0, 0, 1.0), (5, 5, 1.0), (1, 0, 1 / 2), (4, 0, 1 / 16), (9, 0, 1 / 512), (3, 1, (2 * 1 + 4) / 16)],
)
def test_mcnemar_by_counting_the_throws_of_a_coin(only_one: int, only_other: int, p: float) -> None:
    assert mcnemar(only_one, only_other) == pytest.approx(p, rel=1e-12)
    assert mcnemar(only_other, only_one) == pytest.approx(p, rel=1e-12)


def test_clopper_and_pearson_leave_half_of_the_miss_on_each_side() -> None:
    low, high = exact_bounds([3], [10], 0.1)
    assert stats.binom.sf(2, 10, low[0]) == pytest.approx(0.05)
    assert stats.binom.cdf(3, 10, high[0]) == pytest.approx(0.05)
    low, high = exact_bounds([0, 7], [7, 7], 0.05)
    assert (low[0], high[1]) == (0, 1)
    # the rule of three, exactly: (1 - h)^n is half of the miss
    assert (1 - high[0]) ** 7 == pytest.approx(0.025)
    assert low[1] ** 7 == pytest.approx(0.025)


def likelihood_z(k: int, n: int, j: int, m: int, at: float) -> float:
    """The score statistic with the most likely shares under a difference, by a search over all of them."""
    grid = np.linspace(max(0.0, -at), min(1.0, 1.0 - at), 400_001)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = ((k, grid + at), (n - k, 1 - grid - at), (j, grid), (m - j, 1 - grid))
        total = sum(np.where(count == 0, 0.0, count * np.log(np.maximum(share, 1e-300))) for count, share in terms)
    second = grid[int(np.argmax(total))]
    first = second + at
    variance = (first * (1 - first) / n + second * (1 - second) / m) * (n + m) / (n + m - 1)
    return (k / n - j / m - at) / math.sqrt(variance)


@pytest.mark.parametrize(("k", "n", "j", "m"), [(7, 20, 3, 25), (56, 70, 48, 80), (2, 9, 1, 4)])
def test_the_unpaired_interval_ends_where_the_score_test_rejects(k: int, n: int, j: int, m: int) -> None:
    made = unpaired_difference(k, n, j, m)
    assert made.difference.value == pytest.approx(k / n - j / m)
    assert made.difference.n == min(n, m)
    assert likelihood_z(k, n, j, m, made.difference.low) == pytest.approx(1.959964, abs=2e-3)
    assert likelihood_z(k, n, j, m, made.difference.high) == pytest.approx(-1.959964, abs=2e-3)
    assert made.p == pytest.approx(2 * stats.norm.sf(abs(likelihood_z(k, n, j, m, 0.0))), rel=1e-3)


def test_a_paired_difference_of_nothing() -> None:
    nothing = paired_difference(np.zeros(0, bool), np.zeros(0, bool))
    assert (math.isnan(nothing.value), nothing.low, nothing.high, nothing.n) == (True, -1, 1, 0)
    same = paired_difference(np.ones(4, bool), np.ones(4, bool))
    assert (same.value, same.n) == (0, 4)
    assert same.low == pytest.approx(-same.high)
    # Tango for no disagreement: z² / (n + z²)
    assert same.high == pytest.approx(1.959964**2 / (4 + 1.959964**2), rel=1e-5)


def test_rounding_of_numbers_with_all_defaults_said() -> None:
    assert shown(0.25) == "0.3"
    assert (shown(1234.5678, -2), shown(1250.0, -2)) == ("1200", "1300")
    assert (rounded(0.125), rounded(0.125, rounding="truncate"), rounded(2.345, 1)) == (0.13, 0.12, 2.3)
    # a float is taken for the decimal it stands for, nine digits beyond those shown
    assert shown(0.25 - 1e-11, 1) == "0.3"
    assert shown(0.25 - 3e-10, 1) == "0.2"
    assert shown(0.049999999, 1) == "0.0"
    assert (shown(math.inf, signed=True), shown(-math.inf, signed=True), shown(math.nan, signed=True)) == (
        "+inf",
        "-inf",
        "nan",
    )
    assert shown(-0.04, 1, signed=True) == "0.0"
    assert (figures(0.00012345), figures(0.0000012345), figures(0.5, 1), figures(123.456, 2)) == (
        "0.000123",
        "1.23e-06",
        "0.5",
        "123",
    )


def test_a_battery_counts_its_missing_cells() -> None:
    entries = tuple(Strength("a", float(i)) for i in range(3))
    cells = Battery(entries, np.array([0.5, np.nan, np.nan]), np.array([0.9, 0.8, np.nan]))
    assert cells.missing == 2


def test_the_spread_of_a_weighted_sum_of_nested_shares_by_hand() -> None:
    """Two shares .8 and .5 of the same 100 samples, nested: var(w1 X + w2 Y) with cov = min - product."""
    weights, shares = np.array([2.0, 3.0]), np.array([0.8, 0.5])
    by_hand = (4 * 0.8 * 0.2 + 9 * 0.5 * 0.5 + 2 * 6 * (0.5 - 0.4)) / 100
    assert _variance_of_sum(weights, shares, 100) == pytest.approx(by_hand, rel=1e-12)
    assert _variance_of_sum(weights, shares, 0) == 0.0


def test_the_steepest_pair_gives_the_stability_constant() -> None:
    """Best accuracies .9, .8, .7 and accuracies .6, .2, .3: from the trained first entry slopes of 4 and 1.5."""
    entries = tuple(Strength("a", float(i)) for i in (1, 2, 3))
    cells = Battery(entries, np.array([0.6, 0.2, 0.3]), np.array([0.9, 0.8, 0.7]))
    steepest = stability(cells, {"a": 1.0}, near=0.5)
    assert steepest.constant.value == pytest.approx(4.0)
    assert (steepest.known, steepest.other) == (entries[0], entries[1])
    assert (steepest.gap, steepest.difference) == (pytest.approx(0.1), pytest.approx(0.4))
