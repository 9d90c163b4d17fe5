"""Intervals that say 95 % hold the truth about as often, on simulated models and samples.

Measured over 1,000 trials each: the band over 10, 20, 40 and 78 models holds the line in 95.4, 94.0, 95.3 and 95.0 %
(88.2, 91.5, 93.4 and 93.5 % as published), the prediction interval a new model in 94.3, 94.5, 95.5 and 95.7 %.
Here every case has 300 trials; the bounds are three standard errors (3 x 1.26 points) and one for the method.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from holdfast.core.table import Table
from holdfast.trends.agreement_line import predict_accuracy
from holdfast.trends.bands import band, effective_robustness_scores
from holdfast.trends.fits import fit
from holdfast.trends.placing import placements
from holdfast.trends.ranks import rank_intervals

TRIALS = 300
LEAST, MOST = 0.90, 0.99
SLOPE, INTERCEPT = 0.9, -0.5


def truth(x: float) -> float:
    return float(expit(SLOPE * logit(x) + INTERCEPT))


@pytest.mark.parametrize("models", [10, 40])
def test_bands_hold_the_line_and_prediction_intervals_one_more_model(models: int) -> None:
    line_held = model_held = 0
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        x = expit(random.uniform(-0.5, 2, models + 1))
        y = expit(SLOPE * logit(x) + INTERCEPT + random.normal(0, 0.12, models + 1))
        names = tuple(f"m{i}" for i in range(models + 1))
        table = Table(names, ("x", "y"), np.column_stack([x, y]), np.zeros((models + 1, 2), dtype=np.int64))
        line = fit(table, "y", "x", models=names[:-1])
        around = band(line, np.array([0.7]), seed=seed)
        line_held += around.low[0] <= truth(0.7) <= around.high[0]
        model_held += not placements(line, table, models=names[-1:])[0].is_unusual
    assert LEAST < line_held / TRIALS < MOST
    assert LEAST < model_held / TRIALS < MOST


def test_bands_over_samples_hold_the_line_and_effective_robustness_its_value() -> None:
    line_held = robustness_held = 0
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        u = random.uniform(-0.5, 2, 40)
        scores = np.column_stack(
            [random.binomial(10_000, expit(u)) / 10_000, random.binomial(1000, expit(SLOPE * u + INTERCEPT)) / 1000]
        )
        table = Table(tuple(f"m{i}" for i in range(40)), ("x", "y"), scores, np.tile([10_000, 1000], (40, 1)))
        line = fit(table, "y", "x")
        around = band(line, np.array([0.7]), over="samples", draws=400, seed=seed)
        line_held += around.low[0] <= truth(0.7) <= around.high[0]
        measured = [[random.binomial(10_000, 0.8) / 10_000, random.binomial(1000, truth(0.8) + 0.03) / 1000]]
        one = Table(("new",), ("x", "y"), np.array(measured), np.array([[10_000, 1000]]))
        found = effective_robustness_scores(line, one, draws=400, seed=seed)["new"]
        robustness_held += found.low <= 0.03 <= found.high
    assert LEAST < line_held / TRIALS < MOST
    assert LEAST < robustness_held / TRIALS < MOST


@pytest.mark.parametrize("apart", [0.002, 0.01, 0.03])
def test_rank_intervals_hold_the_true_place(apart: float) -> None:
    # places are whole numbers, so intervals hold more than they say, except among near ties (92 % at 0.2 points)
    held = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        accuracy = 0.6 + apart * np.arange(10)
        difficulty = (random.random(1000) + random.random((10, 1000))) / 2  # triangular on [0, 1]
        correct = difficulty < (1 - np.sqrt((1 - accuracy) / 2))[:, None]
        for each in rank_intervals([str(i) for i in range(10)], correct):
            held.append(each.low <= 10 - int(each.model) <= each.high)
    assert np.mean(held) > 0.89


def test_predictions_without_labels_hold_the_accuracy_where_agreement_is_on_the_line() -> None:
    held = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        answers, labels = [], []
        for move in (0.0, -0.4):
            label, likely = random.integers(0, 10, 2000), random.integers(0, 10, 2000)
            difficulty = np.sqrt(0.6) * random.normal(size=2000) + np.sqrt(0.4) * random.normal(size=(12, 2000))
            right = difficulty < (np.linspace(0.6, 2.2, 12) + move)[:, None]
            wrong = np.where(random.random((12, 2000)) < 0.5, likely, random.integers(0, 10, (12, 2000)))
            answers.append(np.where(right, label, wrong).astype(float))
            labels.append(label)
        found = predict_accuracy([str(i) for i in range(12)], answers[0], labels[0], answers[1], draws=200, seed=seed)
        measured = (answers[1] == labels[1]).mean(axis=1)
        held += [e.accuracy.low <= value <= e.accuracy.high for e, value in zip(found.models, measured, strict=True)]
    assert np.mean(held) > 0.85
