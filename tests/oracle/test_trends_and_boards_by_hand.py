"""Bounds of lines, places and boards against textbook formulas and plain loops: what a changed sign or bound moves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from holdfast.boards.column_means import column_mean
from holdfast.boards.entries import Board, BoardCell, BoardEntry
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.bootstrap_draws import draw_counts
from holdfast.metrics.catastrophe import loss_box
from holdfast.trends import ranks
from holdfast.trends.bands import band, conversion_rate_score, effective_robustness_scores, refits, upper_limit_score
from holdfast.trends.bootstrap import correlations, fit_planes, sample_draws, widened_confidence
from holdfast.trends.column_fits import column_bands, fit_columns
from holdfast.trends.fits import Cut, FitPoints, cautions, correlation, explained, fit, pearson
from holdfast.trends.matrices import Matrix, Shift, matrix, r2_matrix, shifts_of
from holdfast.trends.piecewise import Piecewise, fit_trend
from holdfast.trends.placing import placements, prediction_interval
from holdfast.trends.ranks import ModelRank, rank_intervals, rank_intervals_of_scores, step_limits
from holdfast.trends.robustness import by_group, conversion_rate, printed_line, upper_limit
from holdfast.trends.spaces import inside

Floats = NDArray[np.float64]
X = np.array([0.1, 0.3, 0.4, 0.6, 0.7, 0.9])
W = np.array([0.5, 0.2, 0.3, 0.8, 0.4, 0.6])
Y = np.array([0.2, 0.25, 0.45, 0.5, 0.7, 0.75])


def table(*columns: Sequence[float] | Floats, names: str = "xy", n: int | NDArray[np.int64] = 0) -> Table:
    values = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return Table(tuple(f"m{i}" for i in range(len(values))), tuple(names), values, np.broadcast_to(n, values.shape))


def widened(n: int, k: int = 1, confidence: float = 0.95) -> float:
    """Hesterberg's level, arXiv:1411.5279: the normal one that reaches as far as √(n / (n - k - 1)) t."""
    reach = math.sqrt(n / (n - k - 1)) * stats.t.ppf((1 + confidence) / 2, n - k - 1)
    return float(stats.norm.cdf(reach) - stats.norm.cdf(-reach))


def refitted(x: Floats, y: Floats, draws: int, seed: int = 0) -> Floats:
    """Slope and intercept of every draw of models, one polynomial after the other."""
    made = []
    for row in draw_counts(len(x), draws, seed=seed).astype(int):
        at = np.repeat(np.arange(len(x)), row)
        made.append(np.polyfit(x[at], y[at], 1) if np.ptp(x[at]) > 0 else [math.nan, math.nan])
    return np.array(made)


def bounds(values: Floats, level: float) -> tuple[float, float]:
    low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# bounds of lines


@pytest.mark.parametrize(("n", "k"), [(6, 1), (30, 1), (8, 3)])
def test_the_level_of_refits_allows_for_few_models_as_hesterberg_does(n: int, k: int) -> None:
    for confidence in (0.5, 0.9, 0.95):
        assert widened_confidence(confidence, n, k) == pytest.approx(widened(n, k, confidence), abs=1e-12)
    assert widened_confidence(0.5, k + 2, k) == pytest.approx(widened(k + 2, k, 0.5), abs=1e-12)
    assert widened_confidence(0.9, k + 1, k) == 1


def test_bounds_of_a_line_are_percentiles_of_its_refits() -> None:
    line = fit(table(X, Y), "y", "x", space="linear")
    drawn, level = refitted(X, Y, 300), widened(6)
    rate, limit = conversion_rate_score(line, draws=300), upper_limit_score(line, draws=300)
    assert (rate.low, rate.high) == pytest.approx(bounds(drawn[:, 0], level))
    assert (limit.low, limit.high) == pytest.approx(bounds(drawn.sum(axis=1).clip(0, 1), level))
    assert (rate.n, limit.n) == (6, 6)
    at = np.array([0.2, 0.8])
    around, published = band(line, at, draws=300), band(line, at, draws=300, as_published=True)
    for i, x in enumerate(at):
        there = drawn[:, 0] * x + drawn[:, 1]
        assert (around.low[i], around.high[i]) == pytest.approx(bounds(there, level))
        assert (published.low[i], published.high[i]) == pytest.approx(bounds(there, 0.95))
    assert around.expected == pytest.approx(np.polyval(np.polyfit(X, Y, 1), at))
    assert around.at.tolist() == [[0.2], [0.8]]


