"""How often the intervals of ECE, Brier score, NLL, posterior agreement and β hold the truth, on simulated models.

    python benchmarks/score_coverage.py --trials 500

`coverages` gives the same figures to other scripts. The truth of a case is the score of 200,000 samples of it; a
calibrated model has an ECE of 0.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from coverage_measuring import ROUNDING, STEP, is_inside

from holdfast.core.types import Score
from holdfast.metrics.agreement import posterior_agreement
from holdfast.metrics.calibration import MOST_BRIER, bounded_mean
from holdfast.metrics.calibration_error import calibration_error

SIZES = (20, 100, 1000)
MANY = 200_000
TRIALS = 500


class Coverage(NamedTuple):
    """How many trials there were, and how many had an interval that held the truth."""

    score: str
    case: str
    n: int
    truth: float
    trials: int
    held: int

    @property
    def share(self) -> float:
        return self.held / self.trials


Random = np.random.Generator
Measured = dict[str, Score]
Measure = Callable[[Random, int, int], Measured]  # resamples last: 0 for the truth


# calibration error: how confidences are spread, and what accuracy stands behind one

CONFIDENCES: dict[str, Callable[[Random, int], np.ndarray]] = {
    "0.2 to 1": lambda random, n: random.uniform(0.2, 1, n),
    "beta(8, 2)": lambda random, n: random.beta(8, 2, n),
    "softmax of 10": lambda random, n: _largest_share(random.normal(scale=2, size=(n, 10))),
    "0.98 to 1": lambda random, n: 1 - 0.02 * random.random(n) ** 2,
    "0.1 to 0.15": lambda random, n: random.uniform(0.1, 0.15, n),
    "all 0.99": lambda _, n: np.full(n, 0.99),
}
ACCURACIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda stated: stated,
    "2 points over": lambda stated: stated - 0.02,
    "20 points over": lambda stated: stated - 0.2,
    "under": lambda stated: stated + 0.5 * (1 - stated),
    "over above 0.9": lambda stated: np.where(stated > 0.9, stated - 0.3, stated),
    "over and under": lambda stated: np.where(stated > 0.7, stated - 0.2, stated + 0.1),
    "accuracy 1 %": lambda stated: np.full_like(stated, 0.01),
    "accuracy 99 %": lambda stated: np.full_like(stated, 0.99),
}


def ece(confidences: str, accuracies: str) -> Measure:
    def measure(random: Random, n: int, resamples: int) -> Measured:
        stated = CONFIDENCES[confidences](random, n)
        actual = np.clip(ACCURACIES[accuracies](stated), 0, 1)
        if resamples:
            return {"ECE": calibration_error(stated, random.random(n) < actual, resamples=resamples).debiased}
        # gaps of the bins without the chance in right and wrong: what the plain value tends to
        place = np.clip(np.ceil(stated * 15).astype(np.int64) - 1, 0, 14)
        return {"ECE": _exactly(float(np.abs(np.bincount(place, weights=actual - stated)).sum()) / n)}

    return measure


def proper(accuracy: float, scale: float) -> Measure:
    """Brier score and NLL of ten classes, by accuracy and by how sure the model is."""

    def measure(random: Random, n: int, resamples: int) -> Measured:
        labels = random.integers(0, 10, n)
        predicted = np.where(random.random(n) < accuracy, labels, (labels + random.integers(1, 10, n)) % 10)
        logits = random.normal(size=(n, 10))
        logits[np.arange(n), predicted] = logits.max(axis=1) + random.exponential(2, n)
        shares = _softmax(scale * logits)
        brier = ((shares - np.eye(10)[labels]) ** 2).sum(axis=1)
        nll = -np.log(shares[np.arange(n), labels])
        largest = float(-np.log(shares.min()))
        return {
            "Brier": bounded_mean(brier, MOST_BRIER, resamples=resamples),
            "NLL": bounded_mean(nll, largest, resamples=resamples),
        }

    return measure


def agreement(noise: float, rare: float) -> Measure:
    """PA and β of five classes under noise, six times as strong on a share `rare` of the samples."""

    def measure(random: Random, n: int, resamples: int) -> Measured:
        one = random.normal(size=(n, 5))
        one[np.arange(n), random.integers(0, 5, n)] += 3
        strength = noise * np.where(random.random(n) < rare, 6, 1)[:, None]
        made = posterior_agreement(one, one + strength * random.normal(size=one.shape), resamples=resamples)
        return {"PA": made.score, "β": made.beta}

    return measure


def cases() -> Iterator[tuple[str, Measure]]:
    """Every simulated model by its name."""
    for confidences in CONFIDENCES:
        for accuracies in ACCURACIES:
            yield f"confidence {confidences}, {accuracies}", ece(confidences, accuracies)
    for accuracy in (0.01, 0.5, 0.99):
        for scale in (1.0, 3.0):
            yield f"accuracy {100 * accuracy:g} %, logits x {scale:g}", proper(accuracy, scale)
    for noise, rare in ((0.25, 0.0), (0.7, 0.0), (1.5, 0.0), (4.0, 0.0), (0.25, 0.02)):
        also = f", {100 * rare:g} % of samples x 6" if rare else ""
        yield f"noise {noise:g}{also}", agreement(noise, rare)


def coverages(
    *, trials: int = TRIALS, most: int = 0, sizes: tuple[int, ...] = SIZES, resamples: int = 1000
) -> Iterator[Coverage]:
    """How often each interval holds the truth, case by case; up to `most` trials where the first do not decide it."""
    for case, measure in cases():
        yield from of_case(case, measure, trials=trials, most=most, sizes=sizes, resamples=resamples)


def of_case(
    case: str, measure: Measure, *, trials: int, most: int, sizes: tuple[int, ...], resamples: int
) -> Iterator[Coverage]:
    """One simulated model at all sizes."""
    random = np.random.default_rng(0)
    truth = {name: score.value for name, score in measure(random, MANY, 0).items()}
    if case.endswith("calibrated"):
        truth = {"ECE": 0.0}
    for n in sizes:
        held, done = dict.fromkeys(truth, 0), 0
        while done < trials or (done < most and not all(is_inside(count, done) for count in held.values())):
            for _ in range(STEP):
                done += 1
                for name, score in measure(random, n, resamples).items():
                    held[name] += score.low - ROUNDING <= truth[name] <= score.high + ROUNDING
        for name, count in held.items():
            yield Coverage(name, case, n, truth[name], done, count)


def _exactly(value: float) -> Score:
    return Score(value, math.nan, math.nan, MANY)


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _largest_share(logits: np.ndarray) -> np.ndarray:
    return _softmax(logits).max(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--resamples", type=int, default=1000)
    given = parser.parse_args()
    print("| score | case | n | truth | held |\n|---|---|---|---|---|")
    for made in coverages(trials=given.trials, resamples=given.resamples):
        print(f"| {made.score} | {made.case} | {made.n:,} | {made.truth:.4g} | {100 * made.share:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
