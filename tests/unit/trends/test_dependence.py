"""How errors go together, and what accuracy follows without labels: closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.metrics.error_consistency import kappa
from holdfast.trends.agreement_line import agreement_rates, predict_accuracy
from holdfast.trends.confidence_estimates import by_confidence
from holdfast.trends.dependence import accuracies_if_kept, dependence, pairs_of


def predicted(accuracies: list[float], n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, n)
    wrong = random.random((len(accuracies), n)) >= np.array(accuracies)[:, None]
    return np.where(wrong, (labels + random.integers(1, 10, wrong.shape)) % 10, labels).astype(float), labels


def test_dependence_is_error_consistency_over_pairs() -> None:
    answers, labels = predicted([0.6, 0.7, 0.8], 2000)
    found = dependence(pairs_of(answers, labels))
    right = answers == labels
    each = [kappa(right[i], right[j]).value for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.kappa == pytest.approx(np.mean(each))
    assert found.same == pytest.approx(1 / 9, abs=0.03), "one of nine wrong answers, by chance"
    same = dependence(pairs_of(np.stack([answers[0]] * 3), labels))
    assert (same.kappa, same.same, same.shared) == pytest.approx((1, 1, 1))


@given(st.lists(st.floats(0.55, 0.95), min_size=3, max_size=6), st.integers(0, 100))
def test_where_nothing_shifts_every_assumption_gives_the_accuracies_back(accuracies: list[float], seed: int) -> None:
    answers, labels = predicted(accuracies, 1000, seed)
    pairs = pairs_of(answers, labels)
    actual = (answers == labels).mean(axis=1)
    found = accuracies_if_kept(pairs, agreement_rates(answers)[pairs.one, pairs.other], actual)
    assert np.abs(found - actual).max() < 0.01


def test_models_that_share_nearly_all_errors_are_refused_an_interval() -> None:
    answers, labels = predicted([0.8], 3000)
    copies = np.repeat(answers, 6, axis=0)
    random = np.random.default_rng(1)
    for i in range(6):  # each is a little worse than the last
        worse = random.random(3000) < 0.01 * i
        copies[i, worse] = (copies[i, worse] + 1) % 10
    made = predict_accuracy([str(i) for i in range(6)], copies, labels, copies, same_samples=True, draws=20)
    assert made.dependence.shared > 0.85
    assert "shared" in made.refused
    assert all(not each.accuracy.has_interval and each.accuracy.why == made.refused for each in made.models)
    few = predict_accuracy(
        ["a", "b", "c"], *predicted([0.6, 0.7, 0.9], 3000), predicted([0.5, 0.6, 0.85], 3000, 1)[0], draws=20
    )
    assert few.refused


@given(st.integers(0, 1000))
def test_without_a_shift_thresholds_and_differences_give_the_accuracy_back(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 200))
    sure = np.round(random.random(n), 1)  # ties
    right = random.random(n) < sure
    made = by_confidence(sure, right, sure)
    assert made.thresholded == pytest.approx(right.mean())
    assert made.difference == pytest.approx(right.mean())
    assert made.average == pytest.approx(sure.mean())


def test_confidences_by_hand() -> None:
    before, right = np.array([0.9, 0.8, 0.6, 0.5]), np.array([True, True, True, False])
    made = by_confidence(before, right, np.array([0.7, 0.65, 0.5, 0.3]))
    assert made.thresholded == 0.5  # the threshold is 0.6: two of four lie above
    assert made.difference == pytest.approx(0.75 - (0.7 - 0.5375))
    assert made.average == pytest.approx(0.5375)
    unanswered = by_confidence(before, right, np.array([0.7, np.nan, np.nan, 0.8]))
    assert (unanswered.thresholded, unanswered.average) == (0.5, pytest.approx(0.375))
    assert np.isnan(by_confidence(np.full(4, np.nan), right, before)).all()
    assert by_confidence(before, np.zeros(4, dtype=bool), before).thresholded == 0


@pytest.mark.parametrize("seed", range(3))
def test_where_errors_are_independent_every_assumption_finds_the_accuracies_under_a_shift(seed: int) -> None:
    """Also of models that err on most samples: a standard error of 20,000 samples is 0.4 points."""
    before, after = np.linspace(0.6, 0.95, 8), np.linspace(0.4, 0.85, 8)
    assert np.abs(found_under_a_shift(before, after, 0.0, seed) - after).max() < 0.015


@pytest.mark.parametrize("shared", [0.25, 0.5, 0.75])
def test_where_errors_are_shared_the_possible_overlap_finds_the_accuracies(shared: float) -> None:
    before, after = np.linspace(0.6, 0.95, 8), np.linspace(0.4, 0.85, 8)
    _, of_possible, _ = found_under_a_shift(before, after, shared, 0)
    assert np.abs(of_possible - after).mean() < 0.04


def found_under_a_shift(before: np.ndarray, after: np.ndarray, shared: float, seed: int) -> np.ndarray:
    (reference, labels), (shifted, _) = (shared_errors(each, 20_000, shared, seed) for each in (before, after))
    pairs = pairs_of(reference, labels)
    return accuracies_if_kept(pairs, agreement_rates(shifted)[pairs.one, pairs.other], np.full(len(after), 0.5))


def shared_errors(accuracies: np.ndarray, n: int, shared: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers of models that make `shared` of their errors together with all that are no better, with one answer."""
    random = np.random.default_rng([seed, round(1e6 * accuracies[0])])
    labels, wrong = random.integers(0, 10, n), 1 - accuracies[:, None]
    common = random.random(n) < shared * wrong
    own = random.random((len(wrong), n)) < wrong * (1 - shared) / (1 - shared * wrong)
    popular, other = (labels + random.integers(1, 10, n)) % 10, (labels + random.integers(1, 10, own.shape)) % 10
    return np.where(common, popular, np.where(own, other, labels)).astype(float), labels