def test_draws_are_those_of_seed_0_unless_another_is_named() -> None:
    line = fit(table(X, Y, n=50), "y", "x", space="linear")
    for score in (conversion_rate_score, upper_limit_score):
        assert score(line, draws=20) == score(line, draws=20, seed=0) != score(line, draws=20, seed=1)
    assert (refits(line, draws=20) == refits(line, draws=20, seed=0)).all()
    assert (band(line, X, draws=20).low == band(line, X, draws=20, seed=0).low).all()
    scores = effective_robustness_scores(line, table(X, Y, n=50), draws=20)
    assert scores == effective_robustness_scores(line, table(X, Y, n=50), draws=20, seed=0)
    assert (sample_draws(X, np.full(6, 9), 3) == sample_draws(X, np.full(6, 9), 3, seed=0)).all()
    by_default, first = (column_bands(table(X, Y), "x", draws=9, **seed) for seed in ({}, {"seed": 0}))
    np.testing.assert_array_equal(by_default, first)


def test_bounds_of_an_upper_limit_are_shares() -> None:
    steep = fit(table([0.5, 0.6, 0.7, 0.8, 0.9], [0.4, 0.66, 0.7, 0.95, 1.0]), "y", "x", space="linear")
    assert (upper_limit_score(steep).value, upper_limit_score(steep).high) == (1, 1)
    falling = fit(table([0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 0.6, 0.5, 0.2, 0.1]), "y", "x", space="linear")
    assert (upper_limit_score(falling).value, upper_limit_score(falling).low) == (0, 0)


def test_bounds_over_samples_are_not_widened_and_those_over_models_are() -> None:
    line = fit(table(X, Y, n=100), "y", "x", space="linear")
    at = np.array([0.5])
    for over, is_widened in (("samples", False), ("models", True), ("both", True)):
        one, plain = (band(line, at, over=over, draws=200, as_published=yes) for yes in (False, True))  # type: ignore[arg-type]
        assert (np.ptp([one.low, one.high]) > np.ptp([plain.low, plain.high])) == is_widened
        assert (one.low == plain.low).all() != is_widened


def test_over_samples_x_and_y_are_measured_apart_and_over_models_together() -> None:
    same = fit(table(X, X, n=200), "y", "x", space="linear")
    assert refits(same, draws=50)[:, 0] == pytest.approx(np.ones(50))
    assert refits(same, over="samples", draws=400)[:, 0].std() > 0.02
    # attenuated on average by the scatter of x: 1 / (1 + mean of x(1-x)/n over the variance of x)
    noise, spread = (X * (1 - X) / 200).mean(), X.var()
    assert refits(same, over="samples", draws=4000)[:, 0].mean() == pytest.approx(1 / (1 + noise / spread), abs=0.004)


def test_a_piecewise_band_is_that_of_the_lower_line_at_the_pivot_itself() -> None:
    x = np.array([0.1, 0.2, 0.3, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9])
    y = np.array([0.1, 0.15, 0.3, 0.2, 0.0, 0.4, 0.3, 0.6, 0.65])
    line = fit_trend(table(x, y), "y", "x", zero="piecewise")
    assert isinstance(line, Piecewise)
    at = np.array([0.5])
    around, left = band(line, at, draws=40), band(line.left, at, draws=40)
    assert (around.low, around.expected, around.high) == (left.low, left.expected, left.high)
    assert prediction_interval(line, at) == prediction_interval(line.left, at)
    again = band(line, at, draws=40, confidence=0.5)
    assert np.ptp([again.low, again.high]) < np.ptp([around.low, around.high])


@pytest.mark.parametrize("names", ["xy", "xwy"])
def test_effective_robustness_without_counts_is_the_score_minus_the_band(names: str) -> None:
    made = table(*({"x": X, "w": W, "y": Y}[name] for name in names), names=names)
    line = fit(made, "y", tuple(names[:-1]))
    scores, around = effective_robustness_scores(line, made, draws=80), band(line, made.values[:, :-1], draws=80)
    for i, name in enumerate(made.models):
        assert scores[name].value == pytest.approx(Y[i] - around.expected[i])
        bounds_there = Y[i] - around.high[i], Y[i] - around.low[i]
        assert (scores[name].low, scores[name].high) == pytest.approx(bounds_there)


