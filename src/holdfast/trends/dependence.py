"""How errors of models go together where labels exist, and what accuracy under a shift follows from it.

Two models agree where both are right, and where both are wrong in the same way. How often the second happens is known
without the shift, from the labels. Under the shift it is an assumption: this module solves for the accuracies under
several, so that a prediction says how much hangs on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.trends.spaces import LOGIT, Floats

STEPS = 60
STEP = 1e-5  # of the numerical derivative, in logits
DAMPING = 1e-6
EDGE = 1e-6

Joint = Callable[[Floats, Floats], Floats]


class Dependence(NamedTuple):
    """Means over pairs of models, where labels exist.

    `kappa` is error consistency (0: errors fall together as by chance, 1: on the same samples), `same` the share of
    common errors with the same wrong answer, `shared` that of all errors of the better model that the other makes too,
    with the same answer; NaN where there are no such errors.
    """

    kappa: float
    same: float
    shared: float
    pairs: int


class Pairs(NamedTuple):
    """What every pair of models does, (pairs,): where both stand, how often both err, and err alike."""

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    wrong: Floats
    other_wrong: Floats
    both: Floats
    alike: Floats


def pairs_of(predictions: Floats, labels: NDArray[np.int64]) -> Pairs:
    """The errors of all pairs, from answers (models, samples); no answer is an error like no other."""
    wrong = (predictions != labels).astype(np.float64)
    n = len(labels)
    one, other = np.triu_indices(len(predictions), k=1)
    both = (wrong @ wrong.T / n)[one, other]
    alike = np.empty(len(one))
    for i in range(len(predictions) - 1):
        same = (predictions[i + 1 :] == predictions[i]) & (wrong[i] > 0)
        alike[one == i] = same.sum(axis=1) / n
    shares = wrong.mean(axis=1)
    return Pairs(one, other, shares[one], shares[other], both, alike)


def dependence(pairs: Pairs) -> Dependence:
    """The assumption in numbers."""
    by_chance = pairs.wrong * (1 - pairs.other_wrong) + pairs.other_wrong * (1 - pairs.wrong)
    known = by_chance > 0
    kappa = 2 * (pairs.both - pairs.wrong * pairs.other_wrong)[known] / by_chance[known]
    together = pairs.both > 0
    least = np.minimum(pairs.wrong, pairs.other_wrong)
    some = least > 0
    return Dependence(
        float(kappa.mean()) if known.any() else float("nan"),
        float((pairs.alike[together] / pairs.both[together]).mean()) if together.any() else float("nan"),
        float((pairs.alike[some] / least[some]).mean()) if some.any() else float("nan"),
        len(pairs.one),
    )


def accuracies_if_kept(pairs: Pairs, agreement: Floats, start: Floats) -> Floats:
    """Accuracies under the shift, (assumptions, models), that explain how often pairs agree there.

    The assumptions are those of `joints`: each keeps another measure of dependence as it is without the shift.
    `agreement` is (pairs,), `start` a first guess per model.
    """
    return np.stack([_solved(pairs, agreement, start, joint) for joint in joints(pairs)])


def joints(pairs: Pairs) -> list[Joint]:
    """How often a pair errs together and errs alike under the shift, given how often each errs: three assumptions.

    Each keeps another measure of how much errors overlap beyond chance: κ, their share of the largest overlap beyond
    chance that is possible, their share of the better model's errors. With the first two the share of the better
    model's errors stays that the other makes too, with the same answer; with the last that of common errors.
    """
    wrong, other = pairs.wrong, pairs.other_wrong
    least = np.maximum(np.minimum(wrong, other), EDGE)
    by_chance = np.maximum(wrong * (1 - other) + other * (1 - wrong), EDGE)
    beyond = pairs.both - wrong * other
    kappa = 2 * beyond / by_chance
    of_possible = beyond / np.maximum(least - wrong * other, EDGE)
    of_least = beyond / least
    alike = pairs.alike / np.maximum(pairs.both, EDGE)
    alike_of_least = pairs.alike / least

    def both(e: Floats, f: Floats, more: Floats) -> Floats:
        """A share of samples on which both can err: as by chance, and more."""
        return np.clip(e * f + more, np.maximum(e + f - 1, 0), np.minimum(e, f))

    return [
        lambda e, f: both(e, f, kappa * (e * (1 - f) + f * (1 - e)) / 2) + alike_of_least * np.minimum(e, f),
        lambda e, f: both(e, f, of_possible * (np.minimum(e, f) - e * f)) + alike_of_least * np.minimum(e, f),
        lambda e, f: both(e, f, of_least * np.minimum(e, f)) * (1 + alike),
    ]


def _solved(pairs: Pairs, agreement: Floats, start: Floats, joint: Joint) -> Floats:
    """Least squares over pairs by damped Gauss-Newton steps, in logits of the error."""
    models = len(start)
    at = LOGIT.forward(np.clip(1 - start, EDGE, 1 - EDGE))
    one, other = pairs.one, pairs.other

    def missed(x: Floats, first: float = 0.0, second: float = 0.0) -> Floats:
        """The residuals, with the first or the second of every pair moved."""
        e, f = LOGIT.inverse(x[one] + first), LOGIT.inverse(x[other] + second)
        return np.asarray(1 - e - f + joint(e, f) - agreement)

    residual = missed(at)
    damping = DAMPING
    for _ in range(STEPS):
        first, second = ((ahead - residual) / STEP for ahead in (missed(at, STEP), missed(at, 0.0, STEP)))
        matrix = np.zeros((models, models))
        right = np.zeros(models)
        np.add.at(matrix, (one, one), first * first)
        np.add.at(matrix, (other, other), second * second)
        np.add.at(matrix, (one, other), first * second)
        np.add.at(matrix, (other, one), first * second)
        np.add.at(right, one, first * residual)
        np.add.at(right, other, second * residual)
        move = np.linalg.solve(matrix + damping * np.eye(models) * max(matrix.max(), EDGE), right)
        tried = np.clip(at - np.clip(move, -1, 1), -14, 14)
        new_residual = missed(tried)
        if (new_residual**2).sum() < (residual**2).sum():
            done = float(np.abs(tried - at).max()) < 1e-7
            at, residual, damping = tried, new_residual, max(damping / 4, 1e-9)
            if done:
                break
        else:
            damping *= 10
            if damping > 1e3:
                break
    return np.asarray(1 - LOGIT.inverse(at))
