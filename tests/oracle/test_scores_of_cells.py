"""Scores of pairs of runs and of tables against an independent computation, on 1,000 random cases with hard ones."""

from __future__ import annotations

import itertools
import math
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

import numpy as np
import pytest
from hard_cases import CASES, case, rows_of
from scipy import optimize, stats
from scipy.special import expit, logit, logsumexp

from holdfast.boards.column_scores import above_line
from holdfast.core.rounding import rounded
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.accuracy import accuracy
from holdfast.metrics.agreement import posterior_agreement
from holdfast.metrics.along_ratios import afr_p, agreement_of_rows, confidence_before_after
from holdfast.metrics.catastrophe import FENCE, LEAST, catastrophes
from holdfast.metrics.compare import compare
from holdfast.metrics.corruption_error import corruption_errors
from holdfast.metrics.difference_tests import mcnemar, paired_difference
from holdfast.metrics.error_consistency import consistency_matrix, error_consistency, kappa
from holdfast.metrics.mean_over_radii import over_radii
from holdfast.metrics.means import difference, mean_of
from holdfast.metrics.multi_attack import (
    CLEAN,
    Battery,
    Strength,
    competitiveness,
    mean_uar,
    single_competitiveness,
    uar,
)
from holdfast.metrics.ood import ood_scores
from holdfast.metrics.stability import conditioned_stability, stability
from holdfast.store.footer import ChangeRecord
from holdfast.trends.fits import fit, kendall, pearson
from holdfast.trends.robustness import upper_limit


def share(value: float) -> Score:
    return Score(value, value, value, 100)