def test_a_seed_names_the_draws_for_good() -> None:
    """Models by the seed itself, x by the next, y by the one after: a band drawn again is the same band."""
    counts = np.array([10, 20, 30, 40, 50, 60])
    line = fit(table(X, Y, n=np.stack([counts, 2 * counts], axis=1)), "y", "x", space="linear")

    def again(values: Floats, n: NDArray[np.int64], seed: int) -> Floats:
        drawn = np.random.default_rng(seed).binomial(n, values, size=(30, 6)) / n
        return np.clip(drawn, 0.5 / n, 1 - 0.5 / n)

    x, y = again(X, counts, 8), again(Y, 2 * counts, 9)
    by_samples, by_both = (refits(line, over=over, draws=30, seed=7) for over in ("samples", "both"))  # type: ignore[arg-type]
    for d, weights in enumerate(draw_counts(6, 30, seed=7)):
        assert by_samples[d] == pytest.approx(np.polyfit(x[d], y[d], 1))
        if (weights > 0).sum() > 2:
            assert by_both[d] == pytest.approx(np.polyfit(x[d], y[d], 1, w=np.sqrt(weights)), abs=1e-8)
    exact = fit(table(X, X, n=np.stack([counts, 2 * counts], axis=1)), "y", "x", space="linear")
    scores = effective_robustness_scores(exact, table(X, X, n=np.stack([counts, 2 * counts], axis=1)), draws=30, seed=7)
    apart = again(X, 2 * counts, 9) - again(X, counts, 8)
    for i, score in enumerate(scores.values()):
        assert (score.low, score.high) == pytest.approx(bounds(apart[:, i], widened(6)))


def test_on_a_perfect_line_effective_robustness_scatters_by_the_samples_alone() -> None:
    """y = x: the deviation of a difference of two shares, each with its own count."""
    x = np.linspace(0.3, 0.7, 12)
    made = table(x, x, n=np.array([400, 900]))
    line = fit(made, "y", "x", space="linear")
    scores = effective_robustness_scores(line, made, draws=4000)
    reach = stats.norm.ppf((1 + widened(12)) / 2)
    for i, name in enumerate(made.models):
        half = reach * math.sqrt(x[i] * (1 - x[i]) * (1 / 400 + 1 / 900))
        assert (scores[name].low, scores[name].high) == pytest.approx((-half, half), rel=0.1)
        assert (scores[name].value, scores[name].n) == (pytest.approx(0, abs=1e-12), 900)


def test_a_model_is_measured_again_only_where_every_count_of_it_is_known() -> None:
    counts = np.full((6, 3), 100)
    counts[0, 0] = counts[1, 2] = counts[2, 1] = 0
    counts[3, 0] = counts[4, 2] = 1  # is a count
    made = table(X, W, Y, names="xwy", n=counts)
    plane = fit(made, "y", ("x", "w"), space="linear")
    scores = effective_robustness_scores(plane, made, draws=100)
    unknown = effective_robustness_scores(plane, table(X, W, Y, names="xwy"), draws=100)
    for i, name in enumerate(made.models):
        assert (scores[name].low == unknown[name].low) == (i < 3)
    gaps = table(X, [math.nan, *W[1:]], [*Y[:-1], math.nan], names="xwy", n=100)
    assert list(effective_robustness_scores(plane, gaps, draws=10)) == ["m1", "m2", "m3", "m4"]


def test_a_prediction_interval_is_that_of_the_textbook() -> None:
    """expected ± t s √(1 + 1/n + (x - mean)² / Σ(x - mean)²), n - 2 degrees of freedom."""
    line = fit(table(X, Y), "y", "x", space="linear")
    found = stats.linregress(X, Y)
    residual = Y - (found.slope * X + found.intercept)
    s = math.sqrt((residual**2).sum() / 4)
    at = np.array([0.0, 0.5, 1.0])
    for confidence in (0.8, 0.95):
        low, high = prediction_interval(line, at, confidence=confidence)
        reach = stats.t.ppf((1 + confidence) / 2, 4) * s
        half = reach * np.sqrt(1 + 1 / 6 + (at - X.mean()) ** 2 / ((X - X.mean()) ** 2).sum())
        assert low == pytest.approx(found.slope * at + found.intercept - half)
        assert high == pytest.approx(found.slope * at + found.intercept + half)
    two = fit(table(X[:2], Y[:2]), "y", "x", space="linear")
    low, high = prediction_interval(two, np.array([0.5, math.nan]))
    assert (low[0], high[0]) == (0, 1)
    assert np.isnan([low[1], high[1]]).all()
    three = fit(table(X[:3], Y[:3]), "y", "x", space="linear")
    low, high = prediction_interval(three, np.array([0.3]))
    assert high[0] - low[0] > 1, "Student's t of one degree of freedom is 12.7"
    placed = placements(line, table([0.5, math.nan, 0.5], [0.9, 0.5, math.nan]))
    assert [(each.model, each.is_unusual, each.was_fitted, each.expected.n) for each in placed] == [
        ("m0", True, True, 6)
    ]


