"""mCE, κ and competitiveness from numbers small enough to compute by hand, and laws that tie them to simpler ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Score, without_interval
from holdfast.metrics import error_consistency as consistency
from holdfast.metrics import means
from holdfast.metrics.corruption_error import (
    ALEXNET,
    ALEXNET_CLEAN,
    MeanCorruptionError,
    Outcomes,
    _corruption,
    corruption_errors,
)
from holdfast.metrics.error_consistency import ErrorConsistency, consistency_matrix, kappa
from holdfast.metrics.means import SampledValues, difference_reach, mean_of_sizes, mean_over, scaled
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength, competitiveness, mean_uar, uar
from holdfast.metrics.per_class_accuracy import BalancedAccuracy, MajorityShare, PerClassAccuracy
from holdfast.metrics.stability import conditioned_stability, stability
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Rows

# corruption errors

IDS = np.arange(10)


def exactly(value: float, n: int = 10) -> Score:
    return without_interval(value, n, "by hand")


def cell(right: int) -> SampledValues:
    return SampledValues(IDS, right > IDS)


BASELINE = {"fog": 0.8, "snow": 0.5}
ACCURACIES = {"fog": [exactly(0.7), exactly(0.5)], "snow": [exactly(0.8), exactly(0.6)]}
OUTCOMES = Outcomes(cell(9), {"fog": [cell(7), cell(5)], "snow": [cell(8), cell(6)]})


def test_mce_divides_each_corruption_by_its_baseline_and_averages() -> None:
    """Errors 0.4 and 0.3 over baselines 0.8 and 0.5; the clean error 0.1 is taken off both, the baseline's 0.25 too."""
    for outcomes in (None, OUTCOMES):
        made = corruption_errors(exactly(0.9), ACCURACIES, baseline=BASELINE, baseline_clean=0.25, outcomes=outcomes)
        assert made.each["fog"].value == pytest.approx(0.4 / 0.8)
        assert made.each["snow"].value == pytest.approx(0.3 / 0.5)
        assert made.mean.value == pytest.approx((0.5 + 0.6) / 2)
        assert made.relative.value == pytest.approx((0.3 / 0.55 + 0.2 / 0.25) / 2)
        assert made.mean.n == made.relative.n == 10
        assert made.mean.has_interval == made.relative.has_interval == (outcomes is not None)


def test_the_interval_of_a_corruption_is_that_of_its_errors_over_the_baseline() -> None:
    made = corruption_errors(exactly(0.9), ACCURACIES, baseline=BASELINE, baseline_clean=0.25, outcomes=OUTCOMES)
    errors = [SampledValues(IDS, ~np.asarray(each.values)) for each in OUTCOMES.corrupted["fog"]]
    expected = scaled(mean_over(errors), 1 / 0.8)
    assert made.each["fog"].low == pytest.approx(expected.low)
    assert made.each["fog"].high == pytest.approx(expected.high)
    assert made.mean.low < made.mean.value < made.mean.high


def test_a_baseline_has_itself_as_one_and_loses_what_it_loses() -> None:
    own = {name: [exactly(1 - error)] for name, error in ALEXNET.items()}
    made = corruption_errors(exactly(1 - ALEXNET_CLEAN), own)
    assert made.mean.value == pytest.approx(1)
    assert made.relative.value == pytest.approx(1)
    assert len(ALEXNET) == 15


def test_a_corruption_that_changes_nothing_loses_nothing_for_certain() -> None:
    same = Outcomes(cell(7), {"fog": [cell(7)]})
    made = corruption_errors(
        exactly(0.7), {"fog": [exactly(0.7)]}, baseline={"fog": 0.9}, baseline_clean=0.4, outcomes=same
    )
    assert made.relative.value == pytest.approx(0)
    assert made.relative.low == pytest.approx(0, abs=0.5)
    assert made.relative.high - made.relative.low < made.mean.high - made.mean.low


