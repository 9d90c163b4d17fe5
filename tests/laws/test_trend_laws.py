"""What holds for every line, plane, band and rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import linregress

from holdfast.core.table import Table
from holdfast.metrics.bootstrap_draws import draw_counts
from holdfast.trends.bands import band, effective_robustness_scores
from holdfast.trends.bootstrap import fit_lines, fit_planes
from holdfast.trends.column_fits import fit_columns
from holdfast.trends.fits import fit
from holdfast.trends.matrices import Shift, r2_matrix
from holdfast.trends.placing import placements, prediction_interval
from holdfast.trends.ranks import rank_intervals
from holdfast.trends.robustness import effective_robustness, linear_effective_robustness, upper_limit
from holdfast.trends.spaces import SPACES, space_of

SPACE = st.sampled_from(sorted(SPACES))
SEED = st.integers(0, 2**31)


def drawn_table(seed: int, *, models: int = 24, settings: int = 4, count: int = 500) -> Table:
    """Accuracies well inside (0, 1)."""
    random = np.random.default_rng(seed)
    values = random.uniform(0.05, 0.95, (models, settings))
    names = tuple(f"m{i}" for i in range(models))
    return Table(names, tuple("abcdefgh"[:settings]), values, np.full(values.shape, count))


def on_a_line(seed: int, space: str, slope: float, intercept: float, models: int = 12) -> Table:
    """Accuracies exactly on a line of the space."""
    chosen = space_of(space)
    x = np.random.default_rng(seed).uniform(0.1, 0.9, models)
    y = np.clip(chosen.inverse(slope * chosen.forward(x) + intercept), 0, 1)
    names = tuple(f"m{i}" for i in range(models))
    return Table(names, ("x", "y"), np.column_stack([x, y]), np.zeros((models, 2), dtype=np.int64))


@given(seed=SEED, space=SPACE, order=st.randoms(use_true_random=False))
def test_the_order_of_models_changes_nothing(seed: int, space: str, order) -> None:
    made = drawn_table(seed)
    shuffled = list(made.models)
    order.shuffle(shuffled)
    one, other = (fit(each, "c", ("a", "b"), space=space) for each in (made, made.of(shuffled)))
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-10)
    for name in ("intercept", "r2", "r2_accuracy", "mae", "kendall", "spread"):
        # sums in another order differ in the last digits
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9)
    again = dict(zip(shuffled, effective_robustness(other, made.of(shuffled)), strict=True))
    np.testing.assert_allclose(effective_robustness(one, made), [again[name] for name in made.models], atol=1e-10)


@given(seed=SEED, space=SPACE, slope=st.floats(0.3, 1.5), intercept=st.floats(-0.3, 0.1))
def test_a_perfect_line_is_recovered_and_leaves_no_effective_robustness(
    seed: int, space: str, slope: float, intercept: float
) -> None:
    made = on_a_line(seed, space, slope, intercept)
    assume(((made.values > 0.001) & (made.values < 0.999)).all())
    line = fit(made, "y", "x", space=space)
    assert line.slope == pytest.approx(slope, abs=1e-8)
    assert line.intercept == pytest.approx(intercept, abs=1e-8)
    assert line.r2 == pytest.approx(1, abs=1e-9)
    assert line.r2_accuracy == pytest.approx(1, abs=1e-9)
    assert line.pearson == pytest.approx(1, abs=1e-9)
    assert line.kendall == pytest.approx(1)
    np.testing.assert_allclose(effective_robustness(line, made), 0, atol=1e-9)
    around = band(line, np.array([0.3, 0.6]), draws=30)
    np.testing.assert_allclose(around.low, around.high, atol=1e-7)


@given(seed=SEED, space=SPACE, weights=st.tuples(st.floats(0.2, 0.7), st.floats(0.2, 0.7)), shift=st.floats(-0.2, 0.05))
def test_a_perfect_plane_is_recovered(seed: int, space: str, weights: tuple[float, float], shift: float) -> None:
    chosen = space_of(space)
    x = np.random.default_rng(seed).uniform(0.3, 0.7, (15, 2))
    y = chosen.inverse(chosen.forward(x) @ np.array(weights) + shift)
    assume(((y > 0.01) & (y < 0.99)).all())
    table = Table(tuple(map(str, range(15))), ("a", "b", "y"), np.column_stack([x, y]), np.zeros((15, 3), np.int64))
    plane = fit(table, "y", ("a", "b"), space=space)
    np.testing.assert_allclose(plane.weights, weights, atol=1e-7)
    assert plane.intercept == pytest.approx(shift, abs=1e-7)
    np.testing.assert_allclose(effective_robustness(plane, table), 0, atol=1e-8)


@given(seed=SEED, space=SPACE)
def test_a_line_is_that_of_scipy(seed: int, space: str) -> None:
    made, chosen = drawn_table(seed), space_of(space)
    line = fit(made, "b", "a", space=space)
    other = linregress(chosen.forward(made.column("a")), chosen.forward(made.column("b")))
    assert (line.slope, line.intercept) == pytest.approx((other.slope, other.intercept), abs=1e-9)
    assert line.pearson == pytest.approx(other.rvalue, abs=1e-9)
    assert line.r2 == pytest.approx(other.rvalue**2, abs=1e-9)


@given(seed=SEED, space=SPACE, missing=st.integers(0, 8))
def test_many_columns_at_once_are_the_same_as_one_by_one(seed: int, space: str, missing: int) -> None:
    made = drawn_table(seed)
    holes = np.random.default_rng(seed + 1).integers(0, len(made.models), missing)
    made.values[holes, 2] = np.nan
    together = fit_columns(made, "a", space=space)
    for j, name in enumerate(made.settings[1:], start=1):
        alone = fit(made, name, "a", space=space)
        found = [getattr(together, field)[j] for field in ("slope", "intercept", "r2", "r2_accuracy", "mae", "n")]
        expected = [alone.slope, alone.intercept, alone.r2, alone.r2_accuracy, alone.mae, alone.n]
        np.testing.assert_allclose(found, expected, atol=1e-9)


@given(seed=SEED, space=SPACE)
def test_a_refit_is_the_fit_of_the_models_drawn(seed: int, space: str) -> None:
    made, chosen = drawn_table(seed, models=10), space_of(space)
    x, y = chosen.forward(made.column("a")), chosen.forward(made.column("b"))
    weights = draw_counts(10, 20, seed=seed)
    assert (weights.sum(axis=1) == 10).all()
    by_products, by_equations = fit_lines(x, y, weights), fit_planes(x[:, None], y, weights)
    for d, row in enumerate(weights.astype(int)):
        drawn = np.repeat(np.arange(10), row)
        if len(set(drawn)) < 4:
            continue
        slope, intercept = np.polyfit(x[drawn], y[drawn], 1)
        assert (by_products.slope[d, 0], by_products.intercept[d, 0]) == pytest.approx((slope, intercept), abs=1e-7)
        assert tuple(by_equations[d]) == pytest.approx((slope, intercept), abs=1e-7)


@given(seed=SEED, space=SPACE, at=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5))
def test_bands_and_prediction_intervals_hold_the_line_and_stay_in_range(seed: int, space: str, at: list[float]) -> None:
    made = drawn_table(seed)
    line = fit(made, "b", "a", space=space)
    points = np.array(at)
    low, high = prediction_interval(line, points)
    expected = line.expected(points)
    assert (low <= expected).all()
    assert (expected <= high).all()
    wider = prediction_interval(line, points, confidence=0.99)
    assert (wider.low <= low).all()
    assert (wider.high >= high).all()
    if space != "linear":
        assert ((low >= 0) & (high <= 1)).all()
        around = band(line, points, draws=50)
        assert ((around.low >= 0) & (around.high <= 1) & (around.low <= around.high)).all()


@given(seed=SEED, space=SPACE)
def test_effective_robustness_of_the_fit_set_has_mean_zero_in_its_own_space(seed: int, space: str) -> None:
    made, chosen = drawn_table(seed), space_of(space)
    line = fit(made, "b", "a", space=space)
    beyond = chosen.forward(made.column("b")) - chosen.forward(line.expected(made.column("a")))
    assert beyond.mean() == pytest.approx(0, abs=1e-9)
    found = effective_robustness(line, made)
    if space != "linear":
        assert (np.abs(found) <= 1).all()
    scores = effective_robustness_scores(line, made, draws=40)
    assert [scores[name].value for name in made.models] == pytest.approx(found.tolist())
    assert all(score.low <= score.high for score in scores.values())


@given(seed=SEED)
def test_r2_lies_between_0_and_1_and_does_not_mind_affine_changes(seed: int) -> None:
    made = drawn_table(seed)
    shifts = (Shift("s", "c", "d"),)
    found = r2_matrix(made, shifts, accuracy="a", robustness="b")
    moved = Table(made.models, made.settings, 0.1 + 0.5 * made.values, made.counts)
    again = r2_matrix(moved, shifts, accuracy="a", robustness="b")
    assert ((found.values >= 0) & (found.values <= 1)).all()
    assert ((found.low >= 0) & (found.high <= 1) & (found.low <= found.high)).all()
    np.testing.assert_allclose(found.values, again.values, atol=1e-9)


@given(seed=SEED, slope=st.floats(0.1, 3), intercept=st.floats(-1, 1))
def test_the_upper_limit_is_a_share(seed: int, slope: float, intercept: float) -> None:
    x = np.random.default_rng(seed).uniform(0.4, 0.6, 8)
    y = np.clip(slope * x + intercept, 0, 1)
    table = Table(tuple(map(str, range(8))), ("x", "y"), np.column_stack([x, y]), np.zeros((8, 2), np.int64))
    line, beyond = linear_effective_robustness(table, y="y", x="x")
    assert 0 <= upper_limit(line) <= 1
    assert beyond.mean() == pytest.approx(0, abs=1e-9)


@given(seed=SEED, models=st.integers(1, 12), samples=st.integers(1, 60))
def test_ranks_are_places_inside_their_intervals(seed: int, models: int, samples: int) -> None:
    correct = np.random.default_rng(seed).random((models, samples)) < 0.6
    names = [f"m{i}" for i in range(models)]
    found = rank_intervals(names, correct)
    assert sorted(each.model for each in found) == sorted(names)
    for each in found:
        assert 1 <= each.low <= each.rank <= each.high <= models
        assert each.rank == 1 + sum(other.score > each.score for other in found)
    again = {each.model: each for each in rank_intervals(names[::-1], correct[::-1])}
    assert [again[each.model] for each in found] == list(found)


@given(seed=SEED, space=SPACE)
def test_a_placement_says_unusual_exactly_when_the_score_is_outside(seed: int, space: str) -> None:
    made = drawn_table(seed)
    line = fit(made, "b", "a", space=space, models=made.models[:12])
    for each in placements(line, made):
        assert each.is_unusual == (not each.expected.low <= each.score <= each.expected.high)
        assert each.beyond == pytest.approx(each.score - each.expected.value)
        assert each.was_fitted == (each.model in made.models[:12])
