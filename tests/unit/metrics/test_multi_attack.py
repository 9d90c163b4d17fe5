"""Competitiveness, stability, curves over radii."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.metrics.accuracy import worst_case
from holdfast.metrics.multi_attack import (
    CLEAN,
    Battery,
    Strength,
    battery,
    competitiveness,
    inside_outside,
    knowledge,
    mean_uar,
    single_competitiveness,
    threat_of,
    trained_strengths,
    uar,
)
from holdfast.metrics.radius_curves import (
    AreaUnderRadiusCurve,
    accuracies_at,
    common_radius,
    radius_curve,
)
from holdfast.metrics.stability import conditioned_stability, stability
from holdfast.metrics.unions import average_accuracy
from holdfast.store import Footer, Rows
from holdfast.store.footer import ChangeRecord

A1, A2, B1 = Strength("a", 1), Strength("a", 2), Strength("b", 1)
BEST = {CLEAN: 0.9, A1: 0.8, A2: 0.6, B1: 0.5}
CELLS = {CLEAN: 0.9, A1: 0.4, A2: 0.3, B1: 0.1}


def test_the_four_ratios_of_a_small_battery() -> None:
    made = competitiveness(battery(CELLS, BEST))
    assert made.average.value == pytest.approx((1 + 0.5 + 0.5 + 0.2) / 4)
    assert (made.individual_worst.value, made.worst) == (pytest.approx(0.2), B1)
    assert made.expected.value == pytest.approx(1.7 / 2.8)
    assert made.maximum.value == pytest.approx(0.2)
    assert math.isnan(made.average.low), "no counts, no interval"


def test_uar_leaves_the_clean_term_out_and_single_ratios_do_not() -> None:
    cells = battery(CELLS, BEST)
    assert uar(cells)["a"].value == pytest.approx(0.7 / 1.4)
    assert mean_uar(cells).value == pytest.approx((0.5 + 0.2) / 2)
    assert single_competitiveness(cells)["b"].average.value == pytest.approx((1 + 0.2) / 2)


def test_inside_and_outside_of_training_partition_the_battery() -> None:
    made = inside_outside(battery(CELLS, BEST), {"a": 1})
    assert made.inside is not None
    assert made.outside is not None
    assert made.inside.average.value == pytest.approx((1 + 0.5) / 2)
    assert made.outside.average.value == pytest.approx((0.5 + 0.2) / 2)
    assert inside_outside(battery(CELLS, BEST), {"a": 2, "b": 1}).outside is None


@pytest.mark.parametrize(("trained", "setting"), [({}, "none"), ({"a": 1}, "partial"), ({"a": 2, "b": 1}, "full")])
def test_knowledge_is_full_partial_or_none(trained: dict[str, float], setting: str) -> None:
    assert knowledge(BEST, trained).setting == setting


def test_a_card_tells_what_was_trained_on_by_threat() -> None:
    made = trained_strengths(("pgd-linf:radius=8/255", "fast-lpa:radius=1"), ["mm5-linf", "jpeg-linf", "lpa", "pgd-l2"])
    assert made == {"mm5-linf": 8 / 255, "lpa": 1.0}
    assert threat_of("stadv") == "stadv"
    with pytest.raises(Misuse, match="no radius"):
        trained_strengths(("pgd-linf",), ["pgd-linf"])


def test_percentages_are_refused() -> None:
    with pytest.raises(Misuse, match="fractions"):
        battery({CLEAN: 90.0}, {CLEAN: 0.9})


def test_a_best_accuracy_of_zero_is_refused() -> None:
    with pytest.raises(HoldfastError, match="best known accuracy under no attack is 0"):
        competitiveness(battery({CLEAN: 0.5}, {CLEAN: 0.0}))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.05, 1)), min_size=2, max_size=12), st.randoms())
def test_ratios_do_not_depend_on_order_and_keep_theirs(pairs: list[tuple[float, float]], random: object) -> None:
    entries = [Strength("a", float(i)) for i in range(len(pairs))]
    cells = Battery(tuple(entries), np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]), 100, 100)
    order = list(range(len(pairs)))
    random.shuffle(order)  # type: ignore[attr-defined]
    mixed = Battery(tuple(entries[i] for i in order), cells.accuracies[order], cells.best[order], 100, 100)
    made, again = competitiveness(cells, resamples=20), competitiveness(mixed, resamples=20)
    assert made.average.value == pytest.approx(again.average.value)
    assert made.individual_worst.value <= made.average.value + 1e-12
    assert made.average.low <= made.average.value <= made.average.high
    better = Battery(cells.entries, np.minimum(cells.accuracies + 0.1, 1), cells.best)
    assert competitiveness(better, resamples=1).average.value >= made.average.value - 1e-12


def test_intervals_of_a_ratio_cover_the_truth() -> None:
    """A model whose accuracies come from the same 400 samples, with acc* known exactly."""
    random = np.random.default_rng(0)
    truth = np.array([0.9, 0.7, 0.5, 0.2])
    entries = (CLEAN, A1, A2, B1)
    best = np.array([0.95, 0.8, 0.7, 0.6])
    hits = 0
    for seed in range(300):
        seen = (random.random((400, 1)) < truth).mean(axis=0)  # one draw per sample: stronger attacks break more
        made = competitiveness(Battery(entries, seen, best, 400, 0), resamples=300, seed=seed)
        hits += made.average.low <= (truth / best).mean() <= made.average.high
    assert hits / 300 >= 0.91  # three standard errors below 95 %


def test_the_stability_constant_names_its_pair_and_conditioning_drops_a_tie() -> None:
    best = {CLEAN: 0.90, A1: 0.80, A2: 0.7999, B1: 0.78}
    cells = battery({CLEAN: 0.9, A1: 0.6, A2: 0.55, B1: 0.5}, best, n=10_000, best_n=30_000)
    made = stability(cells, {"a": 1})
    assert (made.known, made.other) == (A1, A2)
    assert made.constant.value == pytest.approx(0.05 / 0.0001)
    assert not made.constant.has_interval
    assert "no interval" in made.constant.why
    calm = conditioned_stability(cells, {"a": 1})
    assert (calm.known, calm.other) == (A1, B1)
    assert calm.constant.value == pytest.approx(0.1 / 0.02)


def test_no_pair_gives_a_constant_of_zero() -> None:
    made = stability(battery({CLEAN: 0.9, A1: 0.2}, {CLEAN: 0.9, A1: 0.3}), {})
    assert (made.constant.value, made.pairs, made.known) == (0.0, 0, None)


def test_conditioning_needs_counts() -> None:
    with pytest.raises(HoldfastError, match="needs the count"):
        conditioned_stability(battery(CELLS, BEST), {})
    with pytest.raises(Misuse, match="no two difficulties"):
        conditioned_stability(battery(CELLS, BEST, best_n=50), {})


def test_the_area_under_a_radius_curve_is_the_mean_radius(rows_for: Callable[..., Rows]) -> None:
    radii = np.array([0, 0.5, 1, np.inf], np.float32)
    rows = rows_for([False, False, False, True], radii=radii)
    made = radius_curve(rows, [0, 0.5, 1, 2])
    assert [score.value for score in made.accuracies] == [0.75, 0.5, 0.25, 0.25]
    assert made.area.value == pytest.approx((0 + 0.5 + 1 + 2) / 4 / 2)
    assert made.area.low <= made.area.value <= made.area.high
    assert accuracies_at(rows, "a", [0.5]) == {CLEAN: 0.75, Strength("a", 0.5): 0.5}
    plain = rows_for([True])
    assert AreaUnderRadiusCurve()(plain) is None
    with pytest.raises(HoldfastError, match="no radii"):
        radius_curve(plain)
    with pytest.raises(Misuse, match="0 or more"):
        radius_curve(rows, [-1])


def swept(rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], found: list[float], radii: object) -> Rows:
    name = "sweep" if isinstance(radii, list) else "fmn-linf"
    args = {"radii" if isinstance(radii, list) else "radius": radii}
    footer = footer_for(changes=(ChangeRecord("attack", name, 1, name, args),))
    return rows_for([radius > 1 for radius in found], radii=np.array(found, np.float32), footer=footer)


def test_the_area_ends_at_the_radius_searched_so_that_the_stronger_model_is_ahead(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    grid = [0.1, 0.2, 0.4]
    weak = swept(rows_for, footer_for, [0.1, 0.1, 0.2, 0.2], grid)
    strong = swept(rows_for, footer_for, [0.1, 0.1, 0.4, 0.4], grid)
    area = AreaUnderRadiusCurve()
    assert area(weak).value == pytest.approx((0.1 + 0.2) / 2 / 0.4)  # type: ignore[union-attr]
    assert area(strong).value == pytest.approx((0.1 + 0.4) / 2 / 0.4)  # type: ignore[union-attr]
    assert radius_curve(weak).radii == pytest.approx((0.1, 0.2, 0.4))
    assert radius_curve(weak).area.value == area(weak).value  # type: ignore[union-attr]


def test_areas_of_runs_searched_to_different_radii_are_compared_up_to_one(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    near = swept(rows_for, footer_for, [0.1, np.inf], [0.1, 0.2])
    far = swept(rows_for, footer_for, [0.1, 0.4], [0.1, 0.2, 0.4])
    assert common_radius([near, far]) == 0.2
    assert "up to different radii (0.2, 0.4): compare them with `radius=0.2`" in AreaUnderRadiusCurve().remark(
        [near, far]
    )
    along_l2 = footer_for(changes=(ChangeRecord("attack", "fmn-l2", 1, "fmn-l2", {"radius": 2.0}),))
    other = rows_for([True, False], radii=np.array([1.0, 0.5], np.float32), footer=along_l2)
    fixed = [
        rows_for([True], footer=footer_for(changes=(ChangeRecord("attack", "pgd", 1, "pgd", {"radius": radius}),)))
        for radius in (0.1, 0.2)
    ]
    assert AreaUnderRadiusCurve().remark([near, other, *fixed]) == "", "radii of another threat, and runs without radii"
    same = AreaUnderRadiusCurve(radius=0.2)
    assert same.remark([near, far]) == ""
    assert same(near).value == pytest.approx(same(far).value) == pytest.approx(0.75)  # type: ignore[union-attr]
    assert AreaUnderRadiusCurve(radius=0.4)(near) is None
    with pytest.raises(HoldfastError, match=r"searched up to radius 0\.2, what happens at 0\.4 is not known"):
        accuracies_at(near, "a", [0.4])
    with pytest.raises(Misuse, match="more than zero and finite"):
        AreaUnderRadiusCurve(radius=math.inf)


def test_a_search_without_a_limit_takes_a_radius_by_hand(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    rows = swept(rows_for, footer_for, [0.1, 0.3], math.inf)
    assert AreaUnderRadiusCurve()(rows) is None
    assert AreaUnderRadiusCurve(radius=0.2)(rows).value == pytest.approx(0.75)  # type: ignore[union-attr]
    with pytest.raises(HoldfastError, match="names no largest radius"):
        radius_curve(rows)


@given(st.lists(st.floats(0, 3, width=32), min_size=1, max_size=20))
def test_a_radius_curve_never_rises(radii: list[float]) -> None:
    smallest = np.array(radii)
    shares = [(smallest > radius).mean() for radius in np.linspace(0, 3, 9)]
    assert all(a >= b for a, b in itertools.pairwise(shares))


def test_union_is_at_most_the_average(rows_for: Callable[..., Rows]) -> None:
    runs = [rows_for([True, True, False, False]), rows_for([True, False, True, False])]
    assert (worst_case(runs).value, average_accuracy(runs).value) == (0.25, 0.5)
    assert average_accuracy(runs).n == 4
