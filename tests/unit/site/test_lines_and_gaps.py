from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import add, change, fog, pgd

from holdfast.site import svg
from holdfast.site.line_charts import overview, panel
from holdfast.site.model_results import model_results
from holdfast.site.series import Series, segments, series, tick_texts, unjoined
from holdfast.store.store import Store


def lines_of(store: Store, model: str = "resnet18") -> list[Series]:
    found = model_results(store, model)
    return series(found.runs, found.nearby)


def positions(one: Series) -> list[list[float]]:
    return [[point.x for point in stretch] for stretch in segments(one.own)]


def test_a_missing_severity_is_a_gap(store: Store) -> None:
    for severity in (1, 2, 4, 5):
        add(store, 0.9 - severity / 10, fog(severity))
    (line,) = lines_of(store)
    assert line.ticks == (1, 2, 3, 4, 5)
    assert positions(line) == [[1, 2], [4, 5]]
    drawing = panel(line, clean=None, letters={}, name="x", width=204)
    assert drawing.count('class="stroke"') == 2
    assert drawing.count('class="band"') == 2
    assert drawing.count('class="leap"') == 1


@pytest.mark.parametrize("severities", [(1, 3, 5), (1, 5), (2, 4), (3, 5), (1, 2, 3, 4, 5)])
def test_severities_at_an_even_pace_make_one_curve(store: Store, severities: tuple[int, ...]) -> None:
    for severity in severities:
        add(store, 0.9 - severity / 10, fog(severity))
    (line,) = lines_of(store)
    assert positions(line) == [list(severities)]
    drawing = panel(line, clean=None, letters={}, name="x", width=204)
    assert drawing.count('class="stroke"') == drawing.count('class="band"') == 1
    assert 'class="leap"' not in drawing


def test_a_lone_point_gets_whiskers_and_is_joined_by_dots(store: Store) -> None:
    for severity in (1, 3, 5):
        add(store, 0.9 - severity / 10, fog(severity))
    for severity in (1, 2, 3, 4, 5):
        add(store, 0.9 - severity / 10, fog(severity), model="other")
    (line,) = lines_of(store)
    assert positions(line) == [[1], [3], [5]]
    drawing = panel(line, clean=None, letters={}, name="x", width=204)
    assert 'class="stroke"' not in drawing
    assert drawing.count('class="whisker"') == 9
    assert drawing.count('class="leap"') == 2


def test_a_line_along_radii_begins_at_the_undisturbed_run_of_the_same_samples(store: Store) -> None:
    add(store, 0.9)
    add(store, 0.8, model="part", n=50)
    for model in ("resnet18", "part"):
        for radius in (2, 8):
            add(store, 0.5, pgd(radius / 255), model=model)
    for model, start in (("resnet18", [0, 2, 8]), ("part", [2, 8])):
        found = model_results(store, model)
        (line,) = series(found.runs, [], next(run for run in found.runs if not run.footer.changes))
        assert [round(point.x * 255, 6) for point in line.measured] == start


def test_a_radius_that_only_another_model_has_is_a_gap(store: Store) -> None:
    for radius in (2, 8):
        add(store, 0.5, pgd(radius / 255))
    for radius in (2, 4, 8):
        add(store, 0.4, pgd(radius / 255), model="other")
    (line,) = lines_of(store)
    assert positions(line) == [[2 / 255], [8 / 255]]
    assert [point is not None for point in line.others["other"]] == [True, True, True]


def test_lines_that_differ_in_any_other_argument_are_not_joined(store: Store) -> None:
    for steps in (10, 50):
        for radius in (4, 8):
            add(store, 0.5, pgd(radius / 255, steps=steps))
    lines = lines_of(store)
    assert sorted(line.label for line in lines) == ["pgd-linf, steps 10", "pgd-linf, steps 50"]
    assert all(len(line.measured) == 2 for line in lines)


