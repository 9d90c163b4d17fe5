"""Averages over shifts, corruption errors, calibration, error consistency, catastrophes, agreement of rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.rounding import rounded
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.along_ratios import (
    PosteriorAgreement,
    PredictionAgreement,
    agreement_of_rows,
    confidence_before_after,
    full_logits,
    over_adversarial_ratio,
    over_shift_ratio,
)
from holdfast.metrics.bootstrap_draws import resampled_sums
from holdfast.metrics.calibration import (
    Brier,
    ExpectedCalibrationError,
    NegativeLogLikelihood,
)
from holdfast.metrics.calibration_error import calibration_error
from holdfast.metrics.catastrophe import catastrophes
from holdfast.metrics.corruption_error import ALEXNET, ALEXNET_CLEAN, corruption_errors
from holdfast.metrics.error_consistency import consistency_matrix, error_consistency, kappa
from holdfast.metrics.means import difference, mean_of
from holdfast.metrics.ood import ood_scores
from holdfast.metrics.unions import average_accuracy
from holdfast.store import Rows

RowsFor = Callable[..., Rows]


def score(value: float, n: int = 100) -> Score:
    return wilson(round(value * n), n)


def test_ood_weighs_natural_sets_and_corruptions_alike() -> None:
    made = ood_scores(
        score(0.8),
        corruptions={"fog 1": score(0.6), "fog 2": score(0.4), "snow 1": score(0.5)},
        natural={"v2": score(0.3)},
        attacks={"ppgd": score(0.2), "lpa": score(0.4)},
    )
    assert made.corruption.value == pytest.approx(0.5)
    assert made.dataset.value == pytest.approx(0.4)
    assert made.threat.value == pytest.approx(0.3)
    assert made.overall.value == pytest.approx(0.35)
    assert made.loss.value == pytest.approx(0.45)
    assert not made.loss.has_interval
    assert "samples" in made.loss.why


def test_a_missing_cell_is_never_left_out_in_silence() -> None:
    with pytest.raises(HoldfastError, match="1 of 2 corruptions are missing, `snow` first"):
        mean_of({"fog": score(0.5), "snow": None}, what="corruptions")
    with pytest.raises(HoldfastError, match="no scores"):
        mean_of([])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_a_mean_lies_between_its_scores_and_has_no_interval_without_samples(counts: list[int]) -> None:
    made = mean_of([wilson(count, 50) for count in counts])
    assert min(counts) / 50 - 1e-12 <= made.value <= max(counts) / 50 + 1e-12
    assert made.has_interval == (len(counts) == 1)
    assert made.has_interval or made.why


def test_degradation_of_equal_scores_is_nothing() -> None:
    made = difference(score(0.5), score(0.5))
    assert made.value == 0
    assert made.low < 0 < made.high


@pytest.mark.parametrize(
    ("value", "rounding", "printed"),
    [(38.995, "round", 39.0), (38.995, "truncate", 38.99), (0.125, "round", 0.13), (-0.125, "truncate", -0.12)],
)
def test_print_rounds_halves_up_or_cuts_off(value: float, rounding: str, printed: float) -> None:
    assert rounded(value, rounding=rounding) == printed  # type: ignore[arg-type]


def test_rounding_is_one_of_two() -> None:
    with pytest.raises(Misuse, match="round or truncate"):
        rounded(1.0, rounding="up")  # type: ignore[arg-type]
    assert math.isnan(rounded(math.nan))


def test_the_baseline_has_a_corruption_error_of_one() -> None:
    exact = {name: [Score(1 - error, 1 - error, 1 - error, 0)] * 5 for name, error in ALEXNET.items()}
    clean = Score(1 - ALEXNET_CLEAN, 0, 1, 0)
    made = corruption_errors(clean, exact)
    assert made.mean.value == pytest.approx(1)
    assert made.relative.value == pytest.approx(1)


def test_mce_is_the_mean_of_ratios_not_the_ratio_of_means() -> None:
    ratios = np.linspace(0.5, 1.2, len(ALEXNET))
    levels = {
        name: [Score(1 - ratio * error, 0, 1, 0)] for (name, error), ratio in zip(ALEXNET.items(), ratios, strict=True)
    }
    made = corruption_errors(Score(0.76, 0, 1, 0), levels)
    assert made.mean.value == pytest.approx(ratios.mean())
    lost = [(r * e - 0.24) / (e - ALEXNET_CLEAN) for r, e in zip(ratios, ALEXNET.values(), strict=True)]
    assert made.relative.value == pytest.approx(np.mean(lost))


def test_mce_takes_every_corruption_and_no_other() -> None:
    levels = {name: [score(0.5)] for name in ALEXNET}
    with pytest.raises(Misuse, match="no error for `spatter`"):
        corruption_errors(score(0.7), {**levels, "spatter": [score(0.5)]})
    del levels["fog"]
    with pytest.raises(HoldfastError, match="1 of 15 corruptions are missing, `fog` first"):
        corruption_errors(score(0.7), levels)
    levels["fog"] = [score(0.5)] * 2
    with pytest.raises(HoldfastError, match="different numbers of severities"):
        corruption_errors(score(0.7), levels)


def test_a_calibrated_model_has_little_calibration_error_and_an_overconfident_one_has_its_excess() -> None:
    random = np.random.default_rng(0)
    confidence = random.uniform(0.3, 1, 20_000)
    right = random.random(20_000) < confidence
    assert calibration_error(confidence, right).debiased.value < 0.015  # the noise of 15 bins of 1,300
    wrong = random.random(20_000) < confidence - 0.2
    made = calibration_error(confidence, wrong).debiased
    assert made.low < 0.2 < made.high


def test_calibration_of_rows_by_hand(rows_for: RowsFor) -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], np.float32))
    rows = rows_for([True, True], classes=3, logits=logits, labels=np.array([0, 0]))
    nll, brier, ece = NegativeLogLikelihood()(rows), Brier()(rows), ExpectedCalibrationError()(rows)
    assert nll is not None
    assert nll.value == pytest.approx(-(math.log(0.5) + math.log(0.25)) / 2, rel=1e-6)
    # Σ p² is 0.375 in both; logits are kept in half precision
    assert brier is not None
    assert brier.value == pytest.approx(0.375 + 1 - 0.5 - 0.25, rel=1e-3)
    assert ece is not None
    assert ece.value == pytest.approx(0, abs=1e-6)
    assert ece.n == 2


def test_a_sample_without_an_answer_is_left_out_of_calibration(rows_for: RowsFor) -> None:
    logits = np.array([[1, 0], [np.nan, 0]], np.float32)
    rows = rows_for([True, True], classes=2, logits=logits, labels=np.array([0, 1]))
    made = [metric(rows) for metric in (NegativeLogLikelihood(), Brier(), ExpectedCalibrationError())]
    assert [score.n for score in made if score is not None] == [1, 1, 1]


def test_error_consistency_is_one_for_the_same_errors_and_zero_by_chance() -> None:
    random = np.random.default_rng(0)
    one, other = random.random(50_000) < 0.8, random.random(50_000) < 0.6
    assert kappa(one, one).value == pytest.approx(1)
    made = kappa(one, other)
    assert made.low < 0 < made.high
    assert abs(made.value) < 0.02
    assert kappa(one, ~one).value < -0.4
    assert math.isnan(kappa(np.ones(5, bool), np.ones(5, bool)).value)


def test_error_consistency_of_rows_matches_its_matrix(rows_for: RowsFor) -> None:
    one, other = rows_for([True, True, False, False]), rows_for([True, False, False, True])
    made = error_consistency(one, other)
    assert consistency_matrix([one, other])[0, 1] == pytest.approx(made.value)
    assert consistency_matrix([one, other])[0, 0] == pytest.approx(1)
    assert not made.has_interval, "two right and two wrong answers tell nothing"


def table_of(losses: list[float]) -> Table:
    values = np.stack([np.full(len(losses), 0.6), 0.6 - np.array(losses)], axis=1)
    names = tuple(f"m{i}" for i in range(len(losses)))
    return Table(names, ("clean", "noise"), values, np.zeros(values.shape, np.int64))


def test_a_model_that_loses_far_more_than_the_others_is_flagged() -> None:
    made = catastrophes(table_of([0.07, 0.08, 0.09, 0.1, 0.09, 0.08, 0.11, 0.1, 0.09, 0.46]), "clean")
    assert [(each.model, each.shift) for each in made] == [("m9", "noise")]
    assert made[0].typical == pytest.approx(0.09)
    assert "loses 46.0 points under noise" in made[0].flag.explanation


def test_no_outlier_no_catastrophe_and_few_models_are_refused() -> None:
    assert catastrophes(table_of([0.1 + i / 100 for i in range(12)]), "clean") == ()
    assert catastrophes(table_of([0.1, 0.5]), "clean") == ()
    with pytest.raises(Misuse, match="an outlier takes 9 models"):
        catastrophes(table_of([0.1, 0.5]), "clean", ["noise"])


def test_resampled_sums_are_sums_of_draws_and_share_them_over_columns() -> None:
    made = resampled_sums(np.stack([np.ones(50), np.arange(50.0), np.arange(50.0) * 2], axis=1), resamples=200)
    assert (made[:, 0] == 50).all()
    np.testing.assert_allclose(made[:, 2], 2 * made[:, 1])
    assert made[:, 1].mean() == pytest.approx(49 * 25, rel=0.02)


@pytest.fixture
def attacked(rows_for: RowsFor) -> tuple[Rows, Rows]:
    """Forty samples of ten classes: clean all right, attacked half wrong; sizes grow with the sample."""
    sizes = np.arange(40, dtype=np.float32)
    return rows_for([True] * 40), rows_for([i % 2 == 0 for i in range(40)], sizes=sizes)


def test_agreement_falls_along_the_adversarial_ratio(attacked: tuple[Rows, Rows]) -> None:
    points = over_adversarial_ratio(*attacked, ratios=[0, 0.5, 1], resamples=50)
    assert [point.afr_p.value for point in points] == [1, 0.75, 0.5]
    assert [point.afr_t.value for point in points] == [1, 0.75, 0.5]
    values = [point.agreement.score.value for point in points]
    assert values[0] == math.log(10) > values[1] > values[2]
    assert {point.left_out for point in points} == {0}


def test_agreement_along_the_shift_ratio_ends_at_the_shifted_run(attacked: tuple[Rows, Rows]) -> None:
    points = over_shift_ratio(*attacked, ratios=[0.5, 1], resamples=0)
    assert points[-1].agreement.total == pytest.approx(agreement_of_rows(*attacked, resamples=0)[0].total)


def test_rows_without_an_answer_are_left_out_of_agreement_and_counted(rows_for: RowsFor) -> None:
    broken = rows_for([True] * 3).logits
    assert broken is not None
    broken = broken.copy()
    broken[1] = np.nan
    made, left_out = agreement_of_rows(rows_for([True] * 3), rows_for([True] * 3, logits=broken), resamples=0)
    assert (made.score.n, left_out) == (2, 1)


def test_storage_makes_no_ties(rows_for: RowsFor) -> None:
    logits = np.array([[1000.1, 1000.2]], np.float32)  # the same number in half precision
    rows = rows_for([True], classes=2, logits=logits, labels=np.array([1]))
    assert full_logits(rows).argmax() == 1
    assert agreement_of_rows(rows, rows, resamples=0)[0].score.value == math.log(2)


def test_logits_further_apart_than_rows_can_hold_are_refused(rows_for: RowsFor) -> None:
    wide = rows_for([True], classes=3, logits=np.array([[1e5, 0, -1e5]], np.float32), labels=np.array([0]))
    with pytest.raises(HoldfastError, match="have logits 65504 apart or more"):
        agreement_of_rows(wide, wide)


def test_top_logits_alone_are_refused(rows_for: RowsFor) -> None:
    rows = rows_for([True] * 2, classes=200)
    with pytest.raises(HoldfastError, match="keeps only its largest logits"):
        agreement_of_rows(rows, rows)


def test_confidence_before_is_of_right_samples_and_after_of_broken_ones(attacked: tuple[Rows, Rows]) -> None:
    made = confidence_before_after(*attacked)
    assert (made.before.n, made.after.n) == (40, 20)
    assert made.after.value == pytest.approx(attacked[1].confidence[1::2].mean())
    assert made.notices == (made.after.high < made.before.low)
    unbroken = confidence_before_after(attacked[0], attacked[0])
    assert math.isnan(unbroken.after.value)


def test_registered_agreements_need_a_reference(attacked: tuple[Rows, Rows]) -> None:
    clean, changed = attacked
    assert PosteriorAgreement()(changed) is None
    assert PredictionAgreement()(changed, clean) == wilson(20, 40)
    made = PosteriorAgreement()(changed, clean)
    assert made is not None
    assert 0 < made.value < math.log(10)


def test_the_average_over_runs_is_resampled_by_sample(rows_for: RowsFor) -> None:
    made = average_accuracy([rows_for([True] * 30 + [False] * 30)] * 5)
    alone = wilson(30, 60)
    assert made.value == 0.5
    # five copies of one run are no more evidence than one
    assert made.high - made.low == pytest.approx(alone.high - alone.low, rel=0.25)
    with pytest.raises(HoldfastError, match="no runs"):
        average_accuracy([])