def test_refits_of_a_plane_are_weighted_least_squares() -> None:
    random = np.random.default_rng(0)
    x, y = random.random((9, 2)), random.random(9)
    weights = draw_counts(9, 5, seed=3)
    for row, made in zip(weights, fit_planes(x, y, weights), strict=True):
        root = np.sqrt(row)
        design = np.column_stack([x, np.ones(9)])
        assert made == pytest.approx(np.linalg.lstsq(root[:, None] * design, root * y, rcond=None)[0])
    alone = np.zeros((1, 9))
    alone[0, 4] = 9
    assert np.isnan(fit_planes(x, y, alone)).all()


def test_correlations_of_columns_are_numpys_over_the_models_that_have_both() -> None:
    random = np.random.default_rng(1)
    x, y = random.random((8, 1)), random.random((8, 3))
    y[2, 0] = y[5, 1] = math.nan
    weights = draw_counts(8, 4, seed=1)
    for row, found in zip(weights.astype(int), correlations(x, y, weights), strict=True):
        for j in range(3):
            at = np.repeat(np.arange(8), row)
            at = at[np.isfinite(y[at, j])]
            assert found[j] == pytest.approx(np.corrcoef(x[at, 0], y[at, j])[0, 1])
    assert np.isnan(correlations(x, np.full((8, 1), 0.3))).all()


def test_a_share_is_kept_half_a_sample_off_the_edges() -> None:
    assert inside(np.array([0.0, 0.004, 0.006, 1.0]), 100).tolist() == [0.005, 0.005, 0.006, 0.995]
    assert inside(np.array([0.0, 1.0]), 0).tolist() == [0.5, 0.5]
    drawn = sample_draws(np.array([0.5, math.nan, 0.999]), np.array([100, 0, 10]), 2000)
    assert np.isnan(drawn[:, 1]).all()
    assert drawn[:, 0].mean() == pytest.approx(0.5, abs=0.004)
    assert drawn[:, 0].std() == pytest.approx(0.05, rel=0.06)
    assert drawn[:, 2].max() == 0.95


# fits


