"""Lines, ranks and groups of models small enough to work out: degrees of freedom, bounds of chance, places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from holdfast.core.table import Table
from holdfast.trends.fits import Cut, cautions, correlation, explained, fit, near_zero, pearson
from holdfast.trends.matrices import matrix
from holdfast.trends.piecewise import Piecewise, fit_trend
from holdfast.trends.ranks import ModelRank, rank_intervals, rank_intervals_of_scores, step_limits
from holdfast.trends.robustness import by_group, linear_effective_robustness, upper_limit

X = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
Y = np.array([0.2, 0.3, 0.6, 0.6, 0.8])


def table(*columns: np.ndarray, names: tuple[str, ...] = ("x", "y"), n: int = 0) -> Table:
    values = np.stack(columns, axis=1)
    return Table(tuple(f"m{i}" for i in range(len(values))), names, values, np.full(values.shape, n))


def test_a_line_of_five_models_by_the_textbook() -> None:
    line = fit(table(X, Y), "y", "x", space="linear")
    # slope = Σ dx dy / Σ dx² = 0.3 / 0.4, through (0.5, 0.5)
    assert (line.slope, line.intercept) == pytest.approx((0.75, 0.125))
    residual = Y - (0.75 * X + 0.125)
    assert line.spread == pytest.approx(math.sqrt((residual**2).sum() / 3))  # two coefficients: 5 - 2 degrees
    assert line.r2 == line.r2_accuracy == pytest.approx(1 - (residual**2).sum() / ((Y - 0.5) ** 2).sum())
    assert line.mae == pytest.approx(np.abs(residual).mean())
    # the inverse of [[Σ x², Σ x], [Σ x, n]]
    assert line.precision == pytest.approx(np.linalg.inv([[1.65, 2.5], [2.5, 5]]))
    assert upper_limit(line) == pytest.approx(0.875)
    assert line.n == 5
    assert math.isnan(fit(table(X[:2], Y[:2]), "y", "x", space="linear").spread)
    plane = fit(
        table(X, np.array([0.5, 0.1, 0.4, 0.2, 0.6]), Y, names=("x", "w", "y")), "y", ("x", "w"), space="linear"
    )
    left = Y - plane.expected(np.stack([X, [0.5, 0.1, 0.4, 0.2, 0.6]], axis=1))
    assert plane.spread == pytest.approx(math.sqrt((left**2).sum() / 2))


def test_what_chance_explains_is_the_f_test_at_five_percent() -> None:
    for n, k in ((10, 1), (30, 1), (12, 2)):
        bound = near_zero(n, k)
        chance = stats.beta.isf(0.05, k / 2, (n - k - 1) / 2)  # R² of unrelated normal scores
        assert bound == pytest.approx(max(0.25, chance))
    assert near_zero(2) == 0.25
    assert cautions(10, 0.9) == ()
    assert len(cautions(9, 0.9)) == 1
    assert "may be chance" in cautions(10, 0.3)[0]
    assert "may be chance" not in cautions(100, 0.2)[0]
    assert len(cautions(9, 0.1)) == 2
    assert "not defined" in cautions(20, math.nan)[0]


def test_fishers_interval_by_hand() -> None:
    made = correlation(0.5, 28)
    assert (made.low, made.high) == pytest.approx(
        (math.tanh(math.atanh(0.5) - 1.959964 / 5), math.tanh(math.atanh(0.5) + 1.959964 / 5)), rel=1e-6
    )
    assert not correlation(0.5, 3).has_interval
    assert correlation(0.5, 4).has_interval
    assert not correlation(1.0, 9).has_interval
    falling = explained(correlation(-0.5, 28))
    assert (falling.value, falling.low, falling.high) == pytest.approx((0.25, made.low**2, made.high**2))


def test_two_models_correlate_fully_and_a_matrix_warns_by_r2_whatever_it_shows() -> None:
    assert pearson(np.array([0.0, 1.0]), np.array([0.5, 2.0])) == pytest.approx(1)
    for seed in range(20):
        both = table(*np.random.default_rng(seed).random((2, 30)) ** [[1], [2]])
        shown, squared = (matrix(both, ["x"], ["y"], measure=measure) for measure in ("pearson", "r2"))
        assert shown.values[0, 0] ** 2 == pytest.approx(squared.values[0, 0])
        assert shown.cautions(0, 0) == squared.cautions(0, 0)
    steep = table(np.linspace(0.1, 0.9, 30), np.linspace(0.9, 0.1, 30) ** 2)
    assert matrix(steep, ["x"], ["y"], measure="pearson").cautions(0, 0) == ()


def test_cuts_are_met_exactly_and_models_below_are_placed_only() -> None:
    assert fit(table(X, Y), "y", "x", space="linear", cuts=[Cut(("x",), 0.3)]).n == 4
    line, beyond = linear_effective_robustness(table(X, Y), y="y", x="x", overall=("x", "y"), least=0.6)
    assert line.n == 4
    assert beyond == pytest.approx(Y - (line.slope * X + line.intercept))
    assert linear_effective_robustness(table(X, Y), y="y", x="x", overall=("x", "y"))[0].n == 3  # 110 %


def test_a_pivot_is_in_neither_line_and_counts_to_the_left() -> None:
    x = np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9])
    y = np.array([0.1, 0.15, 0.3, 0.0, 0.4, 0.6, 0.65])
    line = fit_trend(table(x, y), "y", "x", zero="piecewise")
    assert isinstance(line, Piecewise)
    assert (line.left.n, line.right.n, line.n, line.pivot, line.pivot_models) == (3, 3, 6, 0.5, ("m3",))
    at = line.expected(np.array([0.5, 0.5001, math.nan]))
    assert at[0] == pytest.approx(float(line.left.expected(np.array([0.5]))[0]))
    assert at[1] == pytest.approx(float(line.right.expected(np.array([0.5001]))[0]))
    assert math.isnan(at[2])


def test_groups_have_the_deviation_of_a_sample() -> None:
    values = np.array([1.0, 3.0, 5.0, math.nan, 7.0])
    first, second = by_group(values, ["a", "a", "b", "a", "c"])[:2]
    assert first == ("a", 2.0, pytest.approx(math.sqrt(2)), 2)
    assert second[:2] == ("b", 5.0)
    assert math.isnan(second.deviation)


def test_places_of_two_models_are_decided_where_mcnemars_test_decides() -> None:
    """5 against 0 is the half of 2 in 32 cases, 4 against 0 that of 2 in 16."""
    for ahead, decided in ((5, True), (4, False)):
        one, other = np.ones(50, bool), np.ones(50, bool)
        other[:ahead] = False
        first, second = rank_intervals(("one", "other"), np.stack([one, other]))
        assert (first.model, first.rank, first.low) == ("one", 1, 1)
        assert (second.model, second.rank, second.high) == ("other", 2, 2)
        assert (first.high, second.low) == ((1, 2) if decided else (2, 1))


def test_places_share_out_the_confidence_over_pairs() -> None:
    """The better of two equals is ahead by 2.21 standard errors in 2.5 % of cases: by 6 and not by 5 against 0."""
    for ahead, decided in ((6, True), (5, False)):  # 2.42 and 2.15
        right = np.ones((3, 60), bool)
        right[1, :ahead] = False
        right[2, :ahead] = False
        best = rank_intervals(("a", "b", "c"), right)[0]
        assert (best.rank, best.high) == (1, 1 if decided else 3)
    # one surely worse: against the other alone 1.96 is enough, 2.15 but not 1.86
    for ahead, decided in ((5, True), (4, False)):
        right = np.ones((3, 60), bool)
        right[1, :ahead] = False
        right[2, :30] = False
        best = rank_intervals(("a", "b", "c"), right)[0]
        assert (best.rank, best.high) == (1, 1 if decided else 2)
    tied = rank_intervals(("b", "a"), np.ones((2, 5), bool))
    assert [(each.model, each.rank, each.low, each.high) for each in tied] == [("a", 1, 1, 2), ("b", 1, 1, 2)]


def test_limits_of_places_are_those_of_the_largest_of_equals() -> None:
    """Against the integral by another rule, and against draws: the steps are Dunnett's limits of ever fewer models."""
    for others in (1, 2, 9, 300):
        limits = step_limits(others, 0.025)
        assert (np.diff(limits) < 0).all()
        for left, limit in ((others, limits[0]), (1, limits[-1])):
            below, _ = integrate.quad(
                lambda u, left=left, c=limit: stats.norm.pdf(u) * stats.norm.cdf(math.sqrt(2) * c + u) ** left, -9, 9
            )
            assert below == pytest.approx(0.975, abs=1e-5)
    random = np.random.default_rng(0)
    ahead = (random.normal(size=(40_000, 9)) - random.normal(size=(40_000, 1))) / math.sqrt(2)
    assert (ahead.max(axis=1) > step_limits(9, 0.025)[0]).mean() == pytest.approx(0.025, abs=0.0024)  # three errors


