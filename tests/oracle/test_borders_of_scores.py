"""Scores at the borders of their rules: ties, bounds that are just reached, one class too many, a single sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hard_cases import footer, rows_of

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics import bootstrap_draws, decisions, means, stability
from holdfast.metrics.accuracy import RobustAccuracy, TopK
from holdfast.metrics.agreement import Agreement, posterior_agreement
from holdfast.metrics.attack_ratios import RatioInside, RatioOutside, SingleRatio, StabilityConstant
from holdfast.metrics.calibration import largest_loss
from holdfast.metrics.catastrophe import CatastrophicDegradation, catastrophes
from holdfast.metrics.compare import Comparison, compare
from holdfast.metrics.confusion import ConfusionShare, confusion, dominant_class
from holdfast.metrics.corruption_error import ALEXNET, ALEXNET_CLEAN, _named
from holdfast.metrics.mean_over_radii import MeanOverRadii, radii_survived
from holdfast.metrics.means import SampledValues
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength
from holdfast.metrics.ood import OodScore, _kind
from holdfast.metrics.per_class_accuracy import PerClassAccuracy
from holdfast.metrics.radius_curves import (
    AreaUnderRadiusCurve,
    _reaches,
    accuracies_at,
    radius_curve,
    smallest_radii,
)
from holdfast.metrics.stability import TIE
from holdfast.metrics.unions import average_accuracy
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Rows

RowsFor = Callable[..., Rows]
FooterFor = Callable[..., Footer]


def change(kind: str, name: str, **args: object) -> ChangeRecord:
    return ChangeRecord(kind, name, 1, f"{name}:{args}", args)


# means


def test_cells_that_differ_more_than_their_samples_reach_as_far_as_their_own_intervals_together() -> None:
    """Two cells of nine, one right and eight right: 8/81 inside a cell is less than half of 1/4, and more than a third.

    Wilson's interval of one in nine, without correction, reaches from 0.0199 to 0.4350.
    """
    nine = np.arange(9)
    cells = [SampledValues(nine, nine < 1, 0.5), SampledValues(nine + 9, nine < 8, 0.5)]
    z = 1.959964
    centre, half = (1 / 9 + z * z / 18) / (1 + z * z / 9), math.sqrt(8 / 81 * z * z / 9 + (z * z / 9) ** 2 / 4)
    low, high = centre - half / (1 + z * z / 9), centre + half / (1 + z * z / 9)
    expected = math.hypot((1 / 9 - low) / 2, (high - 1 / 9) / 2)
    for side in (0, 1):
        kept = means._normal(cells)
        assert means._root_of_squares(kept, side) == pytest.approx(expected, rel=1e-6)
    alike = [SampledValues(nine, nine < 4, 0.5), SampledValues(nine + 9, nine < 5, 0.5)]
    assert means._root_of_squares(means._normal(alike), 0) == 0


@pytest.mark.parametrize("draws", [25, 20, 7])
def test_draws_in_chunks_are_those_of_one_chunk(monkeypatch: pytest.MonkeyPatch, draws: int) -> None:
    weight, values = np.full(11, 1 / 11), np.linspace(0, 1, 11)
    whole = means._reweighted_means(weight, values, 1.0, np.random.default_rng(0), draws)
    monkeypatch.setattr(means, "AT_ONCE", 120)  # ten draws of twelve weights
    parts = means._reweighted_means(weight, values, 1.0, np.random.default_rng(0), draws)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    columns = np.stack([np.ones(12), np.arange(12.0)], axis=1)
    monkeypatch.setattr(bootstrap_draws, "_AT_ONCE", 120)
    sums = bootstrap_draws.resampled_sums(columns, resamples=draws)
    assert sums.shape == (draws, 2)
    np.testing.assert_array_equal(sums[:, 0], 12)
    assert len(np.unique(sums[:, 1])) > draws // 2
    monkeypatch.setattr(bootstrap_draws, "_AT_ONCE", 5)  # fewer than one draw takes
    assert (bootstrap_draws.resampled_sums(columns, resamples=3)[:, 0] == 12).all()


def test_few_samples_widen_a_mean_as_students_t_does() -> None:
    """Ten values of variance s², whose mean has s²/10 · (1 + (z² + 1) / 18) to first order."""
    values = np.array([0.3, 0.7] * 5)
    cells = means._normal([SampledValues(np.arange(10), values)])
    samples = means._samples(cells)
    variance = 0.04 * 10 / 9 / 10 * (1 + (1.959964**2 + 1) / 18)
    seen = max(0.25 * 10 / 9 / variance, min(10, 0.25 / variance))
    unseen = 1.959964**2 / 4 * max(0.0, 1 / seen**2 - (variance / 0.25) ** 2)
    expected = 0.25 / (variance + unseen)
    assert means._effective(cells, samples, 0.5) == pytest.approx(expected, rel=1e-6)


def test_cells_whose_errors_offset_each_other_count_as_their_shares_tell() -> None:
    """Twenty samples in two cells, 19 right in one and 1 in the other, the one right in both."""
    ids = np.arange(20)
    one, other = (ids != 19).astype(float), (ids == 0).astype(float)
    cells = means._normal([SampledValues(ids, one), SampledValues(ids, other)])
    moved = math.sqrt(20 / 19) * ((one - 0.95) + (other - 0.05)) / 2 / 20
    shares = 0.95 * 0.05 * 20 / 19
    variance = max(float((moved**2).sum()), shares / 40) * (1 + (1.959964**2 + 1) / 38)
    seen = shares / variance  # more than the 20 samples, less than 0.25 / variance
    assert 20 < seen < 0.25 / variance
    unseen = 1.959964**2 / 4 * (1 / seen**2 - (variance / 0.25) ** 2)
    made = means._effective(cells, means._samples(cells), 0.5)
    assert made == pytest.approx(0.25 / (variance + unseen), rel=1e-6)


def test_the_average_is_over_the_samples_of_the_first_run(rows_for: RowsFor) -> None:
    few, many = rows_for([True, False, True]), rows_for([True, True, False, False, False])
    score = average_accuracy([few, many])
    assert (score.value, score.n) == (pytest.approx((2 / 3 + 2 / 3) / 2), 3)


# calibration and agreement


def test_the_largest_loss_of_two_close_classes_is_below_one() -> None:
    """Logits 0.5 apart: the other class would have cost 0.5 + ln(1 + e^-0.5) = 0.974."""
    rows = rows_of(np.array([[0.5, 0.0]]), np.array([0]))
    assert largest_loss(rows) == pytest.approx(0.5 + math.log(1 + math.exp(-0.5)), rel=1e-3)
    sure = rows_of(np.array([[8.0, 0.0]]), np.array([0]))
    assert largest_loss(sure) == pytest.approx(8 + math.log(1 + math.exp(-8)), rel=1e-3)


def test_agreement_as_a_share_of_the_largest_possible() -> None:
    made = Agreement(Score(1.5, 1.0, 2.0, 9), Score(1, 1, 1, 9), -1.0, 100, Score(1, 1, 1, 9), (), "all")
    assert made.share == pytest.approx(1.5 / math.log(100))


def test_maxima_come_in_the_order_of_beta() -> None:
    """Logits that fall apart at first, of predictions that tie: F is highest at 0 or at infinity."""
    first, second = np.tile([[1.0, 0.9, 0.0]], (5, 1)), np.tile([[1.0, 0.0, 1.0]], (5, 1))
    betas = [each.beta for each in posterior_agreement(first, second).maxima]
    assert betas[0] == 0
    assert betas[-1] == math.inf
    assert betas == sorted(betas)


# comparisons


def test_a_verdict_begins_below_five_percent(rows_for: RowsFor) -> None:
    made = compare(rows_for([True] * 10), rows_for([True] * 4 + [False] * 6))
    assert (made.only_one, made.only_other) == (6, 0)
    assert made.chance == pytest.approx(1 / 2**6)  # six of six throws alike, counted half on either side
    assert made.verdict == "better"
    assert replace_chance(made, 1 - CONFIDENCE).verdict == "no difference shown"
    assert replace_chance(made, 1 - CONFIDENCE - 1e-9).verdict == "better"
    assert compare(rows_for([True] * 4 + [False] * 6), rows_for([True] * 10)).verdict == "worse"


def replace_chance(made: Comparison, chance: float) -> Comparison:
    return replace(made, chance=chance)


def test_holm_divides_the_level_by_the_tests_that_are_left() -> None:
    """Of three, the smallest must lie below 0.05/3, the next below 0.05/2, the last below 0.05."""
    level = 1 - CONFIDENCE
    assert decisions._holm([0.016, 0.024, 0.049]) == [True, True, True]
    assert decisions._holm([0.049, 0.016, 0.026]) == [False, True, False]  # the middle one stops those after it
    assert decisions._holm([0.017, 0.017, 0.017]) == [False] * 3
    assert decisions._holm([level]) == [False]
    assert decisions._holm([]) == []


def test_junit_has_a_failure_for_each_decision_that_failed() -> None:
    made = [decisions.Decision("m", "d", True, "fine"), decisions.Decision("m", "d+fog", False, "too low")]
    text = decisions.junit_text("suite", made)
    assert text.count("<failure") == 1
    assert 'message="too low"' in text
    assert text.count('tests="2"') == text.count('failures="1"') == 2


# attacks


def test_the_slope_of_a_pair_is_without_sign_and_ties_have_none() -> None:
    entries = (CLEAN, Strength("a", 1.0))
    cells = Battery(entries, np.array([0.30, 0.40]), np.array([0.50, 0.52]), 100)
    made = stability.stability(cells, {})
    assert (made.difference, made.gap) == pytest.approx((0.10, 0.02))
    assert made.constant.value == pytest.approx(5)
    nothing = np.zeros((2, 2))
    tied = stability._slopes(np.array([0.3, 0.4]), np.array([0.0, TIE]), 0.03, nothing)
    assert np.isnan(tied).all()
    apart = stability._slopes(np.array([0.3, 0.4]), np.array([0.0, 2 * TIE]), 0.03, nothing)
    assert apart[0, 1] == pytest.approx(0.1 / (2 * TIE))


def test_conditioned_stability_asks_for_the_smallest_difference_that_chance_allows() -> None:
    """At 1,000 samples: 0.04 between difficulties of a half, 0.005 between 0.998 and 1, which is below 0.03."""
    entries = (CLEAN, Strength("a", 1.0), Strength("b", 1.0))
    cells = Battery(entries, np.array([0.9, 0.5, 0.2]), np.array([1.0, 0.99, 0.5]), 100, 1000)
    made = stability.conditioned_stability(cells, {})
    assert made.pairs == 1
    assert made.constant.value == pytest.approx(0.4 / 0.01)


BATTERY = Battery(
    (CLEAN, Strength("a", 1.0), Strength("b", 1.0)), np.array([0.9, 0.6, 0.1]), np.array([1.0, 0.8, 0.5]), 100, 100
)


def test_ratios_of_a_battery_by_hand() -> None:
    """Of no attack 0.9, of `a` 0.75, of `b` 0.2."""
    of_a, of_b = 1.5 / 1.8, 1.0 / 1.5
    assert SingleRatio(ratio="expected").of_battery(BATTERY, {}).value == pytest.approx(of_b)
    assert not SingleRatio(ratio="expected").of_battery(BATTERY, {}).has_interval
    assert SingleRatio(attack="a", ratio="expected").of_battery(BATTERY, {}).value == pytest.approx(of_a)
    assert RatioInside(ratio="expected").of_battery(BATTERY, {"a": 1.0}).value == pytest.approx(of_a)
    assert RatioOutside(ratio="expected").of_battery(BATTERY, {"a": 1.0}).value == pytest.approx(0.1 / 0.5)
    with pytest.raises(HoldfastError, match="unforeseen"):
        RatioOutside().of_battery(BATTERY, {"a": 1.0, "b": 1.0})


def test_the_stability_constant_as_a_metric() -> None:
    cells = replace(BATTERY, best=np.array([0.50, 0.52, 0.9]))
    assert StabilityConstant().of_battery(cells, {}).value == pytest.approx(0.3 / 0.02)
    many = StabilityConstant(conditioned=True, best_n=40_000)
    assert many.of_battery(replace(cells, best_n=0), {}).value == pytest.approx(0.3 / 0.02)
    few = StabilityConstant(conditioned=True, best_n=40_000).of_battery(replace(cells, best_n=9_000), {})
    assert few.value == pytest.approx(0.3 / 0.02)  # 0.0146 at 9,000: the battery's own count comes first


def test_the_stability_constant_is_of_all_pairs_unless_asked_otherwise() -> None:
    close = replace(BATTERY, best=np.array([0.500, 0.501, 0.9]))
    assert StabilityConstant().of_battery(close, {}).value == pytest.approx(0.3 / 0.001)
    assert StabilityConstant(conditioned=True).of_battery(replace(close, best_n=0), {}).value == 0


def test_robust_accuracy_needs_both_answers(rows_for: RowsFor, footer_for: FooterFor) -> None:
    attacked = footer_for(changes=(change("attack", "pgd-linf", radius=0.1),))
    under, before = rows_for([True, True, False, False], footer=attacked), rows_for([True, False, True, False])
    assert RobustAccuracy()(under, before).value == 0.25
    assert RobustAccuracy()(under).value == 0.5


def test_a_label_of_rank_k_is_not_among_the_first_k() -> None:
    logits = np.array([[3.0, 2.0, 1.0, 0.0]] * 4)
    rows = rows_of(logits, np.array([0, 1, 2, 3]))
    assert [TopK(k=k)(rows).value for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]
    many = rows_of(-np.arange(10.0)[None].repeat(10, axis=0), np.arange(10))
    assert TopK()(many).value == 0.5


# radii


def swept(radii: list[float], given: list[float], **more: object) -> Rows:
    """Rows of a sweep over `given` radii in which these are the smallest that broke a sample."""
    n = len(radii)
    changes = (change("attack", "sweep", radii=tuple(given)),)
    return rows_of(
        np.tile([[1.0, 0.0]], (n, 1)), np.zeros(n, int), radii=np.array(radii), **({"changes": changes} | more)
    )


def test_a_run_reaches_its_largest_radius_up_to_a_millionth() -> None:
    rows = swept([0.1, np.inf], [0.1, 0.2])
    assert _reaches(rows, 0.2 * (1 + 0.95e-6))
    assert not _reaches(rows, 0.2 * (1 + 1.05e-6))


def test_a_sample_without_a_radius_was_never_right() -> None:
    rows = swept([0.1, np.nan, np.inf], [0.1, 0.2])
    assert smallest_radii(rows).tolist() == [pytest.approx(0.1), 0.0, np.inf]
    assert AreaUnderRadiusCurve()(rows).value == pytest.approx((0.5 + 0 + 1) / 3)
    assert accuracies_at(rows, "a", [0.1, 0.2]) == {
        CLEAN: pytest.approx(2 / 3),
        Strength("a", 0.1): pytest.approx(1 / 3),
        Strength("a", 0.2): pytest.approx(1 / 3),
    }
    with pytest.raises(HoldfastError, match="is not known"):
        accuracies_at(rows, "a", [0.1, 0.3])
    with pytest.raises(HoldfastError, match="is not known"):
        accuracies_at(rows, "a", [0.3, 0.1])


def test_a_curve_ends_once_at_the_largest_radius() -> None:
    rows = swept([0.1, 0.2, np.inf], [0.1, 0.2])
    curve = radius_curve(rows)
    assert curve.radii == pytest.approx((0.1, 0.2))
    assert all(low < high for low, high in pairwise(curve.radii))
    assert [score.value for score in curve.accuracies] == pytest.approx([2 / 3, 1 / 3])


def test_the_mean_over_radii_is_of_samples_and_of_sweeps_alone() -> None:
    rows = swept([0.05, 0.15, np.inf], [0.1, 0.2])
    assert radii_survived(rows).tolist() == [0, 0.5, 1]
    fog = change("corruption", "fog", severity=3)
    later = swept([0.05, 0.15, np.inf], [0.1, 0.2], changes=(fog, *rows.footer.changes))
    for each in (rows, later):
        score = MeanOverRadii()(each)
        assert (score.value, score.n) == (pytest.approx(0.5), 3)
    assert MeanOverRadii()(swept([0.1], [0.1], changes=(fog,))) is None


# classes


def named_by(rows: Rows, names: tuple[str, ...]) -> Rows:
    return replace(rows, footer=replace(rows.footer, classes=names))


def test_of_classes_equally_bad_the_larger_is_named(rows_for: RowsFor) -> None:
    labels = np.array([0, 0, 1, 1, 1, 2])
    rows = rows_of(np.tile([[0.0, 0.0, 1.0]], (6, 1)), labels)
    assert PerClassAccuracy().in_words(rows) == "c1"
    assert PerClassAccuracy(label=1).in_words(rows) == ""
    alone = PerClassAccuracy()(rows_of(np.array([[1.0, 0.0]]), np.array([0])))
    assert (alone.value, alone.has_interval) == (1.0, True)
    assert set(PerClassAccuracy().details(rows)) == {"c0", "c1", "c2"}


def test_classes_without_a_name_have_their_number() -> None:
    rows = named_by(rows_of(np.array([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0]]), np.array([1, 0])), ("first",))
    made = confusion(rows)
    assert made.classes == ("first", "1", "2")
    assert made.counts.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert ConfusionShare().in_words(rows) == "1 taken for 2"


def test_confusion_by_name_and_among_classes_that_have_samples_enough() -> None:
    """Ten of class 0, of which four are taken for 2; one of class 1, taken for 0."""
    labels = np.array([0] * 10 + [1])
    predicted = np.array([2] * 4 + [0] * 6 + [0])
    rows = rows_of(np.eye(3)[predicted], labels)
    assert ConfusionShare(label="c0", predicted="c2")(rows).value == pytest.approx(0.4)
    assert ConfusionShare(label=1, predicted="c0")(rows).value == 1
    assert ConfusionShare()(rows).value == pytest.approx(0.4)  # class 1 has too few to be the largest
    assert ConfusionShare().details(rows)["largest"] == {"label": "c0", "predicted": "c2"}
    few = rows_of(np.eye(3)[predicted[5:]], labels[5:])
    assert ConfusionShare().in_words(few) == "c1 taken for c0"


def test_a_class_that_the_footer_does_not_name_can_dominate() -> None:
    labels = np.arange(60) % 3
    rows = named_by(rows_of(np.tile(np.eye(6)[5], (60, 1)), labels), ("a", "b"))
    found = dominant_class(rows)
    assert found is not None
    assert (found.index, found.count, found.expected) == (5, 60, pytest.approx(1 / 5))


# shifts


def test_the_corruption_errors_of_alexnet_are_those_printed() -> None:
    """Percent, as in Table 1 of arXiv:1903.12261 and its authors' code."""
    # fmt: off
    printed = {
        "gaussian-noise": 88.6, "shot-noise": 89.4, "impulse-noise": 92.3, "defocus-blur": 82.0, "glass-blur": 82.6,
        "motion-blur": 78.6, "zoom-blur": 79.8, "snow": 86.7, "frost": 82.7, "fog": 81.9, "brightness": 56.5,
        "contrast": 85.3, "elastic-transform": 64.6, "pixelate": 71.8, "jpeg-compression": 60.7,
    }
    # fmt: on
    assert {name: 100 * error for name, error in ALEXNET.items()} == pytest.approx(printed, abs=0.06)
    assert pytest.approx(0.435) == ALEXNET_CLEAN