@pytest.mark.parametrize("clean", [0.5, 0.6])
def test_a_baseline_that_loses_nothing_is_refused(clean: float) -> None:
    with pytest.raises(HoldfastError, match="loses nothing under snow"):
        corruption_errors(exactly(0.9), ACCURACIES, baseline=BASELINE, baseline_clean=clean)


def test_corruptions_are_those_of_the_baseline_at_the_same_severities() -> None:
    with pytest.raises(HoldfastError, match="1 of 2 corruptions are missing, `snow` first"):
        corruption_errors(exactly(0.9), {"fog": ACCURACIES["fog"]}, baseline=BASELINE)
    with pytest.raises(Misuse, match="no error for `rain`"):
        corruption_errors(exactly(0.9), ACCURACIES | {"rain": [exactly(0.1)]}, baseline=BASELINE)
    with pytest.raises(HoldfastError, match="different numbers of severities"):
        corruption_errors(exactly(0.9), ACCURACIES | {"fog": [exactly(0.1)]}, baseline=BASELINE)


FOG = ChangeRecord("corruption", "fog", 1, "fog:severity=4", {"severity": 4})
JPEG = ChangeRecord("corruption", "jpeg", 1, "jpeg:severity=2", {"severity": 2})
PGD = ChangeRecord("attack", "pgd-linf", 1, "pgd-linf:radius=1", {"radius": 1.0})


@pytest.mark.parametrize(
    ("dataset", "changes", "read"),
    [
        ("imagenet", (FOG,), ("fog", 4.0)),
        ("imagenet", (JPEG,), ("jpeg-compression", 2.0)),
        ("imagenet", (), None),
        ("imagenet", (PGD,), None),
        ("imagenet", (FOG, PGD), None),
        ("imagenet", (FOG, JPEG), None),
        ("cifar10-c:corruption=frost,severity=5", (), ("frost", 5.0)),
        ("cifar10-c:corruption=frost", (), ("frost", 3.0)),
        ("cifar10-c:corruption=frost", (FOG,), None),
    ],
)
def test_mce_counts_one_corruption_at_one_severity(
    footer_for: Callable[..., Footer], dataset: str, changes: tuple[ChangeRecord, ...], read: tuple[str, float] | None
) -> None:
    footer = footer_for("m", dataset, changes=changes)
    assert _corruption(footer) == read
    assert MeanCorruptionError().is_about(footer) is (read is not None)


# error consistency