def test_places_of_scores_pool_the_shares() -> None:
    def decided(first: float, second: float, n: int) -> bool:
        made = rank_intervals_of_scores(table(np.array([first, second]), names=("s",), n=n), "s")
        return made[0].high == 1

    def z(first: float, second: float, n: int) -> float:
        pooled = (first + second) / 2
        return (first - second) / math.sqrt(pooled * (1 - pooled) * 2 / n)

    for first, second in ((0.6, 0.48), (0.6, 0.46), (0.6, 0.45), (0.9, 0.82), (0.9, 0.80)):
        assert decided(first, second, 100) == (z(first, second, 100) > 1.959964)
    assert {decided(0.6, share, 100) for share in (0.48, 0.45)} == {True, False}


def test_a_table_without_counts_has_places_without_intervals() -> None:
    made = ModelRank().of_table(table(np.array([0.5, 0.9, math.nan, 0.5]), names=("s",)), ["s"])
    assert {name: score.value for name, score in made.items()} == {"m0": 2, "m1": 1, "m3": 2}
    assert not any(score.has_interval for score in made.values())
    counted = ModelRank().of_table(table(np.array([0.5, 0.9]), names=("s",), n=1000), ["s"])
    bounds = {name: (score.value, score.low, score.high, score.n) for name, score in counted.items()}
    assert bounds == {"m0": (2, 2, 2, 1000), "m1": (1, 1, 1, 1000)}
