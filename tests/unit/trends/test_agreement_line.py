"""Accuracy without labels: where agreement is on the line, so is what it predicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.trends.agreement_line import agreement_rates, predict_accuracy
from holdfast.trends.shared_predictions import side_by_side


class Answers(NamedTuple):
    reference: np.ndarray
    labels: np.ndarray
    shifted: np.ndarray
    truth: np.ndarray


def population(models: int = 12, *, n: int = 20_000, classes: int = 10, slope: float = 0.9, seed: int = 0) -> Answers:
    """Models that share difficulty: an answer is right when skill beats it; wrong answers fall on a likely class."""
    random = np.random.default_rng(seed)
    skill = np.linspace(0.6, 2.2, models)
    made, labels = [], []
    for move, scale in ((0.0, 1.0), (-0.4, slope)):
        label, likely = random.integers(0, classes, n), random.integers(0, classes, n)
        difficulty = np.sqrt(0.6) * random.normal(size=n) + np.sqrt(0.4) * random.normal(size=(models, n))
        right = difficulty < (scale * skill + move)[:, None]
        wrong = np.where(random.random((models, n)) < 0.5, likely, random.integers(0, classes, (models, n)))
        made.append(np.where(right, label, wrong).astype(np.float64))
        labels.append(label)
    return Answers(made[0], labels[0], made[1], (made[1] == labels[1]).mean(axis=1))


def naive_agreement(predictions: np.ndarray) -> np.ndarray:
    return np.array([[(one == other).mean() for other in predictions] for one in predictions])


def test_agreement_is_the_share_of_equal_answers_and_no_answer_agrees_with_nothing() -> None:
    made = population(5, n=400)
    np.testing.assert_allclose(agreement_rates(made.reference), naive_agreement(made.reference), atol=1e-7)
    silent = np.array([[1, np.nan, 2], [1, np.nan, 3]])
    assert agreement_rates(silent)[0, 1] == pytest.approx(1 / 3)


@pytest.mark.parametrize("method", ["aline-d", "aline-s"])
def test_accuracy_under_the_shift_is_predicted_within_two_points(method) -> None:
    made = population()
    names = [f"m{i}" for i in range(12)]
    found = predict_accuracy(names, made.reference, made.labels, made.shifted, method=method, draws=100)
    assert found.line.holds
    predicted = np.array([each.accuracy.value for each in found.models])
    drop = (made.reference == made.labels).mean(axis=1) - made.truth
    assert drop.mean() > 0.08, "a shift that costs accuracy"
    assert np.abs(predicted - made.truth).max() < 0.02
    assert all(each.accuracy.low <= each.accuracy.value <= each.accuracy.high for each in found.models)


def test_the_closed_solution_is_that_of_least_squares_over_pairs() -> None:
    made = population(6, n=3000)
    found = predict_accuracy(list("abcdef"), made.reference, made.labels, made.shifted, draws=10)
    before, after = norm.ppf(naive_agreement(made.reference)), norm.ppf(naive_agreement(made.shifted))
    known = norm.ppf((made.reference == made.labels).mean(axis=1))
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    slope, intercept = np.polyfit([before[p] for p in pairs], [after[p] for p in pairs], 1)
    assert (found.line.slope, found.line.intercept) == pytest.approx((slope, intercept), abs=1e-5)
    system = np.array([[0.5 * (k in pair) for k in range(6)] for pair in pairs])
    right = [after[i, j] + slope * ((known[i] + known[j]) / 2 - before[i, j]) for i, j in pairs]
    expected = norm.cdf(np.linalg.lstsq(system, np.array(right), rcond=None)[0])
    # agreements are counted in float32
    assert [each.accuracy.value for each in found.models] == pytest.approx(expected.tolist(), abs=1e-5)


def test_no_shift_predicts_the_accuracy_itself() -> None:
    made = population(6, n=2000)
    found = predict_accuracy(list("abcdef"), made.reference, made.labels, made.reference, same_samples=True, draws=50)
    for each in found.models:
        assert each.accuracy.value == pytest.approx(each.reference, abs=1e-5)
    assert found.line.slope == pytest.approx(1)


def test_the_order_of_models_and_samples_changes_no_prediction() -> None:
    made = population(6, n=1000)
    names = np.array(list("abcdef"))
    order, samples = np.array([3, 1, 5, 0, 2, 4]), np.random.default_rng(0).permutation(1000)
    one = predict_accuracy(list(names), made.reference, made.labels, made.shifted, draws=5)
    other = predict_accuracy(
        list(names[order]), made.reference[order][:, samples], made.labels[samples], made.shifted[order], draws=5
    )
    again = {each.model: each.accuracy.value for each in other.models}
    assert [again[each.model] for each in one.models] == pytest.approx([each.accuracy.value for each in one.models])


def test_pairs_that_always_agree_are_counted() -> None:
    made = population(5, n=500)
    made.reference[1], made.shifted[1] = made.reference[0], made.shifted[0]
    assert predict_accuracy(list("abcde"), made.reference, made.labels, made.shifted, draws=5).line.at_edge == 1


def test_what_cannot_be_predicted_is_refused() -> None:
    made = population(3, n=50)
    with pytest.raises(HoldfastError, match="2 models have 1 pairs"):
        predict_accuracy(list("ab"), made.reference[:2], made.labels, made.shifted[:2])
    with pytest.raises(Misuse, match="no method named"):
        predict_accuracy(list("abc"), made.reference, made.labels, made.shifted, method="magic")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="the samples are not the same"):
        predict_accuracy(list("abc"), made.reference, made.labels, made.shifted[:, :40], same_samples=True)
    same = np.zeros((3, 50))
    with pytest.raises(HoldfastError, match="agrees equally often"):
        predict_accuracy(list("abc"), same, made.labels, same)


class Predicted(NamedTuple):
    ids: list[str]
    predictions: np.ndarray
    labels: np.ndarray


def test_models_stand_side_by_side_on_the_samples_all_of_them_saw() -> None:
    one = Predicted(["a", "b", "c"], np.array([1.0, 2, 3]), np.array([1, 2, 0]))
    other = Predicted(["c", "a", "d"], np.array([0.0, 1, np.nan]), np.array([0, 1, 4]))
    both = side_by_side({"one": one, "other": other})
    assert (both.ids, both.left_out) == (("a", "c"), 2)
    assert both.correct.tolist() == [[True, False], [True, True]]
    with pytest.raises(HoldfastError, match="different labels"):
        side_by_side({"one": one, "other": other._replace(labels=np.array([9, 1, 4]))})
    with pytest.raises(HoldfastError, match="share no samples"):
        side_by_side({"one": one, "other": other._replace(ids=["x", "y", "z"])})
    with pytest.raises(HoldfastError, match="no models"):
        side_by_side({})
