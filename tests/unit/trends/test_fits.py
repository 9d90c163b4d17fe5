"""Fit sets, cuts, zero policies: nothing that moves a number happens unseen."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.table import Table, table
from holdfast.trends.column_fits import column_bands, column_refits, fit_columns
from holdfast.trends.fits import Cut, LeftOut, fit, kendall, pearson
from holdfast.trends.piecewise import Piecewise, fit_trend
from holdfast.trends.robustness import (
    by_group,
    conversion_rate,
    effective_robustness,
    linear_effective_robustness,
    relative_robustness,
    same_ranking,
    upper_limit,
)
from holdfast.trends.spaces import LOGIT, space_of


def small(values: dict[str, tuple[float, ...]], settings: str = "xy", count: int = 0) -> Table:
    cells = {(name, s): v for name, row in values.items() for s, v in zip(settings, row, strict=True)}
    return table(cells, counts=dict.fromkeys(cells, count))


LINE = {"a": (0.2, 0.1), "b": (0.4, 0.2), "c": (0.6, 0.3), "d": (0.8, 0.4)}


def test_models_left_out_are_named_with_the_reason() -> None:
    made = small(LINE | {"e": (0.9, float("nan")), "f": (0.03, 0.9)})
    line = fit(made, "y", "x", space="linear", cuts=[Cut(("x",), 0.05)])
    assert line.slope == pytest.approx(0.5)
    assert line.points.left_out == (LeftOut("e", "no score under y"), LeftOut("f", "not x ≥ 0.05"))
    assert line.n == 4
    assert line.record()["n"] == 4


def test_a_cut_may_be_on_a_sum_and_keeps_what_reaches_it_exactly() -> None:
    made = small({"a": (0.8, 0.3, 0.1), "b": (0.7, 0.5, 0.2), "c": (0.6, 0.1, 0.9), "d": (0.9, 0.6, 0.4)}, "arz")
    line = fit(made, "z", "a", space="linear", cuts=[Cut(("a", "r"), 1.10)])
    assert line.points.models == ("a", "b", "d")
    columns = fit_columns(made, "a", settings=["z"], space="linear", cuts=[Cut(("a", "r"), 1.10)])
    assert (columns.slope[0], columns.n[0]) == pytest.approx((line.slope, 3))


def test_a_score_of_zero_is_an_error_until_a_policy_is_chosen() -> None:
    made = small(LINE | {"z": (0.5, 0.0)})
    with pytest.raises(Misuse, match=r"exactly 0 or 1.*`z` first") as caught:
        fit(made, "y", "x")
    assert "drop, clip or piecewise" in str(caught.value)
    assert fit(made, "y", "x", space="linear").n == 5
    with pytest.raises(Misuse, match="exactly 0 or 1"):
        fit_columns(made, "x")


def test_drop_leaves_the_model_out_and_says_so() -> None:
    made = small(LINE | {"z": (0.5, 0.0)})
    line = fit(made, "y", "x", zero="drop")
    assert line.slope == pytest.approx(fit(made, "y", "x", models="abcd").slope)
    assert line.points.left_out == (LeftOut("z", "a score of exactly 0 or 1"),)
    assert effective_robustness(line, made)[-1] == pytest.approx(-line.expected(np.array([0.5]))[0])
    columns = fit_columns(made, "x", settings=["y"], zero="drop")
    assert (columns.slope[0], columns.at_edge[0], columns.n[0]) == pytest.approx((line.slope, 1, 4))


def test_clip_moves_the_score_by_half_a_sample_or_as_far_as_told() -> None:
    made = small(LINE | {"z": (0.5, 0.0)}, count=100)
    by_count, told = fit(made, "y", "x", zero="clip"), fit(made, "y", "x", zero="clip", clip_at=0.005)
    assert by_count.points.y[-1] == 0.005
    assert by_count.points.clipped == ("z",)
    assert by_count.slope == pytest.approx(told.slope)
    assert fit_columns(made, "x", settings=["y"], zero="clip").slope[0] == pytest.approx(told.slope)
    uncounted = small(LINE | {"z": (0.5, 0.0)})
    with pytest.raises(Misuse, match="no count to clip by"):
        fit(uncounted, "y", "x", zero="clip")
    with pytest.raises(Misuse, match="no count to clip by"):
        fit_columns(uncounted, "x", zero="clip")
    with pytest.raises(Misuse, match="between 0 and 1/2"):
        fit(uncounted, "y", "x", zero="clip", clip_at=0.7)


def test_piecewise_fits_each_side_and_leaves_the_pivot_in_neither() -> None:
    left = {
        f"l{i}": (x, float(LOGIT.inverse(np.array(0.5 * LOGIT.forward(np.array(x)) - 3))))
        for i, x in enumerate((0.1, 0.2, 0.3))
    }
    right = {
        f"r{i}": (x, float(LOGIT.inverse(np.array(2 * LOGIT.forward(np.array(x)) - 4))))
        for i, x in enumerate((0.6, 0.7, 0.9))
    }
    made = small(left | {"pivot": (0.5, 0.0)} | right)
    line = fit_trend(made, "y", "x", zero="piecewise")
    assert isinstance(line, Piecewise)
    assert (line.left.slope, line.left.intercept) == pytest.approx((0.5, -3))
    assert (line.right.slope, line.right.intercept) == pytest.approx((2, -4))
    assert (line.pivot, line.pivot_models, line.n) == (0.5, ("pivot",), 6)
    at_pivot = line.expected(np.array([0.5, 0.5000001, np.nan]))
    assert at_pivot[:2] == pytest.approx([LOGIT.inverse(np.array(-3.0)), LOGIT.inverse(np.array(-4.0))], abs=1e-6)
    assert np.isnan(at_pivot[2])
    assert line.left.points.left_out == (LeftOut("pivot", "at the pivot of a piecewise fit"),)
    assert line.record()["pivot"] == 0.5


def test_piecewise_is_a_plain_line_without_zeros_and_refuses_several() -> None:
    made = small(LINE)
    assert fit_trend(made, "y", "x", zero="piecewise").expected(np.array([0.5])) == pytest.approx(
        fit(made, "y", "x").expected(np.array([0.5]))
    )
    with pytest.raises(Misuse, match="splits where one model scores exactly 0"):
        fit_trend(small(LINE | {"y": (0.3, 0.0), "z": (0.5, 0.0)}), "y", "x", zero="piecewise")
    with pytest.raises(Misuse, match="no pivot"):
        fit_trend(small({k: (*v, 0.0) for k, v in LINE.items()}, "xyz"), "z", ("x", "y"), zero="piecewise")
    with pytest.raises(Misuse, match="no policy for one fit"):
        fit(small(LINE | {"z": (0.5, 0.0)}), "y", "x", zero="piecewise")  # type: ignore[arg-type]


def test_percentages_are_refused() -> None:
    with pytest.raises(Misuse, match=r"fractions in \[0, 1\], got \[10, 60\]"):
        fit(small({"a": (20, 10), "b": (30, 40), "c": (50, 60)}), "y", "x")


def test_too_few_models_or_no_variation_is_an_error() -> None:
    with pytest.raises(HoldfastError, match=r"a line of .* needs 2 models, got 1"):
        fit(small({"a": (0.2, 0.1), "b": (0.3, float("nan"))}), "y", "x")
    with pytest.raises(HoldfastError, match="do not vary independently"):
        fit(small({"a": (0.2, 0.1), "b": (0.2, 0.3), "c": (0.2, 0.2)}), "y", "x")
    twice = small({k: (v[0], v[0], v[1]) for k, v in LINE.items()}, "xwy")
    with pytest.raises(HoldfastError, match="do not vary independently"):
        fit(twice, "y", ("x", "w"))
    with pytest.raises(Misuse, match="no space named `logits`"):
        space_of("logits")
    with pytest.raises(Misuse, match="has no slope"):
        _ = fit(small({"a": (0.2, 0.4, 0.1), "b": (0.3, 0.3, 0.3), "c": (0.5, 0.6, 0.2)}, "xwy"), "y", ("x", "w")).slope


def test_accuracy_beyond_a_straight_line_is_effective_robustness_in_points() -> None:
    made = small(
        {"a": (0.80, 0.50, 0.40, 0.30), "b": (0.90, 0.60, 0.45, 0.35), "weak": (0.50, 0.20, 0.90, 0.05)}, "argh"
    )
    line, beyond = linear_effective_robustness(made, y="h", x="r", overall=("a", "r"))
    assert line.points.models == ("a", "b")
    assert beyond == pytest.approx([0, 0, 0.05 - 0.15])
    assert conversion_rate(line) == pytest.approx(0.5)
    assert upper_limit(line) == pytest.approx(0.55)
    with pytest.raises(Misuse, match="belongs to a line through raw accuracies"):
        upper_limit(fit(made, "h", "r", models="ab"))


def test_relative_robustness_is_against_the_models_own_baseline() -> None:
    made = small(LINE)
    assert relative_robustness(made, "y", {"c": "a", "d": "b"}) == pytest.approx({"c": 0.2, "d": 0.2})
    with pytest.raises(Misuse, match="no model named"):
        relative_robustness(made, "y", {"c": "nobody"})


def test_groups_have_a_mean_a_deviation_and_a_count() -> None:
    one, other = by_group(np.array([0.1, 0.3, np.nan, 0.5]), ["p", "p", "p", "q"])
    assert (one.name, one.mean, one.deviation, one.n) == ("p", pytest.approx(0.2), pytest.approx(0.1414, abs=1e-4), 2)
    assert (other.mean, other.n) == (0.5, 1)
    assert np.isnan(other.deviation)
    assert same_ranking(np.array([1.0, 2, 3, np.nan]), np.array([3.0, 2, 1, 5])) == pytest.approx(-1)


def test_correlations_need_two_values_that_vary() -> None:
    assert np.isnan(pearson(np.array([1.0]), np.array([1.0])))
    assert np.isnan(pearson(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
    assert np.isnan(kendall(np.array([1.0]), np.array([1.0])))


def test_bands_of_all_columns_come_from_the_same_draws_and_hold_the_slope() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0.2, 0.8, 40)
    y = np.clip(0.9 * x[:, None] + random.normal(0, 0.02, (40, 3)), 0.01, 0.99)
    made = Table(tuple(map(str, range(40))), tuple("xabc"), np.column_stack([x, y]), np.zeros((40, 4), np.int64))
    bounds, fits = (f(made, "x", settings="abc", space="linear") for f in (column_bands, fit_columns))
    assert ((bounds.slope_low < fits.slope) & (fits.slope < bounds.slope_high)).all()
    assert ((bounds.intercept_low < fits.intercept) & (fits.intercept < bounds.intercept_high)).all()
    assert column_refits(made, "x", settings="abc", space="linear", draws=7).slope.shape == (7, 3)
    with pytest.raises(Misuse, match="no setting named `aa`"):
        fit_columns(made, "x", settings=["aa"])
    with pytest.raises(Misuse, match="no policy for many settings"):
        fit_columns(made, "x", zero="piecewise")  # type: ignore[arg-type]