def random_shares(random: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
    """Shares of a few samples, so that ties, 0 and 1 are frequent."""
    return random.integers(0, 21, size) / 20


def answers(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Right and wrong of two models on the same samples; now and then all right, all wrong or the same."""
    random = np.random.default_rng(seed)
    n = int(random.choice([1, 2, 9, 60]))
    one, other = (random.random(n) < random.choice([0.0, 0.5, 0.9, 1.0]) for _ in range(2))
    return one, (one.copy() if seed % 7 == 0 else other)


def test_kappa_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    for seed in range(CASES):
        one, other = answers(seed)
        made = kappa(one, other).value
        if len({*one.tolist(), *other.tolist()}) == 1:
            assert math.isnan(made)
        else:
            assert made == pytest.approx(metrics.cohen_kappa_score(one, other), abs=1e-12)


def test_kappa_of_rows_is_that_of_counts() -> None:
    for seed in range(CASES):
        first = case(seed)
        second = rows_of(np.roll(first.logits, 1, axis=1), first.labels)
        table = np.zeros((2, 2))
        for a, b in zip(first.predicted == first.labels, second.correct, strict=True):
            table[int(a), int(b)] += 1
        table /= table.sum()
        chance = table.sum(axis=0) @ table.sum(axis=1)
        expected = (np.trace(table) - chance) / (1 - chance) if chance < 1 - 1e-12 else math.nan
        made = error_consistency(first.rows, second).value
        assert made == pytest.approx(expected, abs=1e-12, nan_ok=True)
        matrix = consistency_matrix([first.rows, second])
        assert matrix[0, 1] == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_comparison_is_the_difference_of_shares_and_the_mid_p_test() -> None:
    for seed in range(CASES):
        one, other = answers(seed)
        assert paired_difference(one, other).value == pytest.approx(one.mean() - other.mean(), abs=1e-12)
        better, worse = int((one & ~other).sum()), int((other & ~one).sum())
        most, differing = max(better, worse), better + worse
        expected = (
            1.0 if better == worse else 2 * stats.binom.sf(most, differing, 0.5) + stats.binom.pmf(most, differing, 0.5)
        )
        assert mcnemar(better, worse) == pytest.approx(expected, rel=1e-9)
        labels = np.zeros(len(one), np.int64)
        made = compare(*(rows_of(np.where(right[:, None], [1.0, 0.0], [0.0, 1.0]), labels) for right in (one, other)))
        assert (made.only_one, made.only_other) == (better, worse)
        assert made.chance == pytest.approx(expected, rel=1e-9)


def test_agreement_of_predictions_is_that_of_argmax() -> None:
    for seed in range(CASES):
        one, other = case(seed), case(seed)
        random = np.random.default_rng(seed)
        other = other._replace(logits=random.permuted(one.logits, axis=1))
        changed = rows_of(other.logits, one.labels)
        same = sum(a == b != -1 for a, b in zip(one.predicted, other.predicted, strict=True)) / len(one.labels)
        assert afr_p(one.rows, changed).value == pytest.approx(same)
        assert accuracy(changed).value == pytest.approx((other.predicted == one.labels).mean())
        known = one.answered & other.answered
        if known.any() and one.logits.shape[1] <= 128:
            made = posterior_agreement(one.logits[known], other.logits[known], resamples=0)
            firsts = one.logits[known].argmax(axis=1) == other.logits[known].argmax(axis=1)
            assert made.same.value == pytest.approx(firsts.mean())


def test_constant_logits_agree_where_the_first_class_is_predicted_and_carry_no_information() -> None:
    random = np.random.default_rng(0)
    other = random.normal(size=(1000, 10))
    made = posterior_agreement(np.zeros((1000, 10)), other)
    assert made.same.value == pytest.approx((other.argmax(axis=1) == 0).mean())
    assert made.score.value == 0
    assert made.score.high < 0.05


def cost(one: np.ndarray, other: np.ndarray, beta: float) -> float:
    """-F as the paper writes it."""
    both, mine, theirs = (logsumexp(beta * logits, axis=1) for logits in (one + other, one, other))
    return float((mine + theirs - both).sum())


@pytest.mark.slow
def test_posterior_agreement_is_the_largest_of_many_maxima() -> None:
    for seed in range(0, CASES, 10):
        first = case(seed, classes=3)
        known = np.flatnonzero(first.answered)
        random = np.random.default_rng(seed)
        one = first.logits[known].astype(np.float64)
        if not len(known) or np.ptp(one) > 1e4:
            continue
        # an offset changes nothing, and the plain formula above would round it away
        one = one - one.max(axis=1, keepdims=True)
        other = np.where(random.random((len(one), 1)) < 0.7, one, random.permuted(one, axis=1))
        made = posterior_agreement(one, other, resamples=0)
        grid = np.geomspace(1e-6, 1e6, 400)
        values = [cost(one, other, beta) for beta in grid]
        top = int(np.argmin(values))
        low, high = grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)]
        found = optimize.minimize_scalar(partial(cost, one, other), bounds=(low, high), method="bounded")
        best = -float(found.fun)
        # at β beyond 1e6 / spread the formula loses what it subtracts
        assert made.total >= max(best, -cost(one, other, 0.0)) - 1e-6 * max(1.0, abs(best))


def test_rows_give_the_agreement_of_the_logits_they_keep() -> None:
    checked = 0
    for seed in range(0, CASES, 4):
        first = case(seed, classes=5, n=30)
        if np.ptp(np.where(np.isfinite(first.logits), first.logits, 0), axis=1).max() > 2e4:
            continue
        other = np.random.default_rng(seed).permuted(first.logits, axis=1)
        known = first.answered & np.isfinite(other).all(axis=1)
        if not known.any():
            continue
        made, left_out = agreement_of_rows(first.rows, rows_of(other, first.labels), resamples=0)
        exact = posterior_agreement(first.logits[known], other[known], resamples=0)
        assert left_out == (~known).sum()
        assert made.same == exact.same
        assert made.score.value == pytest.approx(exact.score.value, abs=2e-3)  # float16
        checked += 1
    assert checked > 100


def test_confidence_before_and_after_is_that_of_a_loop() -> None:
    for seed in range(CASES):
        first = case(seed)
        changed = rows_of(np.roll(first.logits, 1, axis=1), first.labels)
        made = confidence_before_after(first.rows, changed, resamples=10)
        right = [i for i in range(len(first.labels)) if first.rows.correct[i]]
        broken = [i for i in right if not changed.correct[i]]
        for score, where, rows in ((made.before, right, first.rows), (made.after, broken, changed)):
            known = [rows.confidence[i] for i in where if not math.isnan(rows.confidence[i])]
            assert score.n == len(known)
            assert score.value == pytest.approx(sum(known) / len(known) if known else math.nan, nan_ok=True)


def attack_set(seed: int) -> Battery:
    random = np.random.default_rng(seed)
    entries = [CLEAN, *(Strength(name, float(k)) for name in "abc"[: 1 + seed % 3] for k in range(1, 2 + seed % 4))]
    best = np.maximum(random_shares(random, len(entries)), 0.05) - (0.01 * random.random(len(entries)))
    return Battery(tuple(entries), random_shares(random, len(entries)), best, n=50, best_n=20_000)


@pytest.mark.slow
def test_competitiveness_and_uar_are_those_of_loops() -> None:
    for seed in range(CASES):
        cells = attack_set(seed)
        own, best = cells.accuracies.tolist(), cells.best.tolist()
        made = competitiveness(cells, resamples=2)
        ratios = [a / b for a, b in zip(own, best, strict=True)]
        assert made.average.value == pytest.approx(sum(ratios) / len(ratios))
        assert made.individual_worst.value == pytest.approx(min(ratios))
        assert made.expected.value == pytest.approx(sum(own) / sum(best))
        assert made.maximum.value == pytest.approx(min(own) / min(best))
        assert made.worst == cells.entries[ratios.index(min(ratios))]
        sums = {}
        for attack in cells.attacks:
            mine = [i for i, entry in enumerate(cells.entries) if entry.attack == attack]
            sums[attack] = sum(own[i] for i in mine) / sum(best[i] for i in mine)
            single = single_competitiveness(cells, resamples=2)[attack]
            assert single.average.value == pytest.approx((ratios[0] + sum(ratios[i] for i in mine)) / (1 + len(mine)))
        assert {name: score.value for name, score in uar(cells, resamples=2).items()} == pytest.approx(sums)
        assert mean_uar(cells, resamples=2).value == pytest.approx(sum(sums.values()) / len(sums))


def naive_slopes(cells: Battery, trained: dict[str, float], *, conditioned: bool) -> list[float]:
    found = []
    for i, j in itertools.permutations(range(len(cells)), 2):
        entry, best = cells.entries[i], cells.best
        if entry != CLEAN and entry.strength > trained.get(entry.attack, -1):
            continue
        gap = abs(best[i] - best[j])
        spread = 1.959964 * math.sqrt(sum(best[k] * (1 - best[k]) / cells.best_n for k in (i, j)))
        if 1e-12 < gap < 0.03 and (not conditioned or gap >= spread):
            found.append(abs(cells.accuracies[i] - cells.accuracies[j]) / gap)
    return found


def test_the_stability_constant_is_that_of_a_loop_over_pairs() -> None:
    for seed in range(CASES):
        cells, trained = attack_set(seed), {"a": 1.0} if seed % 2 else {}
        for made, conditioned in ((stability, False), (conditioned_stability, True)):
            slopes = naive_slopes(cells, trained, conditioned=conditioned)
            result = made(cells, trained)
            assert result.constant.value == pytest.approx(max(slopes, default=0.0), rel=1e-6)
            assert result.pairs == len(slopes)


def test_corruption_errors_are_those_of_a_loop() -> None:
    names = ("fog", "snow", "frost")
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        clean, levels = float(random_shares(random, 1)[0]), random_shares(random, (3, 1 + seed % 5))
        baseline = dict(zip(names, 0.5 + 0.5 * random.random(3), strict=True))
        made = corruption_errors(
            share(clean),
            {name: [share(value) for value in row] for name, row in zip(names, levels, strict=True)},
            baseline=baseline,
            baseline_clean=0.4,
        )
        mean, relative = 0.0, 0.0
        for name, row in zip(names, levels, strict=True):
            error = sum(1 - value for value in row) / len(row)
            mean += error / baseline[name] / 3
            relative += (error - (1 - clean)) / (baseline[name] - 0.4) / 3
        assert made.mean.value == pytest.approx(mean, abs=1e-12)
        assert made.relative.value == pytest.approx(relative, abs=1e-12)


def test_catastrophes_lie_beyond_the_whisker_of_the_others() -> None:
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        values = random.random((9 + seed % 12, 2))
        values[:, 1] = values[:, 0] - np.where(random.random(len(values)) < 0.1, 0.5, 0.05 * random.random(len(values)))
        values[random.random(values.shape) < 0.05] = np.nan
        if seed % 3 == 0:
            values[:, 1] = np.round(values[:, 1], 1)  # ties
        names = tuple(f"m{i}" for i in range(len(values)))
        made = catastrophes(Table(names, ("clean", "fog"), values, np.zeros(values.shape, np.int64)), "clean")
        losses = {name: a - b for name, (a, b) in zip(names, values, strict=True) if not math.isnan(a - b)}
        expected = set()
        for name, loss in losses.items():
            others = sorted(value for other, value in losses.items() if other != name)
            if len(others) >= 8:
                low, high = (np.percentile(others, q) for q in (25, 75))
                if loss > high + FENCE * (high - low) + LEAST:
                    expected.add(name)
        assert {found.model for found in made} == expected


def test_means_losses_and_ood_scores_are_those_of_loops() -> None:
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        groups = [random_shares(random, int(random.integers(1, 5))) for _ in range(3)]
        reference = share(float(random_shares(random, 1)[0]))
        cells = [{str(i): share(float(value)) for i, value in enumerate(group)} for group in groups]
        made = ood_scores(reference, corruptions=cells[0], natural=cells[1], attacks=cells[2])
        corruption, natural, threat = (sum(group) / len(group) for group in groups)
        dataset = (corruption + natural) / 2
        assert made.dataset.value == pytest.approx(dataset)
        assert made.overall.value == pytest.approx((dataset + threat) / 2)
        assert made.loss.value == pytest.approx(reference.value - (dataset + threat) / 2, abs=1e-12)
        assert mean_of(cells[0]).value == pytest.approx(corruption)
        assert difference(reference, made.threat).value == pytest.approx(reference.value - threat, abs=1e-12)


def test_accuracy_over_radii_and_above_a_line_are_those_of_loops() -> None:
    grid = (0.1, 0.2, 0.4)
    sweep = (ChangeRecord("attack", "sweep", 2, "sweep", {"attack": "pgd-linf", "radii": list(grid)}),)
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        n = int(random.choice([1, 4, 30]))
        radii = random.choice([0.0, *grid, np.inf], n)
        rows = rows_of(random.normal(size=(n, 3)), random.integers(0, 3, n), radii=radii, changes=sweep)
        expected = sum(radius > end for radius in radii for end in grid) / (3 * n)
        assert over_radii(rows).value == pytest.approx(expected)
        shifted, first, second = random_shares(random, (3, 1))
        column = Column("c", weights=(0.9, -0.2), intercept=-0.4)
        value = above_line(column, (shifted,) * 3, [(first,) * 3, (second,) * 3])[0][0]
        edge = {0.0, 1.0} & {float(first[0]), float(second[0])}  # where the line expects nothing
        if edge:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(shifted[0] - expit(0.9 * logit(first[0]) - 0.2 * logit(second[0]) - 0.4))


def test_correlations_lines_and_upper_limits_are_those_of_scipy() -> None:
    for seed in range(CASES):
        random = np.random.default_rng(seed)
        n = int(random.choice([3, 5, 30]))
        one, other = random_shares(random, (2, n))
        if seed % 10 == 0:
            other[:] = 0.1  # constant
        constant = len(set(one)) == 1 or len(set(other)) == 1
        theirs = math.nan if constant else stats.pearsonr(one, other).statistic
        assert pearson(one, other) == pytest.approx(theirs, abs=1e-9, nan_ok=True)
        ranked = math.nan if constant else stats.kendalltau(one, other).statistic
        assert kendall(one, other) == pytest.approx(ranked, abs=1e-9, nan_ok=True)
        if len(set(one)) > 1:
            table = Table(
                tuple(f"m{i}" for i in range(n)), ("x", "y"), np.stack([one, other], 1), np.zeros((n, 2), np.int64)
            )
            line, expected = fit(table, "y", "x", space="linear"), stats.linregress(one, other)
            assert (line.slope, line.intercept) == pytest.approx((expected.slope, expected.intercept), abs=1e-9)
            limit = min(1.0, max(0.0, expected.slope + expected.intercept))
            assert upper_limit(line) == pytest.approx(limit, abs=1e-9)


def test_rounding_is_half_up_of_the_number_as_written() -> None:
    random = np.random.default_rng(0)
    for _ in range(CASES):
        units = int(random.integers(-100_000, 100_000))
        text = f"{units / 1000:.3f}"  # halves of the second digit are frequent
        expected = Decimal(text).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
        assert rounded(float(text)) == float(expected)