def test_kendall_relates_x_and_y_of_a_line_and_what_is_expected_and_seen_of_a_plane() -> None:
    falling = fit(table(X, 1 - Y), "y", "x", space="linear")
    assert falling.kendall == pytest.approx(-1)
    assert falling.pearson == pytest.approx(stats.pearsonr(X, 1 - Y).statistic)
    y = np.clip(0.9 - 0.5 * X + 0.3 * W + np.array([0.02, -0.03, 0.05, -0.02, 0.04, -0.05]), 0, 1)
    plane = fit(table(X, W, y, names="xwy"), "y", ("x", "w"), space="linear")
    design = np.column_stack([X, W, np.ones(6)])
    expected = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert plane.kendall == pytest.approx(stats.kendalltau(expected, y).statistic)
    assert plane.pearson == pytest.approx(stats.pearsonr(expected, y).statistic)
    assert plane.kendall > 0 > stats.kendalltau(X, y).statistic
    assert plane.precision == pytest.approx(np.linalg.inv(design.T @ design))
    assert plane.r2 == pytest.approx(1 - ((y - expected) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def test_scores_of_1_are_moved_or_left_out_like_those_of_0_under_x_and_under_y() -> None:
    made = table([*X, 1.0, 0.5], [*Y, 0.6, 1.0], n=np.array([50, 200]))
    clipped = fit(made, "y", "x", zero="clip")
    assert clipped.points.x[:, 0].tolist() == [*X, 0.99, 0.5]
    assert clipped.points.y.tolist() == [*Y, 0.6, 0.9975]
    assert clipped.points.clipped == ("m6", "m7")
    dropped = fit(made, "y", "x", zero="drop")
    assert dropped.points.models == made.models[:6]
    assert [left.model for left in dropped.points.left_out] == ["m6", "m7"]
    logit = np.log(X / (1 - X)), np.log(Y / (1 - Y))
    assert (dropped.slope, dropped.intercept) == pytest.approx(tuple(np.polyfit(*logit, 1)))
    for wrong in (0.0, 0.5, -0.1):
        with pytest.raises(Misuse, match="between 0 and 1/2"):
            fit(made, "y", "x", zero="clip", clip_at=wrong)
    assert fit(made, "y", "x", zero="clip", clip_at=0.49).points.x[6, 0] == 0.51
    halves = table([*X, 1.0], [*Y, 0.6], n=np.array([[50, 200]] * 6 + [[50, 0]]))
    assert fit(halves, "y", "x", zero="clip").n == 7, "no count is asked of a score inside"


def test_columns_fitted_at_once_move_and_leave_out_the_same_scores_as_one() -> None:
    made = table([*X, 1.0, 0.5], [*Y, 0.6, 1.0], n=np.array([50, 200]))
    for zero in ("clip", "drop"):
        one = fit(made, "y", "x", zero=zero)  # type: ignore[arg-type]
        many = fit_columns(made, "x", settings=["y"], zero=zero)  # type: ignore[arg-type]
        found = [each[0] for each in (many.slope, many.intercept, many.r2, many.r2_accuracy, many.mae)]
        assert found == pytest.approx([one.slope, one.intercept, one.r2, one.r2_accuracy, one.mae])
        assert (many.n[0], many.at_edge[0]) == (one.n, 2)


def test_a_line_takes_two_models_and_a_plane_three() -> None:
    assert fit(table([0.2, 0.4], [0.3, 0.5]), "y", "x", space="linear").slope == pytest.approx(1)
    with pytest.raises(HoldfastError, match="a line of y on x needs 2 models, got 1"):
        fit(table([0.2], [0.3]), "y", "x")
    with pytest.raises(HoldfastError, match="a plane of y on x, w needs 3 models, got 2"):
        fit(table([0.2, 0.4], [0.3, 0.5], [0.1, 0.2], names="xwy"), "y", ("x", "w"))


def test_a_constant_score_is_not_explained_and_does_not_correlate() -> None:
    flat = fit(table(X, np.full(6, 0.3)), "y", "x", space="linear")
    assert math.isnan(flat.r2)
    assert math.isnan(flat.r2_accuracy)
    assert math.isnan(flat.pearson)
    assert (flat.slope, flat.intercept, flat.mae) == pytest.approx((0, 0.3, 0), abs=1e-12)
    assert "not defined" in " ".join(flat.cautions)
    assert pearson(X, -X) == -1
    assert pearson(X, np.where(X > 0.8, math.nan, X)) == pytest.approx(1)


def test_bounds_of_r2_reach_0_where_those_of_r_hold_it() -> None:
    weak = correlation(0.2, 12)
    assert weak.low < 0 < weak.high
    assert (explained(weak).low, explained(weak).high) == (0, pytest.approx(weak.high**2))
    weaker = correlation(-0.1, 12)
    assert explained(weaker).high == pytest.approx(weaker.low**2)
    assert not correlation(-1.0, 9).has_interval
    assert (explained(correlation(-0.5, 3)).value, explained(correlation(-0.5, 3)).n) == (0.25, 3)


def test_a_cut_needs_the_score_it_is_about_and_a_model_is_left_out_for_the_first_score_it_lacks() -> None:
    made = table([0.2, 0.4, math.nan, 0.6], [0.3, 0.5, 0.4, math.nan], [0.9, math.nan, 0.9, 0.9], names="xyz")
    line = fit(table(*made.values.T[:2]), "y", "x", models=["m0", "m1"], space="linear")
    assert line.n == 2
    with pytest.raises(HoldfastError) as caught:
        fit(made, "y", "x", cuts=[Cut(("z",), 0.5)])
    for text in ("m1: not z ≥ 0.5", "m2: no score under x", "m3: no score under y"):
        assert text in str(caught.value)


def test_points_keep_counts_and_names_together() -> None:
    counts = np.arange(1, 7)
    points = FitPoints(tuple("abcdef"), X[:, None], Y, counts[:, None], 10 * counts)
    kept = points.where(np.array([True, False, True, False, False, True]))
    assert (kept.models, kept.x[:, 0].tolist(), kept.y.tolist()) == (
        ("a", "c", "f"),
        [0.1, 0.4, 0.9],
        [0.2, 0.45, 0.75],
    )
    assert (kept.x_counts[:, 0].tolist(), kept.y_counts.tolist()) == ([1, 3, 6], [10, 30, 60])
    plane = fit(table(X, W, Y, names="xwy", n=np.array([7, 8, 9])), "y", ("x", "w"))
    assert (plane.points.x[:, 1].tolist(), plane.points.y.tolist()) == (W.tolist(), Y.tolist())
    assert (plane.points.x_counts.tolist(), plane.points.y_counts.tolist()) == ([[7, 8]] * 6, [9] * 6)


def test_a_printed_line_is_that_of_score_minus_effective_robustness() -> None:
    beyond = np.array([0.02, -0.01, 0.03, 0.0, -0.04, 0.01])
    made = table(X, 0.6 * X + 0.1 + beyond, beyond, names="xyb")
    line = printed_line(made, y="y", x="x", beyond="b")
    assert (line.slope, line.intercept, line.r2) == pytest.approx((0.6, 0.1, 1))
    turned = printed_line(
        Table(made.models, ("b", "y", "x"), made.values[:, ::-1], made.counts), y="y", x="x", beyond="b"
    )
    assert (turned.slope, turned.intercept) == pytest.approx((0.6, 0.1))


# two lines


def test_two_lines_meet_at_zeros_of_one_x_only_and_never_at_a_score_of_1() -> None:
    x, y = [0.1, 0.2, 0.5, 0.5, 0.8, 0.9], [0.1, 0.2, 0.0, 0.0, 0.6, 0.7]
    line = fit_trend(table(x, y), "y", "x", zero="piecewise")
    assert isinstance(line, Piecewise)
    assert (line.pivot_models, line.left.points.models, line.right.points.models) == (
        ("m2", "m3"),
        ("m0", "m1"),
        ("m4", "m5"),
    )
    for at, score in ((2, 1.0), (3, 1.0)):
        with pytest.raises(Misuse, match="2 of 6 models have an extreme score under y, and 0 under x"):
            fit_trend(table(x, [*y[:at], score, *y[at + 1 :]]), "y", "x", zero="piecewise")
    with pytest.raises(Misuse, match="2 of 6 models have an extreme score under y, and 1 under x"):
        fit_trend(table([0.0, *x[1:]], y), "y", "x", zero="piecewise")
    with pytest.raises(Misuse, match="0 of 6 models have an extreme score under y, and 1 under x"):
        fit_trend(table([0.0, *x[1:]], [0.1, 0.2, 0.3, 0.3, 0.6, 0.7]), "y", "x", zero="piecewise")
    beside = fit_trend(table(x, [0.1, 0.2, 0.0, 0.3, 0.6, 0.7]), "y", "x", zero="piecewise")
    assert isinstance(beside, Piecewise)
    assert (beside.n, beside.pivot_models) == (4, ("m2",))
    assert [left.model for left in beside.right.points.left_out] == ["m2", "m3"]
    assert beside.cautions == tuple(
        f"{side}: fitted on 2 models: fewer than 10 do not determine a line"
        for side in ("up to the pivot", "above the pivot")
    )
    assert beside.record()["left"] == beside.left.record()
    assert beside.record()["right"] == beside.right.record()


# matrices


def test_a_record_of_a_matrix_says_of_each_cell_what_belongs_to_it() -> None:
    many = np.linspace(0.1, 0.9, 20)
    wild = np.where(np.arange(20) % 2 == 0, 0.8, 0.2)
    made = table(many, wild, 0.5 * many, 1 - many, wild * 0.5 + many * 0.4, names="abcde")
    found = matrix(made, ["a", "b"], ["c", "d", "e"], measure="pearson")
    records = found.record()
    assert [(each["x"], each["y"]) for each in records] == [(x, y) for x in "ab" for y in "cde"]
    for each in records:
        one, other = made.column(str(each["x"])), made.column(str(each["y"]))
        r = stats.pearsonr(one, other)
        assert each["pearson"] == pytest.approx(r.statistic)
        assert each["n"] == 20
        assert each["cautions"] == list(cautions(20, r.statistic**2))
        if abs(r.statistic) < 1 - 1e-9:
            interval = r.confidence_interval(0.95)
            assert (each["low"], each["high"]) == pytest.approx((interval.low, interval.high))
    assert {bool(each["cautions"]) for each in records} == {True, False}
    square = Matrix(
        "r2", ("a", "b"), ("a", "b"), np.array([[0.9, 0.01], [0.8, 0.9]]), *np.zeros((2, 2, 2)), np.full((2, 2), 30)
    )
    assert [bool(each["cautions"]) for each in square.record()] == [False, True, False, False]


def test_a_cell_takes_three_models_and_four_for_bounds() -> None:
    made = table(
        [0.1, 0.2, 0.4, 0.7],
        [0.2, 0.1, 0.5, math.nan],
        [0.3, 0.6, math.nan, math.nan],
        [0.1, 0.3, 0.2, 0.9],
        names="abcd",
    )
    found = matrix(made, ["a"], ["b", "c", "d"])
    assert found.n.tolist() == [[3, 2, 4]]
    assert np.isnan(found.values).tolist() == [[False, True, False]]
    assert np.isnan(found.low).tolist() == [[True, True, False]]
    assert found.values[0, 0] == pytest.approx(stats.pearsonr([0.1, 0.2, 0.4], [0.2, 0.1, 0.5]).statistic ** 2)


def test_settings_of_a_shift_belong_together_by_their_endings() -> None:
    assert shifts_of(["a-accuracy", "b-robustness", "a-robustness", "c-accuracy"]) == [
        Shift("a", "a-accuracy", "a-robustness"),
        Shift("b", None, "b-robustness"),
        Shift("c", "c-accuracy", None),
    ]


def test_the_four_kinds_are_named_without_the_shift_first() -> None:
    random = np.random.default_rng(5)
    made = table(*random.random((4, 15)), names="arst")
    found = r2_matrix(made, [Shift("z", "s", "t")], accuracy="a", robustness="r")
    for (one, other), value in zip(("as", "rt", "at", "rs"), found.values[:, 0], strict=True):
        assert value == pytest.approx(stats.pearsonr(made.column(one), made.column(other)).statistic ** 2)
    assert found.kinds == ("Acc-Acc", "Rob-Rob", "Acc-Rob", "Rob-Acc")
    assert [each["r2"] for each in found.record()] == found.values[:, 0].tolist()
    some = r2_matrix(made, [Shift("z", "s", "t")], accuracy="a", robustness="r", models=made.models[:9])
    assert (some.n == 9).all()
    sums = table([0.7, 0.8, 0.9, 0.5, 0.6], [0.4, 0.5, 0.6, 0.5, 0.6], *random.random((2, 5)), names="arst")
    cut = r2_matrix(sums, [Shift("z", "s", "t")], accuracy="a", robustness="r", least=0.7 + 0.4)
    assert (cut.n == 4).all(), "a sum of exactly the least is kept"


# places


def test_places_do_not_depend_on_how_many_pairs_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    correct = random.random((7, 80)) < np.linspace(0.3, 0.9, 7)[:, None]
    names = tuple("abcdefg")
    scores = Table(names, ("s",), correct.mean(axis=1)[:, None], np.full((7, 1), 80))
    whole = rank_intervals(names, correct), rank_intervals_of_scores(scores, "s")
    for most in (1, 7, 14, 21):
        monkeypatch.setattr(ranks, "AT_ONCE", most)
        assert (rank_intervals(names, correct), rank_intervals_of_scores(scores, "s")) == whole
    assert rank_intervals(["a"], correct[:1])[0][2:] == (1, 1, 1)
    assert rank_intervals([], correct[:0]) == ()
    assert rank_intervals_of_scores(table([math.nan], names="s"), "s") == ()
    with pytest.raises(Misuse, match=r"got an array of shape \(1, 0\)"):
        rank_intervals(["a"], correct[:1, :0])


def test_between_the_best_and_the_last_limits_are_those_of_as_many_equals_as_are_left() -> None:
    limits = step_limits(300, 0.025)
    for left in (2, 3, 10, 50, 150):
        below, _ = integrate.quad(
            lambda u, c=limits[300 - left], left=left: stats.norm.pdf(u) * stats.norm.cdf(math.sqrt(2) * c + u) ** left,
            -9,
            9,
        )
        assert below == pytest.approx(0.975, abs=4e-4)
    assert len(limits) == 300
    assert step_limits(1, 0.05)[0] == pytest.approx(1.644854, abs=1e-5)
    assert len(step_limits(0, 0.025)) == 0


def test_places_of_scores_weigh_each_score_by_its_count() -> None:
    """0.60 of 1000 against 0.50 of m: z is 1.93 for 100 and 2.02 for 110."""

    def decided(first: float, n: int, second: float, m: int) -> bool:
        made = table([first, second], names="s", n=np.array([[n], [m]]))
        return rank_intervals_of_scores(made, "s")[0].high == 1

    def z(first: float, n: int, second: float, m: int) -> float:
        pooled = (first * n + second * m) / (n + m)
        return (first - second) / math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))

    cases = [(0.6, 1000, 0.5, 100), (0.6, 1000, 0.5, 110), (0.95, 60, 0.8, 30), (0.95, 60, 0.8, 40), (0.3, 40, 0.1, 30)]
    assert [decided(*case) for case in cases] == [z(*case) > 1.959964 for case in cases]
    assert {decided(*case) for case in cases[:2]} == {True, False}
    sure = rank_intervals_of_scores(table([1.0, 1.0, 0.0, math.nan], names="s", n=40), "s")
    assert [(each.model, each.rank, each.low, each.high) for each in sure] == [
        *(("m0", 1, 1, 2), ("m1", 1, 1, 2), ("m2", 3, 3, 3))
    ]
    with pytest.raises(Misuse, match="count behind every score"):
        rank_intervals_of_scores(table([0.5, 0.6], names="s", n=np.array([[10], [0]])), "s")


