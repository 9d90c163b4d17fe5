"""Means over cells that share samples: closed forms, and what must not move them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.intervals import wilson
from holdfast.metrics.means import SampledValues, correlation_of_means, mean_of_sizes, mean_of_values, mean_over


def right(n: int, count: int) -> np.ndarray:
    return np.arange(n) < count


@given(st.integers(1, 200), st.data(), st.integers(1, 6))
def test_the_same_answers_several_times_are_one_share(n: int, data: st.DataObject, times: int) -> None:
    count = data.draw(st.integers(0, n))
    made = mean_over([SampledValues(np.arange(n), right(n, count))] * times)
    share = wilson(count, n)
    assert (made.value, made.low, made.high, made.n) == pytest.approx((share.value, share.low, share.high, n))


def test_cells_that_vary_each_for_itself_are_known_better_than_cells_that_vary_together() -> None:
    random = np.random.default_rng(0)
    ids = np.arange(400)
    one, other = random.random((2, 400)) < 0.5
    apart = mean_over([SampledValues(ids, one), SampledValues(ids, other)])
    together = mean_over([SampledValues(ids, one), SampledValues(ids, one)])
    assert (apart.high - apart.low) / (together.high - together.low) == pytest.approx(math.sqrt(0.5), abs=0.05)
    assert mean_over([SampledValues(ids, one), SampledValues(ids + 400, other)]).n == 800


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.floats(0.1, 5)), min_size=1, max_size=6),
    st.integers(0, 60),
)
def test_a_mean_lies_in_its_interval_and_never_without_a_width(cells: list[tuple[int, int, float]], shift: int) -> None:
    made = mean_over(
        [SampledValues(np.arange(n) + i * shift, right(n, count), w) for i, (n, count, w) in enumerate(cells)]
    )
    assert 0 <= made.low <= made.value <= made.high <= 1
    assert made.low < made.high
    turned = mean_over(
        [SampledValues(np.arange(n) + i * shift, ~right(n, count), w) for i, (n, count, w) in enumerate(cells)]
    )
    assert (1 - turned.high, 1 - turned.low) == pytest.approx((made.low, made.high), abs=0.02), "right and wrong turn"


def test_order_of_samples_and_names_do_not_matter() -> None:
    random = np.random.default_rng(1)
    ids, values = np.array([f"s{i}" for i in range(50)]), random.random((2, 50)) < 0.7
    order = random.permutation(50)
    one = mean_over([SampledValues(ids, values[0]), SampledValues(ids[order], values[1][order])])
    other = mean_over([SampledValues(ids, values[0]), SampledValues(ids, values[1])])
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_a_long_tail_that_is_hardly_seen_is_allowed_for() -> None:
    values = np.full(20, 0.999)
    values[0] = 0.9
    assert mean_of_values(values).low < 0.9
    assert mean_of_values(np.full(20, 0.5)).high > 0.5, "the next sample may differ"


def test_correlation_is_that_of_the_means() -> None:
    ids = np.arange(100)
    one, other = np.random.default_rng(2).random((2, 100)) < 0.5
    expected = float(np.corrcoef(one, other)[0, 1])
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids, other)]) == pytest.approx(expected)
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids, one)]) == pytest.approx(1)
    assert correlation_of_means([SampledValues(ids, one)], [SampledValues(ids + 100, other)]) == 0


def test_sizes_that_do_not_vary_or_are_few_have_no_interval() -> None:
    assert mean_of_sizes(np.full(20, 0.03)).why == "all samples have the same value"
    assert not mean_of_sizes([1.0, 2.0]).has_interval
    made = mean_of_sizes(np.random.default_rng(0).gamma(2, 1, 500))
    assert made.low < made.value < made.high
