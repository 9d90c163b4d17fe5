"""Accuracy by class: closed forms, and intervals that hold what they promise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import registry
from holdfast.metrics.means import SampledValues, mean_over
from holdfast.metrics.per_class_accuracy import BalancedAccuracy, MajorityShare, PerClassAccuracy, per_class
from holdfast.store import Rows


@pytest.fixture
def uneven(rows_for: Callable[..., Rows]) -> Callable[..., Rows]:
    """Rows with so many (right, wrong) samples of each class."""

    def make(*counts: tuple[int, int]) -> Rows:
        labels = np.repeat(np.arange(len(counts)), [sum(pair) for pair in counts])
        right = [i < good for good, bad in counts for i in range(good + bad)]
        logits = np.zeros((len(labels), 10), np.float32)
        logits[np.arange(len(labels)), np.where(right, labels, (labels + 1) % 10)] = 9
        return rows_for(right, labels=labels, logits=logits)

    return make


def test_a_model_of_one_answer_has_one_over_k(uneven: Callable[..., Rows]) -> None:
    rows = uneven((90, 0), (0, 6), (0, 4))
    assert BalancedAccuracy()(rows).value == pytest.approx(1 / 3)
    assert MajorityShare()(rows).value == pytest.approx(0.9), "its plain accuracy looks good"
    worst = PerClassAccuracy()(rows)
    assert worst is not None
    assert (worst.value, worst.has_interval) == (0, False), "the worst of several classes has no interval"
    assert "the lowest of" in worst.why
    assert worst.n == 100


def test_every_class_has_its_own_share(uneven: Callable[..., Rows]) -> None:
    rows = uneven((3, 1), (0, 0), (1, 1))
    assert per_class(rows) == {0: wilson(3, 4), 2: wilson(1, 2)}
    assert PerClassAccuracy(label=0)(rows) == PerClassAccuracy(label="a")(rows) == wilson(3, 4)
    assert PerClassAccuracy(label=1)(rows) is None, "no sample, no share"
    assert BalancedAccuracy()(rows).value == pytest.approx((0.75 + 0.5) / 2)
    with pytest.raises(Misuse, match="no class of run"):
        PerClassAccuracy(label="zebra")(rows)


def test_equal_classes_make_the_plain_accuracy(uneven: Callable[..., Rows]) -> None:
    rows = uneven((3, 1), (2, 2), (4, 0))
    assert BalancedAccuracy()(rows).value == pytest.approx(9 / 12)


def classes(*counts: tuple[int, int]) -> list[SampledValues]:
    """A cell for each class: so many right of so many."""
    starts = np.cumsum([0, *(n for _, n in counts)])
    return [
        SampledValues(start + np.arange(n), np.arange(n) < right)
        for start, (right, n) in zip(starts, counts, strict=False)
    ]


@given(st.integers(0, 50), st.integers(1, 50))
def test_one_class_keeps_its_interval(right: int, more: int) -> None:
    score, made = wilson(right, right + more), mean_over(classes((right, right + more)))
    assert (made.low, made.high) == pytest.approx((score.low, score.high))


@pytest.mark.parametrize(("right", "edge"), [(20, 1.0), (0, 0.0)])
@pytest.mark.parametrize("count", [2, 10])
def test_at_the_borders_the_interval_ends_there_and_has_a_width(right: int, edge: float, count: int) -> None:
    score = mean_over(classes(*[(right, 20)] * count))
    whole = wilson(count * right, count * 20)
    assert score.value == edge
    assert (score.low, score.high) == pytest.approx((whole.low, whole.high)), "classes of one size: as all together"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=8))
def test_the_interval_holds_the_value_inside_the_unit_interval(pairs: list[tuple[int, int]]) -> None:
    score = mean_over(classes(*[(min(right, n), n) for right, n in pairs]))
    assert 0 <= score.low <= score.value <= score.high <= 1
    assert score.high > score.low, "never without a width"


@pytest.mark.parametrize(("one", "other"), list(product((0.02, 0.3, 0.5, 0.9, 0.99), repeat=2)))
def test_the_interval_covers_the_truth_as_often_as_it_says(one: float, other: float) -> None:
    """Exactly, over all outcomes of two classes of 20 and 40 samples that are not all but impossible."""
    truth, covered, known = (one + other) / 2, 0.0, 0.0
    terms = list(zip((20, 40), (one, other), strict=True))
    chances = [[comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)] for n, p in terms]
    for (i, first), (j, second) in product(enumerate(chances[0]), enumerate(chances[1])):
        if first * second > 1e-5:
            made = mean_over(classes((i, 20), (j, 40)))
            covered += first * second * (made.low <= truth <= made.high)
            known += first * second
    assert covered / known >= 0.93


@pytest.mark.parametrize(
    "name", ["balanced-accuracy", "per-class-accuracy", "per-class-accuracy:label=3", "majority-share"]
)
def test_the_metrics_are_registered(name: str, rows_for: Callable[..., Rows]) -> None:
    made = registry.build(registry.bind("metric", name))(rows_for([True, False] * 10))
    assert 0 <= made.value <= 1


def test_scores_show_further_metrics(run: Callable[..., object]) -> None:
    run("evaluate", "fashion-standard", "--samples", "40", "-q")
    answer = run("scores", "--metric", "balanced-accuracy", "--metric", "majority-share", "--csv")
    assert "balanced-accuracy low" in answer.out  # type: ignore[attr-defined]
    shown = run("scores", "--metric", "per-class-accuracy:label=3").out  # type: ignore[attr-defined]
    assert "per-class-accuracy:label=3" in shown
    assert run("scores", "--metric", "balancd-accuracy").code == 2  # type: ignore[attr-defined]