def test_scores_equal_up_to_rounding_share_a_place_and_the_count_told_is_the_least() -> None:
    made = table([0.3, 0.1 + 0.2, 0.9], names="s", n=np.array([[1000], [700], [900]]))
    found = ModelRank().of_table(made, ["s"])
    assert {name: (score.value, score.n) for name, score in found.items()} == {
        "m0": (2, 700),
        "m1": (2, 700),
        "m2": (1, 700),
    }
    some = replace(made, counts=np.array([[1], [1], [1]]))
    assert all(score.n == 1 and score.has_interval for score in ModelRank().of_table(some, ["s"]).values())
    some = replace(made, counts=np.array([[1000], [0], [900]]))
    assert not any(score.has_interval for score in ModelRank().of_table(some, ["s"]).values())


class Answers(NamedTuple):
    """The answers of a model to samples."""

    ids: tuple[str, ...]
    predictions: Floats
    labels: NDArray[np.int64]


def test_a_rank_as_a_score_lies_between_its_bounds() -> None:
    """Of 40 samples in common a has 40 right, b 38 and c 20: c is surely last, a and b are not told apart."""
    ids, labels = tuple(f"s{i}" for i in range(41)), np.zeros(41, dtype=np.int64)

    def answers(wrong: int, n: int = 40) -> Answers:
        return Answers(ids[:n], (np.arange(n) < wrong).astype(np.float64), labels[:n])

    found = ModelRank().of_predictions({"c": answers(20), "a": answers(0, 41), "b": answers(2)})
    a, b, c = Score(1, 1, 2, 40), Score(2, 1, 2, 40), Score(3, 3, 3, 40)
    assert found == {"a": a, "b": b, "c": c}
    assert ModelRank().of_table(table([1.0, 0.95, 0.5], names="s", n=40), ["s"]) == {"m0": a, "m1": b, "m2": c}


