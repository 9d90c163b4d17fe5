"""The least coverage that any interval can have in a simulated case, where few samples are right or wrong.

An interval counts if it depends on the counts alone and misses the truth on either side in 3.5 % of cases at most
(93 % together), whatever else is true; and if it is consistent: where it leaves out a value as too low, it does so for
every outcome that is at least as extreme. Such an interval must hold the value for every outcome for which some truth
makes the outcomes at least as extreme more likely than 3.5 %. The truth of the case then falls on such outcomes with
the probability computed here, and no such interval holds it less often.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from coverage_cases import BEST, OTHER, Bools, corrupted_answers, places_answers, stated, together
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import binom, multivariate_normal

from holdfast.metrics.difference_tests import mcnemar_z
from holdfast.trends.ranks import step_limits

TAIL = 0.035
NUISANCE = 400  # values tried of what else may be true
DRAWN = 4000
Floats = NDArray[np.float64]


def paired(n: int, p: float, q: float) -> float:
    """Two models on the same n samples, as `coverage_cases.differences` draws them.

    Equal models must be called different in 3.5 % of cases at most to either side also of those cases in which a given
    number of samples differ, as by any test of McNemar's kind.
    """
    both = float(multivariate_normal.cdf(ndtri([p, q]), mean=[0, 0], cov=[[1, 0.5], [0.5, 1]]))
    gap = p - q
    rare = np.linspace(0, (1 - abs(gap)) / 2, NUISANCE)
    up = _most_likely(n, rare + max(gap, 0.0), rare + max(-gap, 0.0))
    down = _most_likely(n, rare + max(-gap, 0.0), rare + max(gap, 0.0)).T
    # no difference is tested given how many samples differ, and an interval that holds it holds all up to the value
    if gap >= 0:
        up = np.maximum(up, _as_many_of_those_that_differ(n))
    if gap <= 0:
        down = np.maximum(down, _as_many_of_those_that_differ(n).T)
    chance = _trinomial(n, p - both, q - both)
    return _held(chance, up, down)


def unpaired(n: int, p: float, q: float) -> float:
    """Two models, each on n samples of its own."""
    gap = p - q
    second = np.linspace(max(0.0, -gap), min(1.0, 1 - gap), NUISANCE)
    return _of_two_counts(n, p, q, second + gap, second)


def above_stated_line(n: int, p: float) -> float:
    """Effective robustness against a stated line, of draws in which the standard share is not 0 or 1."""
    line, truth = stated(p)
    second = expit(np.linspace(-9, 9, NUISANCE))
    first = truth + line(second)
    is_share = (first > 0) & (first < 1)
    return _of_two_counts(n, p, p, first[is_share], second[is_share], inner=True)


def smallest_ratio(n: int, p: float, *, to_each: bool, nested: bool = False) -> float:
    """The smallest of five accuracies / best: best of each (CR, worst), or the least of them all (CR_max)."""
    truth = p * np.array([1, 0.9, 0.8, 0.7, 0.6])
    best = BEST if to_each else np.full(5, BEST.min())
    tied = float((truth / best).min()) * best
    random = np.random.default_rng(2)

    def counts(shares: Floats) -> NDArray[np.int64]:
        def one() -> Bools:
            return random.random((n, 1)) < shares if nested else together(random, n, shares.tolist(), 0.5)

        return np.stack([one().sum(axis=0) for _ in range(DRAWN)])

    seen, equal = counts(truth), np.sort(binom.cdf(counts(tied), n, tied).min(axis=1))
    # too high: as if all were as small as the smallest; too low: as if the others were surely larger
    as_low = np.searchsorted(equal, binom.cdf(seen, n, tied).min(axis=1), side="right") / DRAWN
    as_high = binom.sf(seen - 1, n, tied).max(axis=1)
    return float(1 - ((as_low <= TAIL) | (as_high <= TAIL)).mean())


def lost_to_corruptions(n: int, p: float) -> float:
    """Relative mCE. What each sample loses counts, up to a largest loss: as if all that lose anything lost as much."""
    random = np.random.default_rng(2)
    answers = [corrupted_answers(random, n, p) for _ in range(DRAWN)]
    weights = answers[0].weights
    moved = np.stack([each.right[:, :1] * weights.sum() - each.right[:, 1:] @ weights[:, None] for each in answers])
    largest, truth = float(weights.sum()), answers[0].truth
    gap = truth / largest
    rare = np.linspace(0, (1 - abs(gap)) / 2, NUISANCE)
    gains, losses = rare + max(gap, 0.0), rare + max(-gap, 0.0)
    count = np.arange(n + 1)

    def alone(many: Floats, none: Floats) -> Floats:
        """How likely that many or more lose, and none gains."""
        return np.asarray(np.max((1 - none) ** n * binom.sf(count[:, None] - 1, n, many / (1 - none)), axis=1))

    up, down = alone(gains, losses), alone(losses, gains)
    lost, won = (moved > 1e-12).sum(axis=(1, 2)), (moved < -1e-12).sum(axis=(1, 2))
    return float(1 - ((up[lost] <= TAIL) | (down[won] <= TAIL)).mean())


def place_of_ten(n: int, p: float, *, place: int, paired_answers: bool) -> float:
    """A place by comparing pairs: as many models must be surely ahead, or the others behind, before it is left out."""
    random = np.random.default_rng(2)
    spread, alike = 0.6 if place > 1 else 1e-6, 0.5 if paired_answers else 0.0
    at_once = max(1, 200_000 // n)
    out, done = 0, 0
    while done < DRAWN:
        answers = places_answers(random, n * at_once, p, spread=spread, alike=alike).reshape(10, at_once, n)
        out += int(may_leave_out(answers, place, paired_answers=paired_answers).sum())
        done += at_once
    return 1 - out / done


def may_leave_out(answers: Bools, place: int, *, paired_answers: bool) -> Bools:
    """In which draws (10 models, draws, samples) the place of the model that truly has it could be left out.

    It is left out only where as many models as its place come out ahead, one of them truly behind, or as many behind as
    leave too few before it. The last of them is passed at the level of its step or a stricter one.
    """
    limits = step_limits(9, TAIL)
    right = answers.astype(np.float32)
    own, others = right[10 - place], np.delete(right, 10 - place, axis=0)
    n = answers.shape[2]
    if paired_answers:
        z = mcnemar_z((others * (1 - own)).sum(axis=2), ((1 - others) * own).sum(axis=2))
    else:
        mean, other_means = own.mean(axis=1, dtype=np.float64), others.mean(axis=2, dtype=np.float64)
        pooled = (other_means + mean) / 2
        z = (other_means - mean) / np.sqrt(np.maximum(2 / n * pooled * (1 - pooled), 1e-12))
    ahead = -np.sort(-z, axis=0)
    out = np.zeros(ahead.shape[1], dtype=bool)
    if place <= 9:
        out |= ahead[place - 1] > limits[place - 1]
    behind = 11 - place  # this many of nine must be behind: one of those that are ahead among them
    if behind <= 9:
        out |= -ahead[-behind] > limits[behind - 1]
    return np.asarray(out)


LEAST_BY_ROW: dict[str, Callable[[int, float], float]] = {
    "paired difference, models equally good": lambda n, p: paired(n, p, p),
    "unpaired difference, models equally good": lambda n, p: unpaired(n, p, p),
    "paired difference, models not equally good (5, 40, 95 %)": lambda n, p: paired(n, p, OTHER[p]),
    "unpaired difference, models not equally good (5, 40, 95 %)": lambda n, p: unpaired(n, p, OTHER[p]),
    "relative mCE": lost_to_corruptions,
    "CR, worst": lambda n, p: smallest_ratio(n, p, to_each=True),
    "CR_max": lambda n, p: smallest_ratio(n, p, to_each=False),
    "CR, worst, from counts of nested attacks": lambda n, p: smallest_ratio(n, p, to_each=True, nested=True),
    "effective robustness against a line that is stated": above_stated_line,
    **{
        f"{words}, from {source} (n: samples)": partial(place_of_ten, place=place, paired_answers=source == "answers")
        for words, place in (("first place of ten near equals", 1), ("sixth place of ten models", 6))
        for source in ("answers", "scores")
    },
}


def _of_two_counts(n: int, p: float, q: float, first: Floats, second: Floats, *, inner: bool = False) -> float:
    """The bound for two shares of n samples each, where these pairs of shares have the same difference.

    `inner`: of draws in which the second is not 0 or 1.
    """
    count = np.arange(n + 1)[:, None]
    kept = np.ones(n + 1, dtype=bool)
    kept[[0, n]] = not inner

    def parts(shares: Floats, chosen: Bools | bool) -> tuple[Floats, Floats]:
        chance = np.where(chosen, binom.pmf(count, n, shares), 0.0)
        chance /= chance.sum(axis=0)
        return np.cumsum(chance, axis=0), np.cumsum(chance[::-1], axis=0)[::-1]

    (most, least), (other_most, other_least) = parts(first, True), parts(second, kept[:, None])
    up, down = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        up[k] = (least[k] * other_most).max(axis=1)
        down[k] = (most[k] * other_least).max(axis=1)
    chance = np.outer(binom.pmf(count[:, 0], n, p), np.where(kept, binom.pmf(count[:, 0], n, q), 0))
    return _held(chance / chance.sum(), up, down)


def _held(chance: Floats, up: Floats, down: Floats) -> float:
    return float(chance[(up > TAIL) & (down > TAIL)].sum())


def _as_many_of_those_that_differ(n: int) -> Floats:
    """For each pair of counts: how likely equal models that differ on as many samples give the first as many or more.

    For pairs of counts above n, which cannot be, the same.
    """
    count = np.arange(n + 1)
    return np.asarray(binom.sf(count[:, None] - 1, count[:, None] + count[None], 0.5))


def _trinomial(n: int, one: float, other: float) -> Floats:
    """How likely each pair of counts is, (n + 1, n + 1)."""
    count = np.arange(n + 1)
    rest = np.clip(other / max(1 - one, 1e-300), 0, 1)
    second = binom.pmf(count[None], np.maximum(n - count, 0)[:, None], rest)
    return np.asarray(binom.pmf(count, n, one)[:, None] * second)


def _most_likely(n: int, one: Floats, other: Floats) -> Floats:
    """For each pair of counts: how likely as many or more of the first and as few or fewer of the second, at most."""
    made = np.zeros((n + 1, n + 1))
    for a, b in zip(one.tolist(), other.tolist(), strict=True):
        chance = _trinomial(n, a, b)
        made = np.maximum(made, np.cumsum(np.cumsum(chance[::-1], axis=0)[::-1], axis=1))
    return made