def test_an_argument_left_at_its_default_also_keeps_lines_apart(store: Store) -> None:
    for steps, radii in ((10, (2, 4)), (20, (8, 16))):
        for radius in radii:
            add(store, 0.5, change("attack", "pgd-linf", hidden=("steps",), radius=radius / 255, steps=steps))
    assert sorted(line.label for line in lines_of(store)) == ["pgd-linf [steps 10]", "pgd-linf [steps 20]"]


def test_seeds_versions_weights_and_data_keep_lines_apart(store: Store) -> None:
    for severity in (1, 2):
        add(store, 0.6, fog(severity))
        add(store, 0.6, fog(severity), seed=1)
        add(store, 0.6, fog(severity), weights="other")
        add(store, 0.6, replace(fog(severity), version=2))
        add(store, 0.6, fog(severity), model_full="resnet18:width=2")
    lines = lines_of(store)
    assert len(lines) == 5
    assert len({line.label for line in lines}) == 5
    assert all(len(line.measured) == 2 for line in lines)


def test_both_at_once_is_drawn_along_each_strength(store: Store) -> None:
    for severity in (1, 2):
        for radius in (4, 8):
            add(store, 0.5, fog(severity), pgd(radius / 255))
    lines = lines_of(store)
    assert sorted((line.axis, line.label) for line in lines) == [
        ("radius", "fog at severity 1, then pgd-linf"),
        ("radius", "fog at severity 2, then pgd-linf"),
        ("severity", "fog, then pgd-linf at radius 4/255"),
        ("severity", "fog, then pgd-linf at radius 8/255"),
    ]


def test_one_strength_makes_no_line(store: Store) -> None:
    add(store, 0.5, fog(3))
    add(store, 0.4, change("corruption", "greyscale"))
    add(store, 0.3, change("attack", "sweep", radius=(0.1, 0.2)))
    found = model_results(store, "resnet18")
    assert lines_of(store) == []
    assert len(unjoined(found.runs, [])) == 3


def test_another_model_is_drawn_only_under_the_same_condition(store: Store) -> None:
    for severity in (1, 2):
        add(store, 0.6, fog(severity))
        add(store, 0.5, fog(severity), model="same")
        add(store, 0.5, fog(severity), model="other-seed", seed=3)
        add(store, 0.5, fog(severity, ladder="mild"), model="other-ladder")
    (line,) = lines_of(store)
    assert list(line.others) == ["same"]


def test_partial_points_are_hollow(store: Store) -> None:
    add(store, 0.6, fog(1))
    add(store, 0.5, fog(2), n=50)
    add(store, 0.6, fog(1, "snow"))
    add(store, 0.5, fog(2, "snow"))
    lines = lines_of(store)
    drawing = overview(lines, clean=None, width=1160, name="x", title="all")
    assert drawing.count("mark hollow") == 1


def test_255ths_are_counted_and_other_radii_spelled() -> None:
    assert tick_texts("radius", [0.0, 8 / 255]) == ("radius, in 255ths", ["0", "8"])
    assert tick_texts("radius", [2 / 255, 8 / 255]) == ("radius, in 255ths", ["2", "8"])
    assert tick_texts("radius", [0.25, 0.5, 1.0]) == ("radius", ["0.25", "0.5", "1"])
    assert tick_texts("severity", [1.0, 2.0]) == ("severity", ["1", "2"])


@given(st.lists(st.floats(0, 300), min_size=1, max_size=20))
def test_labels_keep_their_order_their_distance_and_the_frame(expected: list[float]) -> None:
    placed = svg.spread_apart(expected, gap=15, low=0, high=300)
    order = sorted(range(len(expected)), key=lambda i: expected[i])
    steps = [placed[b] - placed[a] for a, b in pairwise(order)]
    assert all(step >= 15 - 1e-6 for step in steps)
    assert min(placed) >= -1e-6
    assert max(placed) <= 300 + 1e-6


def test_labels_with_room_stay_where_they_are() -> None:
    assert svg.spread_apart([200.0, 10.0, 100.0], gap=15, low=0, high=300) == [200.0, 10.0, 100.0]
    assert svg.spread_apart([100.0, 100.0], gap=10, low=0, high=300) == [95.0, 105.0]