def answers(both: int, only_one: int, only_other: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of two models, by how many samples both, one or none of them gets right."""
    one = np.repeat([True, True, False, False], [both, only_one, only_other, neither])
    other = np.repeat([True, False, True, False], [both, only_one, only_other, neither])
    return one, other


def test_kappa_of_a_table_by_hand() -> None:
    """Right 0.7 and 0.6, alike 0.7; by chance 0.42 + 0.12 = 0.54: κ = 0.16 / 0.46."""
    score = kappa(*answers(50, 20, 10, 20))
    assert score.value == pytest.approx(0.16 / 0.46)
    assert score.n == 100
    assert score.low < 0.16 / 0.46 < score.high < 1
    assert score.low > -0.05  # by far more alike than by chance: a bound near 0.13


def test_kappa_is_one_for_the_same_errors_and_negative_for_errors_avoided() -> None:
    assert kappa(*answers(80, 0, 0, 20)).value == 1
    avoided = kappa(*answers(60, 20, 20, 0))
    assert avoided.value == pytest.approx((0.6 - 0.68) / 0.32)
    assert avoided.low <= avoided.value < avoided.high < 0.1  # no fewer errors can be shared


@pytest.mark.parametrize(
    ("table", "has"), [((90, 0, 5, 5), True), ((91, 0, 5, 4), False), ((5, 1, 0, 94), True), ((4, 1, 0, 95), False)]
)
def test_kappa_has_an_interval_from_five_right_and_five_wrong_answers(table: tuple[int, ...], has: bool) -> None:
    assert kappa(*answers(*table)).has_interval is has
    assert kappa(*answers(*(table[0], table[2], table[1], table[3]))).has_interval is has


def test_kappa_without_samples_or_without_errors_is_not_defined() -> None:
    assert math.isnan(kappa(*answers(0, 0, 0, 0)).value)
    assert math.isnan(kappa(*answers(9, 0, 0, 0)).value)
    assert math.isnan(kappa(*answers(0, 0, 0, 9)).value)


@given(st.lists(st.integers(5, 30), min_size=4, max_size=4))
def test_kappa_is_the_same_for_both_models_and_for_errors_as_for_answers(table: list[int]) -> None:
    one, other = answers(*table)
    score, exchanged, errors = kappa(one, other), kappa(other, one), kappa(~one, ~other)
    for made in (exchanged, errors):
        assert made.value == pytest.approx(score.value)
        assert (made.low, made.high) == pytest.approx((score.low, score.high), abs=1e-6)


@pytest.mark.parametrize(("both", "wrong", "other_wrong", "n"), [(6, 10, 12, 40), (2, 10, 12, 40), (8, 9, 15, 20)])
def test_bounds_of_the_odds_leave_as_much_on_either_side(both: int, wrong: int, other_wrong: int, n: int) -> None:
    """Fisher's distribution, by counting: half of what was observed belongs to either tail."""

    def above(log_odds: float) -> float:
        weights = {
            k: math.comb(wrong, k) * math.comb(n - wrong, other_wrong - k) * math.exp(log_odds * k)
            for k in range(max(0, wrong + other_wrong - n), min(wrong, other_wrong) + 1)
        }
        more = sum(weight for k, weight in weights.items() if k > both)
        return (more + weights[both] / 2) / sum(weights.values())

    low, high = consistency._odds(both, wrong, other_wrong, n)
    assert above(low) == pytest.approx(0.025, abs=1e-6)
    assert above(high) == pytest.approx(0.975, abs=1e-6)


def test_bounds_of_the_odds_are_open_where_nothing_more_or_less_could_be_seen() -> None:
    assert consistency._odds(0, 5, 6, 30)[0] == -math.inf
    assert consistency._odds(5, 5, 6, 30)[1] == math.inf
    assert consistency._odds(1, 5, 6, 10)[0] == -math.inf  # 5 + 6 errors of 10: one at least is shared


@pytest.mark.parametrize(("wrong", "other_wrong"), list(product((0.2, 0.6), (0.3, 0.7))))
@pytest.mark.parametrize("log_odds", [-2.0, -0.3, 0.0, 0.4, 3.0])
def test_the_odds_ratio_of_the_shares_is_the_one_asked_for(wrong: float, other_wrong: float, log_odds: float) -> None:
    """κ → the share both get wrong → the odds ratio of the table that it makes."""
    by_chance = wrong * (1 - other_wrong) + other_wrong * (1 - wrong)
    both = consistency._kappa_at(log_odds, wrong, other_wrong) * by_chance / 2 + wrong * other_wrong
    table = both * (1 - wrong - other_wrong + both) / ((wrong - both) * (other_wrong - both))
    assert math.log(table) == pytest.approx(log_odds, abs=1e-6)


@pytest.mark.parametrize(("log_odds", "both"), [(math.inf, 0.3), (-math.inf, 0.2), (60.0, 0.3), (-60.0, 0.2)])
def test_at_the_ends_of_the_odds_all_or_as_few_as_possible_are_shared(log_odds: float, both: float) -> None:
    """Errors of 0.3 and 0.9: at least 0.2 are shared, at most 0.3; by chance 0.27 would be."""
    by_chance = 0.3 * 0.1 + 0.9 * 0.7
    assert consistency._kappa_at(log_odds, 0.3, 0.9) == pytest.approx(2 * (both - 0.27) / by_chance)


def test_a_matrix_of_kappas_has_them_pair_by_pair(rows_for: Callable[..., Rows]) -> None:
    random = np.random.default_rng(0)
    runs = [rows_for((random.random(60) < share).tolist()) for share in (0.5, 0.7, 0.9)]
    made = consistency_matrix(runs)
    assert np.diag(made) == pytest.approx(1)
    for i, j in product(range(3), repeat=2):
        assert made[i, j] == pytest.approx(kappa(runs[i].correct, runs[j].correct).value)


def test_a_model_whose_kappa_with_another_is_not_defined_has_no_mean(rows_for: Callable[..., Rows]) -> None:
    random = np.random.default_rng(1)
    mixed, other = (rows_for((random.random(40) < 0.6).tolist()) for _ in range(2))
    perfect, also = rows_for([True] * 40), rows_for([True] * 40)
    both = ErrorConsistency().of_predictions({"mixed": mixed, "other": other})
    assert both["mixed"].value == both["other"].value == kappa(mixed.correct, other.correct).value
    made = ErrorConsistency().of_predictions({"mixed": mixed, "perfect": perfect, "also": also})
    assert set(made) == {"mixed"}
    assert made["mixed"].value == pytest.approx(0)  # being always right agrees with anyone as by chance
    one = ErrorConsistency(model="other").of_predictions({"mixed": mixed, "other": other, "perfect": perfect})
    assert set(one) == {"mixed", "perfect"}


# many attacks

WEAK, STRONG = Strength("pgd-linf", 1.0), Strength("pgd-linf", 2.0)


def nested(accuracies: list[float], best: list[float], *, n: int = 100, best_n: int = 50) -> Battery:
    entries = (WEAK, STRONG, CLEAN)[: len(best)]
    return Battery(entries, np.array(accuracies), np.array(best), n, best_n)


def reference(cells: Battery, weights: list[float], more: float) -> Score:
    """Σ weight x accuracy with a variance added, as a mean of cells in other units."""
    taken = [cell._replace(weight=weight) for cell, weight in zip(cells.cells, weights, strict=True)]
    return scaled(mean_over(taken, more=more), sum(weights))


def test_best_accuracies_add_their_own_variance_to_a_ratio() -> None:
    """Of one ratio a / b: a² (1 - b) / (b m) beside the variance of a, since b rests on m samples."""
    cells = nested([0.6], [0.8])
    expected = reference(cells, [1 / 0.8], 0.6**2 * 0.2 / (0.8 * 50))
    for score in (competitiveness(cells).average, competitiveness(cells).expected, uar(cells)["pgd-linf"]):
        assert score.value == pytest.approx(0.75)
        assert (score.low, score.high) == pytest.approx((expected.low, expected.high))
    known = competitiveness(nested([0.6], [0.8], best_n=0)).average
    assert known.low > expected.low
    assert known.high < expected.high


def test_best_accuracies_of_two_attacks_vary_together() -> None:
    """Best 0.8 and 0.5 of 50 nested samples: variances 0.16 and 0.25, covariance 0.5 - 0.4 = 0.1, each over 50."""
    cells = nested([0.6, 0.4], [0.8, 0.5])
    made = competitiveness(cells)
    total = 2 / 1.3
    of_sum = (1 / 1.69) ** 2 * (0.16 + 0.25 + 2 * 0.1) / 50 / total**2
    expected = reference(cells, [1 / 1.3, 1 / 1.3], of_sum)
    assert made.expected.value == pytest.approx(1 / 1.3)
    assert (made.expected.low, made.expected.high) == pytest.approx((expected.low, expected.high))
    weights = [0.5 / 0.8, 0.5 / 0.5]
    own = [weights[0] * 0.6 / 0.8, weights[1] * 0.4 / 0.5]
    variance = (own[0] ** 2 * 0.16 + own[1] ** 2 * 0.25 + 2 * own[0] * own[1] * 0.1) / 50 / sum(weights) ** 2
    average = reference(cells, weights, variance)
    assert made.average.value == pytest.approx((0.75 + 0.8) / 2)
    assert (made.average.low, made.average.high) == pytest.approx((average.low, average.high))


def test_ratios_of_unknown_counts_have_no_interval() -> None:
    made = competitiveness(nested([0.6, 0.3], [0.8, 0.5], n=0, best_n=0))
    for score in (made.average, made.individual_worst, made.expected, made.maximum):
        assert (score.n, score.has_interval) == (0, False)
    assert made.average.value == pytest.approx((0.75 + 0.6) / 2)
    assert (made.individual_worst.value, made.maximum.value) == pytest.approx((0.6, 0.3 / 0.5))
    assert (made.worst, made.measured, made.entries, made.is_complete) == (STRONG, 2, 2, True)


def test_counts_are_rounded_from_accuracies() -> None:
    cells = nested([0.666, 0.004], [0.8, 0.5])
    assert [int(np.asarray(each.values).sum()) for each in cells.cells] == [67, 0]


def test_the_worst_ratio_lies_inside_bounds_that_widen_with_the_entries() -> None:
    one, two = competitiveness(nested([0.6], [0.8])), competitiveness(nested([0.6, 0.59], [0.8, 0.8]))
    assert one.individual_worst.value == one.maximum.value == pytest.approx(0.75)
    assert two.individual_worst.value == pytest.approx(0.59 / 0.8)
    assert one.individual_worst.low < 0.75 < one.individual_worst.high
    alone = competitiveness(nested([0.59], [0.8])).individual_worst
    assert two.individual_worst.low <= alone.low  # the best accuracies share what they may miss
    unknown = competitiveness(nested([0.6], [0.8], best_n=0)).individual_worst
    assert one.individual_worst.low < unknown.low
    assert unknown.high < one.individual_worst.high


def test_mean_uar_is_the_mean_over_attacks_not_over_strengths() -> None:
    entries = (Strength("a", 1.0), Strength("a", 2.0), Strength("b", 1.0), CLEAN)
    cells = Battery(entries, np.array([0.6, 0.2, 0.3, 0.9]), np.array([0.8, 0.4, 0.6, 0.95]), 100, 0)
    each = uar(cells)
    assert each["a"].value == pytest.approx(0.8 / 1.2)
    assert each["b"].value == pytest.approx(0.5)
    assert mean_uar(cells).value == pytest.approx((0.8 / 1.2 + 0.5) / 2)


def test_stability_counts_pairs_closer_than_near_and_never_ties() -> None:
    """Best 0.50, 0.52, 0.53 and 0.50 again: gaps of 0.02 and 0.01 count, 0.03 is not below 0.03, 0 is a tie."""
    entries = (CLEAN, Strength("a", 1.0), Strength("b", 1.0), Strength("c", 1.0))
    cells = Battery(entries, np.array([0.40, 0.30, 0.36, 0.10]), np.array([0.50, 0.52, 0.53, 0.50]), 100, 40_000)
    clean_alone = stability(cells, {})
    assert (clean_alone.pairs, clean_alone.known, clean_alone.other) == (1, CLEAN, entries[1])
    assert clean_alone.constant.value == pytest.approx(0.10 / 0.02)
    assert (clean_alone.gap, clean_alone.difference, clean_alone.least_gap) == pytest.approx((0.02, 0.10, 0.0))
    more = stability(cells, {"a": 1.0})
    assert more.pairs == 4  # and `a` with no attack, `b` and `c`
    assert (more.known, more.other) == (entries[1], entries[3])
    assert more.constant.value == pytest.approx(0.20 / 0.02)
    assert stability(cells, {"a": 0.9}).pairs == 1  # trained on less than this strength
    # of 40,000 samples a difficulty of about a half is known to 1.96 x 0.0025 x √2 = 0.0069
    least = conditioned_stability(cells, {}).least_gap
    assert least == pytest.approx(1.959964 * math.sqrt(0.25 / 40_000 + 0.52 * 0.48 / 40_000), rel=1e-5)
    few = conditioned_stability(replace(cells, best_n=4_000), {"b": 1.0})
    assert few.pairs == 0  # 0.01 is less than chance at 4,000 samples, and 0.02 too
    with pytest.raises(Misuse, match="differ by more than chance"):
        conditioned_stability(replace(cells, best_n=1_000), {})


# means


@pytest.mark.parametrize(("draws", "at_once"), [(25, 120), (20, 120), (7, 5)])
def test_resamples_fill_every_draw_whatever_is_held_at_once(
    monkeypatch: pytest.MonkeyPatch, draws: int, at_once: int
) -> None:
    """Of twelve numbers: in chunks of ten, or one by one; each draw is a t statistic around zero."""
    seen = []

    def spy(turned: np.ndarray) -> tuple[float, float]:
        seen.append(turned)
        return -1.0, 2.0

    monkeypatch.setattr(means, "AT_ONCE", at_once)
    monkeypatch.setattr(means, "percentiles", spy)
    values = np.arange(12.0)
    score = mean_of_sizes(values, draws=draws)
    assert seen[0].shape == (draws,)
    assert np.abs(seen[0]).max() < 3
    assert len(np.unique(seen[0])) > draws // 2
    assert (score.low, score.high) == pytest.approx((5.5 - 2 * values.std(), 5.5 + values.std()))


@given(st.floats(0, 5), st.floats(0, 5), st.floats(-1, 1))
def test_a_difference_reaches_between_that_of_alike_and_of_opposite_parts(one: float, other: float, r: float) -> None:
    reach = difference_reach(one, other, r)
    assert abs(one - other) - 1e-6 <= reach <= one + other + 1e-6
    assert difference_reach(3.0, 4.0, 0.0) == 5
    assert difference_reach(3.0, 4.0, 0.5) == pytest.approx(math.sqrt(13))


def test_the_mean_of_no_samples_may_be_anything() -> None:
    score = mean_over([SampledValues(IDS[:0], IDS[:0])])
    assert math.isnan(score.value)
    assert (score.low, score.high, score.n) == (0, 1, 0)


def test_one_sample_that_is_half_right_tells_little() -> None:
    score = mean_over([SampledValues(IDS[:1], np.array([0.5]))])
    assert (score.value, score.n) == (0.5, 1)
    assert 0 <= score.low < 0.25
    assert 0.75 < score.high <= 1


def test_weights_of_cells_are_taken_in_proportion() -> None:
    cells = [cell(7)._replace(weight=3.0), cell(4)._replace(weight=1.0), SampledValues(IDS[:0], IDS[:0], 5.0)]
    assert mean_over(cells).value == pytest.approx(0.75 * 0.7 + 0.25 * 0.4)
    twice = [each._replace(weight=2 * each.weight) for each in cells]
    assert mean_over(twice) == mean_over(cells)


# classes


def test_classes_one_by_one(rows_for: Callable[..., Rows]) -> None:
    """Labels go 0, 1, 2, 0, …: of eleven, four, four and three."""
    right = [True, False, True, True, False, False, True, True, False, True, False]
    rows = rows_for(right, classes=3)
    shares = {label: np.asarray(right)[np.arange(11) % 3 == label] for label in range(3)}
    for label, own in shares.items():
        score = PerClassAccuracy(label=label)(rows)
        assert score is not None
        assert (score.value, score.n) == (pytest.approx(own.mean()), len(own))
    worst = PerClassAccuracy()(rows)
    assert worst is not None
    assert worst.value == pytest.approx(min(own.mean() for own in shares.values()))
    assert (worst.n, worst.has_interval) == (11, False)
    assert BalancedAccuracy()(rows).value == pytest.approx(np.mean([own.mean() for own in shares.values()]))
    assert MajorityShare()(rows).value == pytest.approx(4 / 11)
