from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from holdfast.core.intervals import wilson
from holdfast.metrics.confusion import dominant_class
from holdfast.store import Footer, Rows


@pytest.fixture
def answers(rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> Callable[..., Rows]:
    """Rows of samples with these labels and these answers; NaN is no usable answer."""

    def make(labels: Sequence[int], predicted: Sequence[float], classes: int = 10) -> Rows:
        logits = np.zeros((len(labels), classes), np.float32)
        for i, answer in enumerate(predicted):
            if np.isnan(answer):
                logits[i] = np.nan
            else:
                logits[i, int(answer)] = 9
        footer = replace(footer_for(), classes=tuple(f"class {i}" for i in range(classes)))
        return rows_for([True] * len(labels), labels=np.asarray(labels), logits=logits, footer=footer)

    return make


def test_a_model_that_collapses_into_one_class_is_told(answers: Callable[..., Rows]) -> None:
    labels = [i % 10 for i in range(100)]
    found = dominant_class(answers(labels, [3.0] * 100))
    assert found is not None
    assert (found.index, found.count, found.share) == (3, 90, wilson(90, 90))
    assert found.expected == pytest.approx(0.1)


def test_samples_without_an_answer_name_no_class(answers: Callable[..., Rows]) -> None:
    labels = [i % 10 for i in range(100)]
    assert dominant_class(answers(labels, [np.nan] * 100)) is None
    found = dominant_class(answers(labels, [np.nan] * 50 + [3.0] * 50))
    assert found is not None
    assert found.share.n == 45


def test_no_mistakes_no_class(answers: Callable[..., Rows]) -> None:
    assert dominant_class(answers([1, 2, 3], [1.0, 2.0, 3.0])) is None


def test_of_two_classes_the_wrong_answer_is_always_the_other_one(answers: Callable[..., Rows]) -> None:
    """What can be uneven is which class goes wrong."""
    labels = [i % 2 for i in range(200)]
    even = [1 - label if i % 4 < 2 else label for i, label in enumerate(labels)]
    assert dominant_class(answers(labels, even, classes=2)) is None
    found = dominant_class(answers(labels, [0.0] * 200, classes=2))
    assert found is not None
    assert (found.index, found.count, found.expected) == (0, 100, 0.5)


def test_few_mistakes_are_not_enough(answers: Callable[..., Rows]) -> None:
    labels = [i % 10 for i in range(20)]
    predicted = [float(label) for label in labels]
    predicted[1] = predicted[2] = 0.0
    assert dominant_class(answers(labels, predicted)) is None


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_errors_that_spread_evenly_are_named_in_one_case_of_a_hundred_at_most(
    answers: Callable[..., Rows], classes: int
) -> None:
    generator = np.random.default_rng(classes)
    labels = np.arange(300) % classes
    named = 0
    for _ in range(200):
        predicted = np.where(
            generator.random(300) < 0.5, labels, (labels + generator.integers(1, classes, 300)) % classes
        ).astype(float)
        named += dominant_class(answers(labels, predicted, classes=classes)) is not None
    assert named <= 5  # two expected at most; more than five of 200 at 1 % has a chance of 2 %
