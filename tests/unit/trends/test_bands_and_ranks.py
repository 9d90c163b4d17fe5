"""Intervals of lines, limits, placements and ranks."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.core.errors import Misuse
from holdfast.core.table import Table
from holdfast.metrics.bootstrap_draws import percentiles
from holdfast.trends.bands import (
    band,
    conversion_rate_score,
    effective_robustness_scores,
    refits,
    upper_limit_score,
)
from holdfast.trends.column_fits import column_bands
from holdfast.trends.fits import fit
from holdfast.trends.matrices import KINDS, Shift, r2_by_threshold, r2_matrix
from holdfast.trends.piecewise import Piecewise, fit_trend
from holdfast.trends.placing import mean_absolute_error, placements, prediction_interval
from holdfast.trends.ranks import rank_intervals, rank_intervals_of_scores
from holdfast.trends.testbed import SettingPair, robustness_correlations


def scattered(models: int = 40, *, noise: float = 0.02, count: int = 2000, seed: int = 0) -> Table:
    random = np.random.default_rng(seed)
    x = random.uniform(0.3, 0.9, models)
    y = np.clip(0.7 * x + 0.05 + random.normal(0, noise, models), 0.01, 0.99)
    return Table(
        tuple(f"m{i}" for i in range(models)), ("x", "y"), np.column_stack([x, y]), np.full((models, 2), count)
    )


def test_more_samples_narrow_the_band_over_samples_but_not_that_over_models() -> None:
    few, many = (fit(scattered(count=n), "y", "x") for n in (200, 20_000))
    at = np.array([0.6])
    widths = {
        (name, over): float(np.ptp([around.low, around.high]))
        for name, line in (("few", few), ("many", many))
        for over in ("models", "samples", "both")
        for around in [band(line, at, over=over)]  # type: ignore[arg-type]
    }
    assert widths["few", "models"] == widths["many", "models"]
    # the scatter of a share falls with the root of the count: 10 times here
    assert widths["few", "samples"] / widths["many", "samples"] == pytest.approx(10, rel=0.2)
    assert widths["few", "both"] > widths["few", "models"]


def test_refits_are_the_same_for_the_same_seed_and_need_counts_for_samples() -> None:
    line = fit(scattered(), "y", "x")
    np.testing.assert_array_equal(refits(line, draws=5), refits(line, draws=5))
    assert not np.array_equal(refits(line, draws=5), refits(line, draws=5, seed=1))
    uncounted = fit(scattered(count=0), "y", "x")
    with pytest.raises(Misuse, match="needs the count behind every score"):
        refits(uncounted, over="samples")
    with pytest.raises(Misuse, match="models, samples or both"):
        refits(line, over="images")  # type: ignore[arg-type]


def test_draws_without_a_value_are_not_counted() -> None:
    drawn = np.array([[1.0, np.nan, 5], [2, np.nan, np.inf], [3, np.nan, 5]])
    low, high = percentiles(drawn, confidence=1.0)
    np.testing.assert_array_equal(low, [1, np.nan, 5])
    np.testing.assert_array_equal(high, [3, np.nan, 5])
    constant = Table(
        tuple("abcd"),
        ("x", "y"),
        np.column_stack([np.full(4, 0.5), np.linspace(0.2, 0.8, 4)]),
        np.zeros((4, 2), np.int64),
    )
    assert np.isnan(column_bands(constant, "x", draws=20).slope_low).all()


def test_a_plane_has_a_band_too() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0.3, 0.8, (30, 2))
    y = np.clip(x @ np.array([0.5, 0.3]) + random.normal(0, 0.01, 30), 0.01, 0.99)
    made = Table(tuple(map(str, range(30))), tuple("aby"), np.column_stack([x, y]), np.full((30, 3), 1000))
    plane = fit(made, "y", ("a", "b"))
    around = band(plane, np.array([[0.5, 0.5], [0.4, 0.7]]), over="both", draws=200)
    assert ((around.low < around.expected) & (around.expected < around.high)).all()
    with pytest.raises(Misuse, match="the fit has 2 inputs"):
        plane.expected(np.array([0.5, 0.5, 0.1]))


def test_a_piecewise_line_has_the_band_and_interval_of_its_side() -> None:
    made = scattered()
    at_zero = Table((*made.models, "z"), made.settings, np.vstack([made.values, [0.6, 0.0]]), np.full((41, 2), 2000))
    line = fit_trend(at_zero, "y", "x", zero="piecewise")
    assert isinstance(line, Piecewise)
    at = np.array([0.4, 0.8])
    around, one, other = (
        band(line, at, draws=50),
        band(line.left, at, draws=50),
        band(line.right, at, draws=50, seed=10),
    )
    assert (around.low[0], around.high[1]) == (one.low[0], other.high[1])
    inner = prediction_interval(line, at)
    assert inner.low[0] == prediction_interval(line.left, at).low[0]
    assert inner.high[1] == prediction_interval(line.right, at).high[1]
    assert len(placements(line, at_zero)) == 41


def test_a_line_through_two_models_promises_nothing_of_a_third() -> None:
    made = scattered(3)
    line = fit(made, "y", "x", models=made.models[:2])
    placed = placements(line, made)[2]
    assert (placed.expected.low, placed.expected.high, placed.is_unusual) == (0, 1, False)
    assert not placed.was_fitted


def test_placements_cover_models_outside_the_fit_and_skip_those_without_scores() -> None:
    made = scattered()
    made.values[5, 1] = np.nan
    made.values[7, 1] += 0.3
    line = fit(made, "y", "x", models=[name for name in made.models if name not in ("m5", "m7")])
    placed = {each.model: each for each in placements(line, made)}
    assert "m5" not in placed
    assert placed["m7"].is_unusual
    assert placed["m7"].record()["beyond"] == pytest.approx(placed["m7"].score - placed["m7"].expected.value)
    assert [each.model for each in placements(line, made, models=["m7"])] == ["m7"]
    assert mean_absolute_error([placed["m7"]]) == pytest.approx(placed["m7"].beyond)
    assert np.isnan(mean_absolute_error([]))


def test_limits_and_rates_have_intervals() -> None:
    line = fit(scattered(), "y", "x", space="linear")
    rate, limit = conversion_rate_score(line), upper_limit_score(line)
    assert rate.low < 0.7 < rate.high
    assert limit.low < 0.75 < limit.high
    assert (rate.n, rate.value, limit.value) == (40, line.slope, line.slope + line.intercept)


def test_effective_robustness_of_a_model_without_counts_carries_the_line_alone() -> None:
    made = scattered()
    line = fit(made, "y", "x")
    made.counts[0] = 0
    scores = effective_robustness_scores(line, made)
    assert scores["m0"].high - scores["m0"].low < scores["m1"].high - scores["m1"].low
    assert (scores["m0"].n, scores["m1"].n) == (0, 2000)


def test_the_r2_matrix_knows_what_explains_what() -> None:
    random = np.random.default_rng(0)
    accuracy, robustness = random.uniform(0.5, 0.95, 200), random.uniform(0.2, 0.6, 200)
    values = np.column_stack([accuracy, robustness, 0.8 * accuracy, 0.5 * robustness + 0.1])
    made = Table(tuple(map(str, range(200))), ("acc", "rob", "s-acc", "s-rob"), values, np.zeros((200, 4), np.int64))
    shifts = (Shift("s", "s-acc", "s-rob"), Shift("t", "s-acc", None))
    found = r2_matrix(made, shifts, accuracy="acc", robustness="rob")
    assert found.kinds == KINDS
    assert found.values[:2, 0] == pytest.approx([1, 1])
    assert (found.values[2:, 0] < 0.05).all()
    assert np.isnan(found.values[[1, 2], 1]).all()
    assert found.n[:, 1].tolist() == [200, 0, 0, 200]
    assert len(found.record()) == 8
    by = r2_by_threshold(made, shifts, (None, 1.1, 1.3), accuracy="acc", robustness="rob")
    counts = [int(each.n[0, 0]) for each in by.values()]
    assert counts == [200, int((accuracy + robustness >= 1.1).sum()), int((accuracy + robustness >= 1.3).sum())]
    made.values[0, 2] = 0
    with pytest.raises(Misuse, match="2 scores of Acc-Acc are exactly 0 or 1"):
        r2_matrix(made, shifts, accuracy="acc", robustness="rob", space="logit")


def test_correlations_are_over_models_the_lines_have_not_seen() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0.3, 0.9, 60)
    beyond = np.where(np.arange(60) < 30, 0, random.normal(0, 0.05, 60))
    values = np.clip(np.column_stack([x, 0.8 * x + beyond, 0.6 * x + 0.5 * beyond]), 0.01, 0.99)
    made = Table(tuple(f"m{i}" for i in range(60)), ("x", "s", "n"), values, np.zeros((60, 3), np.int64))
    found = robustness_correlations(
        made,
        {"s": SettingPair("s", "x")},
        {"n": SettingPair("n", "x")},
        fitted_on=made.models[:30],
        compared=lambda name: int(name[1:]) >= 30,
        space="linear",
        draws=50,
    )
    assert found.values[0, 0] > 0.99
    assert found.n.tolist() == [[30]]
    assert found.low[0, 0] <= found.values[0, 0] <= found.high[0, 0]


def test_shared_mistakes_do_not_blur_a_ranking() -> None:
    random = np.random.default_rng(0)
    hard = random.random(2000) < 0.4
    better = ~hard
    worse = better & (random.random(2000) > 0.01)
    together = rank_intervals(["worse", "better"], np.stack([worse, better]))
    assert [(each.model, each.rank, each.low, each.high) for each in together] == [
        ("better", 1, 1, 1),
        ("worse", 2, 2, 2),
    ]
    values = np.array([[worse.mean()], [better.mean()]])
    apart = rank_intervals_of_scores(Table(("worse", "better"), ("s",), values, np.full((2, 1), 2000)), "s")
    assert [(each.low, each.high) for each in apart] == [(1, 2), (1, 2)]
    with pytest.raises(Misuse, match=r"answers are \(models, samples\)"):
        rank_intervals(["a"], np.ones((2, 3), dtype=bool))
