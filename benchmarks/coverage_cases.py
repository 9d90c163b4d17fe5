"""Simulated cases for every interval that the program prints: what is drawn, by which function, and what is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from holdfast.boards.column_scores import above_line
from holdfast.core.intervals import share_intervals, wilson
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.engine.ledger import Ledger
from holdfast.metrics.corruption_error import Outcomes, corruption_errors
from holdfast.metrics.difference_tests import paired_difference, unpaired_difference
from holdfast.metrics.error_consistency import kappa
from holdfast.metrics.means import SampledValues, mean_of_sizes, mean_of_values, mean_over
from holdfast.metrics.multi_attack import Battery, Strength, competitiveness, mean_uar, uar
from holdfast.trends.agreement_line import predict_accuracy
from holdfast.trends.bands import band, conversion_rate_score, effective_robustness_scores, upper_limit_score
from holdfast.trends.column_fits import column_bands
from holdfast.trends.fits import correlation, explained, fit, pearson
from holdfast.trends.placing import prediction_interval
from holdfast.trends.ranks import rank_intervals, rank_intervals_of_scores

DRAWS, REFITS = 200, 500  # of intervals that draw: 1,000 in the program

Random = np.random.Generator
Bools = NDArray[np.bool_]


class Held(NamedTuple):
    """A score that was made of a draw, and what is true of what it was drawn from."""

    score: Score
    truth: float


Draw = Callable[[Random, int, float], dict[str, Held]]


SIXTH = "sixth place of ten models"


class Case(NamedTuple):
    """One simulation: rows of the table by name. `shares` are true accuracies.

    `slow` begins with fewer trials; a row that they do not decide has up to `more` times as many.
    """

    group: str
    draw: Draw
    shares: tuple[float, ...] = (0.01, 0.5, 0.99)
    sizes: tuple[int, ...] = (20, 100, 1000)
    slow: float = 1.0
    more: float = 4.0


SHARES, PAIRS, MEANS = "Shares", "Differences and pairs of models", "Means over cells, classes, radii and samples"
RATIOS, LINES, PREDICTED = "Ratios to the best known", "Lines over models (n: models)", "Accuracy without labels"


def name_of(case: Case) -> str:
    """The function that draws a case, and its settings."""
    if isinstance(case.draw, partial):
        settings = ", ".join(f"{name} {value:g}" for name, value in case.draw.keywords.items())
        return f"{case.draw.func.__name__} {settings}"
    return str(getattr(case.draw, "__name__", ""))


def together(random: Random, n: int, shares: list[float], alike: float) -> Bools:
    """Right or wrong (n, cells) with these true shares; `alike` of what makes a sample hard is shared by all cells."""
    skill = math.sqrt(alike) * random.normal(size=(n, 1)) + math.sqrt(1 - alike) * random.normal(size=(n, len(shares)))
    return np.asarray(skill < ndtri(np.array(shares)))


def share(random: Random, n: int, p: float) -> dict[str, Held]:
    right = int(random.binomial(n, p))
    value = np.array([right / n])
    low, high = share_intervals(value, np.array([n]))
    return {
        "share right, of `n` samples": Held(wilson(right, n), p),
        "the same, from a printed share and its count": Held(Score(right / n, float(low[0]), float(high[0]), n), p),
    }


def stopped(random: Random, n: int, p: float) -> dict[str, Held]:
    """`--precision`: samples until half the interval is at most 5 points, 20 `n` at most."""
    ledger = Ledger.empty(20 * n, 0.05)
    right = random.random(20 * n) < p
    ledger.enter(range(20 * n), right)
    seen = ledger.reached() or 20 * n
    return {"share right, stopped at ±5 points (of 20 `n`)": Held(wilson(int(right[:seen].sum()), seen), p)}


OTHER = {0.01: 0.05, 0.5: 0.4, 0.99: 0.95}


def differences(random: Random, n: int, p: float) -> dict[str, Held]:
    found = {}
    for words, q in (("equally good", p), ("not equally good (5, 40, 95 %)", OTHER[p])):
        one, other = together(random, n, [p, q], 0.5).T
        found[f"paired difference, models {words}"] = Held(paired_difference(one, other), p - q)
        counts = random.binomial(n, [p, q])
        made = unpaired_difference(int(counts[0]), n, int(counts[1]), n).difference
        found[f"unpaired difference, models {words}"] = Held(made, p - q)
    return found


def consistency(random: Random, n: int, p: float) -> dict[str, Held]:
    found = {}
    for k in (0.0, 0.4):
        wrong = 1 - p
        both = wrong * wrong + k * wrong * p
        place = random.choice(4, n, p=[both, wrong - both, wrong - both, 1 - 2 * wrong + both])
        made = kappa(~np.isin(place, (0, 1)), ~np.isin(place, (0, 2)))
        found[f"error consistency, κ {k:g}"] = Held(made, k)
    return found


def means(random: Random, n: int, p: float) -> dict[str, Held]:
    ids = np.arange(n)
    found = {}
    for k, alike in ((5, 0.0), (5, 0.5), (75, 0.5)):
        cells = [SampledValues(ids, column) for column in together(random, n, [p] * k, alike).T]
        how = "each for itself" if not alike else "that fail together"
        found[f"mean accuracy over {k} runs on the same samples, {how}"] = Held(mean_over(cells, draws=DRAWS), p)
    labels = ids % 10
    right = random.random(n) < p
    classes = [SampledValues(ids[labels == label], right[labels == label]) for label in range(10)]
    found["balanced accuracy, 10 classes of equal size"] = Held(mean_over(classes, draws=DRAWS), p)
    labels = np.minimum((10 * random.random(n) ** 2).astype(int), 9)
    classes = [SampledValues(ids[labels == label], right[labels == label]) for label in range(10)]
    found["balanced accuracy, 10 classes of unequal size"] = Held(mean_over(classes, draws=DRAWS), p)
    radii = (random.random((n, 1)) < np.clip(p * np.array([1.5, 1.2, 1.0, 0.8, 0.5]), 0, 1)).mean(axis=1)
    truth = float(np.clip(p * np.array([1.5, 1.2, 1.0, 0.8, 0.5]), 0, 1).mean())
    found["mean over the radii of a sweep, area under the radius curve"] = Held(
        mean_of_values(radii, draws=DRAWS), truth
    )
    found["mean confidence"] = Held(mean_of_values(random.beta(4 * p, 4 * (1 - p), n), draws=DRAWS), p)
    return found


def unlike(random: Random, n: int, _: float) -> dict[str, Held]:
    ids = np.arange(n)
    shares = [0.99, 0.9, 0.6, 0.3, 0.03]
    right = together(random, n, shares, 0.5)
    other = random.random(n) < 0.4
    cells = [SampledValues(ids, column) for column in right.T]
    apart = [SampledValues(ids, right[:, 0]), SampledValues(ids + n, other)]
    return {
        "mean accuracy over 5 runs, 99 to 3 % right": Held(mean_over(cells, draws=DRAWS), float(np.mean(shares))),
        "mean accuracy over 2 datasets, 99 and 40 % right": Held(mean_over(apart, draws=DRAWS), 0.695),
    }


def sizes(random: Random, n: int, _: float) -> dict[str, Held]:
    found = {"mean perturbation size, uniform": Held(mean_of_sizes(random.uniform(0, 1, n), draws=DRAWS), 0.5)}
    found["mean perturbation size, with a long tail"] = Held(mean_of_sizes(random.gamma(2, 0.5, n), draws=DRAWS), 1.0)
    return found


BEST = np.array([0.99, 0.9, 0.8, 0.7, 0.6])


def ratios(random: Random, n: int, p: float, *, worst: float | None = None) -> dict[str, Held]:
    truth = np.array([0.9, 0.7, 0.5, 0.2, worst]) if worst else p * np.array([1, 0.9, 0.8, 0.7, 0.6])
    right = together(random, n, truth.tolist(), 0.5)
    entries = tuple(Strength("a" if i < 3 else "b", float(i)) for i in range(5))
    ids = np.arange(n)
    cells = Battery(entries, right.mean(axis=0), BEST, n, 0, tuple(SampledValues(ids, column) for column in right.T))
    nested = (random.random((n, 1)) < truth).mean(axis=0)
    counts = competitiveness(Battery(entries, nested, BEST, n), resamples=DRAWS)
    made, words = competitiveness(cells, resamples=DRAWS), f", worst true accuracy {100 * worst:g} %" if worst else ""
    average, least = float((truth / BEST).mean()), float((truth / BEST).min())
    parts = [truth[:3].sum() / BEST[:3].sum(), truth[3:].sum() / BEST[3:].sum()]
    found = {
        "CR, average": Held(made.average, average),
        "CR, worst": Held(made.individual_worst, least),
        "CR_exp": Held(made.expected, float(truth.mean() / BEST.mean())),
        "CR_max": Held(made.maximum, float(truth.min() / BEST.min())),
        "UAR of one attack": Held(uar(cells, resamples=DRAWS)["a"], float(parts[0])),
        "mUAR": Held(mean_uar(cells, resamples=DRAWS), float(np.mean(parts))),
        "CR, average, from counts of nested attacks": Held(counts.average, average),
        "CR, worst, from counts of nested attacks": Held(counts.individual_worst, least),
    }
    return {f"{name}{words}": held for name, held in found.items()}


NAMED = {"fog": (1, 2), "blur": (3, 4), "noise": (5, 6)}
BASELINE = {"fog": 0.6, "blur": 0.7, "noise": 0.8}


class Corrupted(NamedTuple):
    """Answers without and with corruptions (n, 7), what errors count in relative mCE (6,), and what is true of it."""

    right: Bools
    weights: NDArray[np.float64]
    truth: float


def corrupted_answers(random: Random, n: int, p: float) -> Corrupted:
    shares = p * np.array([1, 0.95, 0.9, 0.9, 0.8, 0.85, 0.6])
    weights = np.array([1 / (6 * (BASELINE[name] - 0.4)) for name, places in NAMED.items() for _ in places])
    return Corrupted(together(random, n, shares.tolist(), 0.5), weights, float(weights @ (p - shares[1:])))


def corruption(random: Random, n: int, p: float) -> dict[str, Held]:
    shares = [p, *(p * np.array([0.95, 0.9, 0.9, 0.8, 0.85, 0.6])).tolist()]
    right, _, relative = corrupted_answers(random, n, p)
    ids = np.arange(n)
    named, baseline = NAMED, BASELINE
    outcomes = Outcomes(
        SampledValues(ids, right[:, 0]),
        {name: [SampledValues(ids, right[:, i]) for i in places] for name, places in named.items()},
    )
    scores = {name: [wilson(int(right[:, i].sum()), n) for i in places] for name, places in named.items()}
    clean = wilson(int(right[:, 0].sum()), n)
    made = corruption_errors(clean, scores, baseline=baseline, baseline_clean=0.4, outcomes=outcomes)
    lost = {name: 1 - np.mean([shares[i] for i in places]) for name, places in named.items()}
    truth = np.mean([lost[name] / baseline[name] for name in named])
    return {"mCE": Held(made.mean, float(truth)), "relative mCE": Held(made.relative, relative)}


def stated(p: float) -> tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float]:
    """A line that is known, and how far a model with accuracy p on both axes lies above it."""
    return lambda x: np.asarray(expit(0.9 * logit(x) - 0.2)), p - float(expit(0.9 * logit(p) - 0.2))


def beyond_a_stated_line(random: Random, n: int, p: float) -> dict[str, Held]:
    """Effective robustness of a board: against a line that is known."""
    _, truth = stated(p)
    return {"effective robustness against a line that is stated": Held(_beyond(*random.binomial(n, [p, p]), n), truth)}


@cache
def _beyond(right: int, standard_right: int, n: int) -> Score:
    column = Column("er", of=("y", "x"), score="effective-robustness", weights=(0.9,), intercept=-0.2)
    shifted, standard = wilson(int(right), n), wilson(int(standard_right), n)
    bounds = [tuple(np.array([part]) for part in (each.value, each.low, each.high)) for each in (shifted, standard)]
    value, low, high = (float(part[0]) for part in above_line(column, bounds[0], [bounds[1]]))
    return Score(value, low, high, n)


def over_models(random: Random, n: int, p: float) -> dict[str, Held]:
    """n models about an accuracy of p on a line in logits, each measured on 10,000 and 2,000 images."""
    places = logit(p) + random.uniform(-1, 1, n + 1)
    line, scatter = 0.9 * places - 0.5, random.normal(0, 0.15, n + 1)
    true_x, true_y = expit(places), expit(line + scatter)
    counts = np.tile([10_000, 2_000], (n + 1, 1))
    names = tuple(map(str, range(n + 1)))
    exact = Table(names, ("x", "y"), np.column_stack([true_x, true_y]), counts)
    fitted = fit(exact, "y", "x", models=names[:-1])
    around = band(fitted, np.array([p]), draws=REFITS)
    placed = prediction_interval(fitted, true_x[-1:])
    bounds = column_bands(exact, "x", settings=["y"], models=names[:-1], draws=REFITS)
    slope = Score(0, float(bounds.slope_low[0]), float(bounds.slope_high[0]), n)
    seen = random.binomial(counts, np.column_stack([true_x, true_y])) / counts
    one = Table(names, ("x", "y"), np.clip(seen, 1e-4, 1 - 1e-4), counts)
    beyond = effective_robustness_scores(fitted, one.of(names[-1:]), draws=REFITS)[names[-1]]
    true_beyond = float(true_y[-1] - expit(0.9 * places[-1] - 0.5))
    return {
        "band about a line": Held(
            Score(0, float(around.low[0]), float(around.high[0]), n), float(expit(0.9 * logit(p) - 0.5))
        ),
        "prediction interval for one more model": Held(
            Score(0, float(placed.low[0]), float(placed.high[0]), n), float(true_y[-1])
        ),
        "effective robustness against a fitted line": Held(beyond, true_beyond),
        "slope of every setting": Held(slope, 0.9),
    }


def straight(random: Random, n: int, _: float) -> dict[str, Held]:
    x = random.uniform(0.4, 0.9, n)
    y = np.clip(0.7 * x + 0.05 + random.normal(0, 0.03, n), 0, 1)
    table = Table(tuple(map(str, range(n))), ("x", "y"), np.column_stack([x, y]), np.zeros((n, 2), dtype=np.int64))
    line = fit(table, "y", "x", space="linear")
    return {
        "upper limit": Held(upper_limit_score(line, draws=REFITS), 0.75),
        "conversion rate": Held(conversion_rate_score(line, draws=REFITS), 0.7),
    }


def correlated(random: Random, n: int, p: float) -> dict[str, Held]:
    x = random.normal(size=n)
    y = p * x + math.sqrt(1 - p * p) * random.normal(size=n)
    r = correlation(pearson(x, y), n)
    return {"Pearson's r, true r 0.01, 0.5, 0.99": Held(r, p), "R², true r 0.01, 0.5, 0.99": Held(explained(r), p * p)}


def places_answers(random: Random, n: int, p: float, *, spread: float = 0.6, alike: float = 0.5) -> Bools:
    """Right or wrong (10, n) of ten models about an accuracy of p, the last the best."""
    return together(random, n, expit(logit(p) + np.linspace(-spread, spread, 10)).tolist(), alike).T


def places(random: Random, n: int, p: float) -> dict[str, Held]:
    """The places of ten models on n samples: of the best where all are nearly equal, and of the sixth."""
    names = tuple(map(str, range(10)))
    found = {}
    for words, spread, model, truth in (("first place of ten near equals", 1e-6, "9", 1), (SIXTH, 0.6, "4", 6)):
        right = places_answers(random, n, p, spread=spread)
        apart = places_answers(random, n, p, spread=spread, alike=0.0)
        table = Table(names, ("s",), apart.mean(axis=1)[:, None], np.full((10, 1), n))
        for source, made in (
            ("answers", rank_intervals(names, right)),
            ("scores", rank_intervals_of_scores(table, "s")),
        ):
            own = {each.model: each for each in made}[model]
            found[f"{words}, from {source} (n: samples)"] = Held(Score(own.rank, own.low, own.high, n), truth)
    return found


def answers(random: Random, accuracies: NDArray[np.float64], n: int, shared: float) -> tuple[NDArray[np.float64], ...]:
    """What models say of n samples of ten classes; `shared` of the errors are made by all that are no better."""
    wrong, labels = 1 - accuracies, random.integers(0, 10, n)
    common = random.random(n) < shared * wrong[:, None]
    own = random.random((len(wrong), n)) < (wrong * (1 - shared) / (1 - shared * wrong))[:, None]
    popular = (labels + random.integers(1, 10, n)) % 10
    other = (labels + random.integers(1, 10, (len(wrong), n))) % 10
    return np.where(common, popular, np.where(own, other, labels)).astype(np.float64), labels


def predicted(random: Random, n: int, _: float, *, shared: float) -> dict[str, Held]:
    before = ndtr(np.linspace(ndtri(0.6), ndtri(0.95), 10) + random.normal(0, 0.05, 10))
    after = ndtr(random.uniform(0.7, 1.1) * ndtri(before) + random.uniform(-0.8, 0) + random.normal(0, 0.05, 10))
    reference, labels = answers(random, before, n, shared)
    shifted, _unused = answers(random, after, n, shared)
    made = predict_accuracy([str(i) for i in range(10)], reference, labels.astype(np.int64), shifted, draws=DRAWS)
    which = int(random.integers(10))
    words = f"`predict`, ten models, {100 * shared:g} % of errors shared"
    return {words: Held(made.models[which].accuracy, float(after[which]))}


def cases() -> Iterator[Case]:
    """All of them, in the order of the page."""
    yield Case(SHARES, share)
    yield Case(SHARES, stopped, slow=0.25)
    yield Case(PAIRS, differences, slow=0.25, more=16)
    yield Case(PAIRS, consistency, slow=0.1)
    yield Case(MEANS, means, slow=0.05, more=20)
    yield Case(MEANS, unlike, shares=(0.5,), slow=0.25)
    yield Case(MEANS, corruption, slow=0.05, more=20)
    yield Case(MEANS, sizes, shares=(0.5,), slow=0.1)
    yield Case(RATIOS, ratios, slow=0.05, more=4)
    yield Case(RATIOS, partial(ratios, worst=0.03), shares=(0.5,), slow=0.1)
    yield Case(LINES, beyond_a_stated_line, slow=0.25)
    yield Case(LINES, over_models, slow=0.05, more=20)
    yield Case(LINES, straight, shares=(0.5,), slow=0.05, more=20)
    yield Case(LINES, correlated)
    yield Case(LINES, places, slow=0.25)
    for shared in (0.0, 0.25, 0.5, 0.75, 1.0):
        draw = partial(predicted, shared=shared)
        yield Case(PREDICTED, draw, shares=(0.5,), sizes=(300, 1000, 5000), slow=0.05, more=24)