def test_rates_and_limits_are_of_straight_lines_and_groups_of_one_have_no_deviation() -> None:
    for measure in (conversion_rate, upper_limit):
        for line in (fit(table(X, Y), "y", "x"), fit(table(X, W, Y, names="xwy"), "y", ("x", "w"), space="linear")):
            with pytest.raises(Misuse, match="belongs to a line through raw accuracies"):
                measure(line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, none = by_group(np.array([0.5, math.nan]), ["p", "q"])
    assert (one.mean, math.isnan(one.deviation), one.n) == (0.5, True, 1)
    assert (math.isnan(none.mean), math.isnan(none.deviation), none.n) == (True, True, 0)


# boxes and boards


def test_a_box_of_losses_by_hand() -> None:
    """Losses 0.1, 0.2, 0.3, 0.4 and 0.8: quartiles 0.2, 0.3, 0.4, a fence of 0.3 around them."""
    losses = np.array([0.2, 0.1, 0.8, 0.4, 0.3])
    made = table(np.append(np.full(5, 0.9), 0.5), np.append(0.9 - losses, math.nan), names="rs")
    box = loss_box(made, "s", "r")
    assert box is not None
    assert (box.shift, box.reference, box.n) == ("s", "r", 5)
    found = (box.mean, box.low, box.first, box.median, box.third, box.high)
    assert found == pytest.approx((0.36, 0.1, 0.2, 0.3, 0.4, 0.4))
    assert [(each.model, each.loss) for each in box.outliers] == [("m2", pytest.approx(0.8))]
    assert loss_box(table([math.nan], [0.5], names="rs"), "s", "r") is None
    low = loss_box(table(np.full(6, 0.9), 0.9 - np.array([0.5, 0.52, 0.54, 0.56, 0.1, 0.9]), names="rs"), "s", "r")
    assert low is not None
    assert [each.model for each in low.outliers] == ["m5", "m4"], "the largest loss first"
    assert (low.low, low.high) == pytest.approx((0.5, 0.56))


def test_the_mean_of_one_entry_has_no_deviation_and_asks_numpy_for_none() -> None:
    entry = BoardEntry("m", "published", {"right": BoardCell(Score(0.2, math.nan, math.nan, 0), 1, 1, "")}, {})
    column = Column("right")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = column_mean(Board("s", "S", (column,), "right", (entry,)), column)
        nothing = column_mean(Board("s", "S", (column,), "right", ()), column)
    assert (alone.mean, math.isnan(alone.deviation), alone.n) == (0.2, True, 1)
    assert (math.isnan(nothing.mean), math.isnan(nothing.deviation), nothing.n) == (True, True, 0)
