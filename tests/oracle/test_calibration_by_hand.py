"""Calibration and means of shares in cases small enough to work out: closed forms of their intervals, bins by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hard_cases import rows_of

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.metrics import calibration, means
from holdfast.metrics import calibration_error as binning
from holdfast.metrics.accuracy import TopK, worst_case
from holdfast.metrics.calibration import bounded_mean, brier_terms, largest_loss, nll_terms
from holdfast.metrics.calibration_error import calibration_error
from holdfast.metrics.means import (
    SampledValues,
    correlation_of_means,
    difference_reach,
    mean_of_sizes,
    mean_of_values,
    mean_over,
    scaled,
)
from holdfast.store import Rows

MANY = 60_000  # draws: a quantile at 2.5 % is known to 0.1 points


@pytest.mark.parametrize("at_once", [2_000_000, 1000])
@pytest.mark.parametrize(("n", "value", "largest"), [(1, 0.5, 2.0), (3, 1.5, 4.0), (20, 0.1, 1.0)])
def test_a_bounded_mean_of_equal_values_has_a_closed_form(
    monkeypatch: pytest.MonkeyPatch, at_once: int, n: int, value: float, largest: float
) -> None:
    """The added sample has a share of Beta(1, n), so (1 - share)^n is uniform: the bounds are its quantiles."""
    monkeypatch.setattr(calibration, "_AT_ONCE", at_once)
    made = bounded_mean(np.full(n, value), largest, resamples=MANY if at_once > 1000 else 3000)
    kept = 0.025 ** (1 / n)
    assert (made.value, made.n) == (pytest.approx(value), n)
    assert made.low == pytest.approx(value * kept, abs=0.03 * value)
    assert made.high == pytest.approx(largest - (largest - value) * kept, abs=0.03 * (largest - value))


def test_a_bounded_mean_without_samples_or_draws_has_no_interval() -> None:
    nothing, plain = bounded_mean(np.array([]), 1.0), bounded_mean(np.array([0.2, 0.4]), 1.0, resamples=0)
    assert nothing.n == 0
    assert math.isnan(nothing.value)
    assert (plain.value, plain.n) == (pytest.approx(0.3), 2)
    assert math.isnan(plain.low)
    assert bounded_mean(np.full(5, 1.0), 1.0).high == 1


def test_the_largest_loss_is_that_of_the_least_likely_class() -> None:
    rows = rows_of(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([1, 1]))
    # the widest gap between logits, and the most that a prediction lies below the sum
    assert largest_loss(rows) == pytest.approx(3 + math.log(1 + math.exp(-1)), rel=1e-3)
    assert nll_terms(rows) == pytest.approx([math.log(1 + math.exp(-3)), math.log(1 + math.exp(1))], rel=1e-3)


def test_brier_of_four_classes_by_hand() -> None:
    """Softmax of logarithms is their argument: label, prediction and two others that share what is left."""
    shares = np.array([[0.5, 0.25, 0.2, 0.05], [0.1, 0.6, 0.2, 0.1]])
    for offset in (0.0, 1000.0):
        rows = rows_of(np.log(shares) + offset, np.array([1, 1]))
        truth = np.eye(4)[1]
        expected = [((row - truth) ** 2).sum() for row in shares]
        assert brier_terms(rows) == pytest.approx(expected, abs=2e-3 if not offset else 0.15)  # float16
    assert calibration._concentration(np.array([[1000.0, 1000.0 + math.log(3), -math.inf]])) == pytest.approx([0.625])
    assert calibration._concentration(np.array([[0.0, -800.0]])) == pytest.approx([1])
    assert calibration._concentration(np.full((1, 2), -math.inf)) == pytest.approx([0])


def binned(counts: list[int], right: list[int], confidence: list[float]) -> binning._Binned:
    return binning._Binned(np.array(counts), np.array(right), np.array(confidence), 2000)


def test_a_bin_by_hand() -> None:
    some = binned([4, 4], [3, 0], [0.5, 0.9])
    assert some.n == 8
    assert some.plain == pytest.approx((abs(3 - 2) + abs(0 - 3.6)) / 8)
    assert some.gaps == pytest.approx([3.5 / 5 - 0.5, 0.9 / 5 - 0.9])
    # at the stated accuracy (0.5) for the first, at the observed one (0.18) for the second
    assert some.errors == pytest.approx([math.sqrt(0.25 / 4), math.sqrt(0.18 * 0.82 / 4)])
    assert some.error_of(np.array([0.2, 0.3])) == pytest.approx((0.2 + 0.1) / 2)  # no accuracy above 1
    # 4 coins: |right - 2| / 4 is 0, 1/4 or 1/2 with chances 6, 8, 2 of 16
    coins = binned([4], [2], [0.5]).drawn(np.array([0.0]))
    assert set(coins) == {0.0, 0.25, 0.5}
    assert coins.mean() == pytest.approx((8 * 0.25 + 2 * 0.5) / 16, abs=0.01)
    assert set(binned([4], [2], [0.5]).drawn(np.array([0.7]))) == {0.5}  # always right


def test_bins_are_open_below_and_closed_above() -> None:
    made = calibration_error(np.array([0.0, 0.2, 0.21, 1.0]), np.array([True, False, True, True]), bins=5, resamples=0)
    assert [end for each in made.bins for end in (each.low, each.high)] == pytest.approx([0, 0.2, 0.2, 0.4, 0.8, 1])
    assert [each.accuracy.n for each in made.bins] == [2, 1, 1]
    assert [each.accuracy.value for each in made.bins] == [0.5, 1, 1]
    assert [each.confidence for each in made.bins] == pytest.approx([0.1, 0.21, 1])
    assert made.plain == pytest.approx((2 * 0.4 + 0.79 + 0) / 4)
    assert math.isnan(made.debiased.low)
    one = calibration_error(np.array([0.3, 0.9]), np.array([False, True]), bins=1, resamples=0)
    assert one.plain == pytest.approx(0.1)
    with pytest.raises(Misuse, match="1 or more"):
        calibration_error(np.array([0.3]), np.array([True]), bins=0)
    assert calibration_error(np.array([]), np.array([], bool)).debiased.n == 0


def test_a_draw_equal_to_what_was_seen_counts_half() -> None:
    assert binning._share_above(np.array([1.0, 2.0, 3.0, 4.0]), 2.0) == pytest.approx((2 / 4 + 3 / 4) / 2)
    assert binning._share_above(np.array([1.0]), 2.0) == 0
    assert binning._share_above(np.array([3.0]), 2.0) == 1


def test_the_interval_of_bins_widens_by_which_confidences_came() -> None:
    """Two bins of gaps 0.1 and 0.3: their share varies by 0.1 · z / √n around a mean gap of 0.2."""
    some = binned([50, 50], [30, 40], [0.5, 0.5])
    made = binning._with_weights(some, np.array([0.1, 0.3]), 0.15, 0.3)
    spread = 1.959964 * 0.1 / math.sqrt(100)
    assert made.value == pytest.approx(0.2)
    assert made.low == pytest.approx(0.2 - math.hypot(0.05, spread), rel=1e-5)
    assert made.high == pytest.approx(0.2 + math.hypot(0.1, spread), rel=1e-5)
    alone = binning._with_weights(binned([50], [30], [0.5]), np.array([0.1]), 0.04, 0.3)
    assert (alone.low, alone.high) == pytest.approx((0.04, 0.3))


def test_paths_of_gaps_by_hand() -> None:
    some = binned([9, 9], [9, 3], [0.5, 0.5])  # gaps of 0.45 and -0.15, standard errors of 1/6
    gaps, error = np.array([0.45, -0.15]), 1 / 6
    few = binning._few_bins(some)
    assert few(0.5) == pytest.approx([0.45, 0])
    assert few(0.75) == pytest.approx([0.45, -0.075])
    assert few(2.0) == pytest.approx(2 * gaps)
    even = binning._spread(some)
    # the first is beyond chance and keeps its side; the second goes down, where a confidence of half has as much room
    assert even(1.0) == pytest.approx([math.hypot(0.45, error), -math.hypot(0.15, error)])
    assert even(0.5) == pytest.approx(even(1.0) / 2)
    shrunk = binning._shrunk(some)
    assert shrunk(0.0) == pytest.approx([0, 0])
    assert shrunk(1.0) == pytest.approx(gaps)
    # at a half everything within 0.225 of 0 is chance
    assert shrunk(0.5) == pytest.approx([0.225, 0])
    assert shrunk(1.5) == pytest.approx(1.5 * gaps)


def test_the_first_point_of_a_path_is_where_its_condition_begins() -> None:
    some = binned([1], [1], [0.5])

    def first(begins: float) -> float:
        along: list[float] = []

        def path(t: float) -> np.ndarray:
            along.append(t)
            return np.zeros(1)

        return binning._first(some, path, lambda drawn, seen: along[-1] >= begins)

    assert first(0.0) == 0
    assert first(0.3) == pytest.approx(0.3, abs=2**-12)
    assert first(5.0) == pytest.approx(5.0, abs=4 * 2**-12)
    assert first(1000.0) == 64


# means over cells


def test_one_cell_of_right_and_wrong_has_wilsons_interval() -> None:
    right = np.arange(40) < 13
    made = mean_of_values(right)
    exact = wilson(13, 40)
    assert (made.value, made.low, made.high, made.n) == pytest.approx((exact.value, exact.low, exact.high, 40))
    # the same samples again, under other names of cells: nothing is learned
    twice = mean_over([SampledValues(np.arange(40), right), SampledValues(np.arange(40), right, 3.0)])
    assert (twice.low, twice.high, twice.n) == pytest.approx((exact.low, exact.high, 40))
    none = mean_over([])
    assert (math.isnan(none.value), none.low, none.high, none.n) == (True, 0, 1, 0)


def test_weights_of_cells_are_shares_and_empty_cells_count_nothing() -> None:
    cells = [SampledValues(["a", "b"], [1, 0], 1.0), SampledValues(["c"], [1], 3.0), SampledValues([], [], 7.0)]
    made = mean_over(cells)
    assert (made.value, made.n) == (pytest.approx((0.5 + 3) / 4), 3)
    assert made.low <= made.value <= made.high


def test_more_variance_widens_and_none_does_not() -> None:
    right = [SampledValues(np.arange(100), np.arange(100) < 40)]
    plain, wider = mean_over(right), mean_over(right, more=0.4 * 0.6 / 100)
    half = wilson(20, 50)  # twice the variance: half of the samples
    assert (wider.low, wider.high) == pytest.approx((half.low, half.high))
    assert mean_over(right, more=0.0) == plain


def test_cells_of_the_same_samples_vary_together() -> None:
    ids, one = np.arange(6), np.array([1, 0, 1, 1, 0, 0])
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids, one)]) == pytest.approx(1)
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids, 1 - one)]) == pytest.approx(-1)
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids + 6, one)]) == 0
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids, np.ones(6))]) == 0
    other = np.array([1, 1, 0, 1, 0, 1])
    made = correlation_of_means([SampledValues(ids, one)], [SampledValues(ids[::-1], other[::-1])])
    assert made == pytest.approx(np.corrcoef(one, other)[0, 1])


def test_reaches_and_scales_by_hand() -> None:
    assert difference_reach(3.0, 4.0, 0.0) == pytest.approx(5)
    assert difference_reach(3.0, 4.0, 1.0) == pytest.approx(1)
    assert difference_reach(3.0, 4.0, -1.0) == pytest.approx(7)
    assert difference_reach(2.0, 2.0, 1.0) == 0
    assert scaled(Score(0.5, 0.4, 0.7, 9, "why"), 2.0) == Score(1.0, 0.8, 1.4, 9, "why")


@pytest.mark.parametrize("at_once", [2_000_000, 500])
def test_a_mean_of_sizes_is_close_to_students_interval_for_normal_values(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    from scipy import stats

    monkeypatch.setattr(means, "AT_ONCE", at_once)
    values = stats.norm.ppf((np.arange(200) + 0.5) / 200) * 2 + 10
    made = mean_of_sizes(values)
    reach = float(stats.t.ppf(0.975, 199)) * values.std(ddof=1) / math.sqrt(200)
    assert (made.value, made.n) == (pytest.approx(10), 200)
    # 1,000 draws leave a standard error of 6 % in a quantile
    assert (10 - made.low, made.high - 10) == (pytest.approx(reach, rel=0.2), pytest.approx(reach, rel=0.2))
    assert mean_of_sizes([]).n == 0
    assert mean_of_sizes(np.ones(20)).why == "all samples have the same value"
    assert mean_of_sizes(np.arange(9)).why == "a mean of fewer than 10 samples"
    assert not mean_of_sizes(np.arange(10)).why


def test_a_long_tail_reaches_further_on_its_side_alone() -> None:
    """49 zeros and one sample of 0.9: what was missed may be more, not less."""
    values = np.zeros(50)
    values[7] = 0.9
    made, mirrored = mean_of_values(values), mean_of_values(1 - values)
    assert made.value == pytest.approx(0.018)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((made.low, made.high), abs=0.01)
    exact = wilson(1, 50)
    assert made.high > 0.9 * exact.high - 0.01


# accuracies


def test_the_top_k_hold_the_label() -> None:
    logits = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2.0, 3.0, 1.0]])
    rows = rows_of(logits, np.array([0, 0, 0]))
    assert [TopK(k=k)(rows).value for k in (0, 1, 2, 3)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert TopK()(rows).value == 1
    with pytest.raises(Misuse, match="0 or more"):
        TopK(k=-1)


def test_the_worst_case_is_over_the_samples_of_the_first_run() -> None:
    def rows(right: dict[str, bool]) -> Rows:
        made = rows_of(
            np.array([[1.0, 0.0] if each else [0.0, 1.0] for each in right.values()]), np.zeros(len(right), int)
        )
        names = made.table.column_names
        table = made.table.set_column(names.index("id"), "id", [list(right)])
        return Rows(table, made.footer)

    first, second = rows({"a": True, "b": True}), rows({"c": False, "b": False, "a": True})
    assert worst_case([first, second]).value == 0.5
    assert worst_case([first, second]).n == 2
    with pytest.raises(HoldfastError, match="1 of 3 samples are not in run"):
        worst_case([second, first])
    with pytest.raises(HoldfastError, match="no runs"):
        worst_case([])