def test_the_whisker_of_the_others_losses() -> None:
    """Nine others lose 1 to 9 points: quartiles 3 and 7, so 7 + 1.5 · 4 = 13 at most usually."""
    losses = np.array([0.5, *(np.arange(1, 10) / 100)])
    values = np.stack([np.full(10, 0.9), 0.9 - losses], axis=1)
    table = Table(tuple("mabcdefghi"), ("clean", "fog"), values, np.zeros((10, 2), np.int64))
    (made,) = catastrophes(table, "clean")
    assert (made.model, made.loss, made.typical, made.usual) == ("m", *map(pytest.approx, (0.5, 0.05, 0.13)))
    assert made.others == 9
    scores = CatastrophicDegradation().of_table(table, ("fog", "clean"))
    assert {model: score.value for model, score in scores.items()} == dict.fromkeys("abcdefghi", 0.0) | {"m": 1.0}
    assert {score.n for score in scores.values()} == {9}


def test_scenarios_are_gathered_by_corruption() -> None:
    def line(name: str, severity: int) -> SimpleNamespace:
        return SimpleNamespace(footer=footer(3, 9, changes=(change("corruption", name, severity=severity),)))

    lines = {"one": line("fog", 1), "two": line("jpeg", 3), "three": line("fog", 3)}
    runs = SimpleNamespace(lines=lines)
    assert _named(runs, list(lines)) == {"fog": ["one", "three"], "jpeg-compression": ["two"]}  # type: ignore[arg-type]


def test_what_shifts_a_run_against_the_reference() -> None:
    attack, other = change("attack", "pgd", radius=1), change("attack", "lpa", radius=1)
    fog = change("corruption", "fog", severity=1)
    home = footer(3, 9, changes=(attack,))
    kinds: list[tuple[tuple[ChangeRecord, ...], str | None]] = [
        ((attack,), None),
        ((fog, attack), "corruptions"),
        ((other,), "attacks"),
        ((other, attack), None),  # two attacks
        ((fog, other), None),  # both shifts at once
    ]
    for changes, kind in kinds:
        assert _kind(footer(3, 9, changes=changes), home) == kind
    assert _kind(footer(3, 9, changes=(attack,), dataset="v2"), home) == "natural"
    assert _kind(footer(3, 9, changes=(other,), dataset="v2"), home) is None
    runs = SimpleNamespace(lines={})
    for reference in (None, "cifar10+pgd"):
        with pytest.raises(HoldfastError, match="foreseen attack"):
            OodScore().of_runs(runs, [], reference)  # type: ignore[arg-type]
