"""What a report puts first: a stated threat, where half is lost, a verdict and the next command."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import CARD, add, change, fog, pgd, sweep

from holdfast.core.intervals import wilson
from holdfast.site.half_lost import crossing, half_lost
from holdfast.site.headline import headline, unmeasured_training
from holdfast.site.model_results import model_results
from holdfast.site.next_step import next_step
from holdfast.site.report_verdict import verdict
from holdfast.site.stated_radii import standard_radii, threat_of_change, trained_radii
from holdfast.site.statements import statements
from holdfast.store.store import Store

UNTRAINED = replace(CARD, threats=())
GRID = tuple(r / 255 for r in (1, 2, 4, 8, 16, 32))


def attacked(store: Store, model: str = "resnet18") -> tuple[float, str]:
    """Radius and reason of the headline under attack."""
    chosen = headline(model_results(store, model).runs, "attacked")
    assert chosen is not None
    return round(float(chosen.run.footer.changes[-1].args["radius"]) * 255, 6), chosen.why


def result(store: Store, topic: str) -> str:
    made = {one.topic: one for one in statements(model_results(store, "resnet18").runs, "cifar10")}
    return " ".join([made[topic].text, *made[topic].more]).replace("\u00a0", " ")


def test_the_headline_is_at_the_radius_of_training_not_at_the_hardest(store: Store) -> None:
    card = replace(CARD, threats=("pgd-linf:radius=4/255,steps=7",))
    for radius, accuracy in ((2, 0.9), (4, 0.85), (8, 0.5), (64, 0.03)):
        add(store, accuracy, pgd(radius / 255), card=card)
    assert attacked(store) == (4, "the radius it was trained for")
    assert "(pgd-linf at radius 4/255, the radius it was trained for) 85 % stay right" in result(store, "Attacked")


def test_without_training_it_is_the_suites_radius(store: Store) -> None:
    for radius, accuracy in ((1, 0.9), (8, 0.85), (64, 0.03)):
        add(store, accuracy, pgd(radius / 255), card=UNTRAINED)
    radius, why = attacked(store)
    assert radius == 8
    assert why.startswith("the radius that suite ")


@pytest.mark.parametrize(
    ("dataset", "threat", "radius"),
    [
        ("cifar10", "linf", 8 / 255),
        ("cifar10", "l2", 0.5),
        ("imagenet", "linf", 4 / 255),
        ("imagenet:split=val", "linf", 4 / 255),
        ("folder:path=photos", "linf", 8 / 255),
        ("folder:path=photos", "stadv", 0.05),
    ],
)
def test_standard_radii_are_those_of_the_suites(dataset: str, threat: str, radius: float) -> None:
    assert next(one.radius for one in standard_radii(dataset) if one.threat == threat) == pytest.approx(radius)


def test_of_attacks_at_one_radius_the_one_that_leaves_least_speaks(store: Store) -> None:
    add(store, 0.6, pgd(8 / 255))
    add(store, 0.5, pgd(8 / 255, "autoattack-linf"))
    add(store, 0.1, pgd(16 / 255))
    assert "autoattack-linf at radius 8/255" in result(store, "Attacked")
    assert "the lowest of 2 attacks at this radius" in result(store, "Attacked")


def test_where_the_radius_of_training_was_not_measured_the_suites_is_shown_and_that_is_said(store: Store) -> None:
    card = replace(CARD, threats=("pgd-linf:radius=16/255",))
    add(store, 0.9, card=card)
    add(store, 0.6, pgd(8 / 255), card=card)
    add(store, 0.1, pgd(64 / 255), card=card)
    assert attacked(store)[0] == 8
    assert "It was trained against pgd-linf at radius 16/255, which was not measured." in result(store, "Attacked")
    assert "--scenario cifar10+pgd-linf:radius=16/255" in next_step(model_results(store, "resnet18")).command


def test_where_no_stated_radius_was_measured_the_nearest_is_and_says_so(store: Store) -> None:
    for radius in (1, 5, 64):
        add(store, 0.5, pgd(radius / 255))
    assert attacked(store) == (5, "the measured radius nearest to 8/255, the radius it was trained for")


def test_an_attack_without_a_standard_is_shown_at_the_middle_radius(store: Store) -> None:
    for radius in (1, 2, 3, 4, 5):
        add(store, 0.9 - radius / 10, pgd(radius / 255, "odd-attack"), card=UNTRAINED)
    assert attacked(store) == (3, "the middle of 5 radii measured, for no suite states one")


def test_the_threat_of_training_comes_before_linf(store: Store) -> None:
    card = replace(CARD, threats=("pgd-l2:radius=1.0",))
    add(store, 0.3, pgd(8 / 255), card=card)
    add(store, 0.6, pgd(1.0, "mm5-l2"), card=card)
    chosen = headline(model_results(store, "resnet18").runs, "attacked")
    assert chosen is not None
    assert (chosen.threat, chosen.is_trained) == ("l2", True)
    assert "pgd-linf at radius 8/255: 30" in result(store, "Attacked")


@pytest.mark.parametrize("threats", [("nonsense((",), ("l-infinity, 8/255",), ("pgd-linf",), ("",)])
def test_a_card_that_states_no_radius_stops_nothing(store: Store, threats: tuple[str, ...]) -> None:
    card = replace(CARD, threats=threats)
    add(store, 0.9, card=card)
    add(store, 0.6, pgd(8 / 255), card=card)
    assert attacked(store)[0] == 8
    assert next_step(model_results(store, "resnet18")).command


def test_threats_are_told_through_sweeps_unions_and_names() -> None:
    assert threat_of_change(pgd(1.0, "mm5-l2")) == "l2"
    union = change("attack", "worst-of", attacks=("pgd-linf:radius=8/255", "apgd-ce-linf"))
    assert threat_of_change(union) == "linf"
    mixed = change("attack", "worst-of", attacks=("pgd-linf:radius=8/255", "stadv"))
    assert threat_of_change(mixed) == "worst-of"
    assert [
        (one.threat, one.radius) for one in trained_radii(replace(CARD, threats=("mm5-l2:0.5", "pgd-l2:radius=1")))
    ] == [("l2", 1.0)]


def swept(store: Store, thresholds: dict[float, int], **facts: object) -> None:
    """A sweep in which so many samples break at each radius; inf: at none."""
    radii = [radius for radius, count in thresholds.items() for _ in range(count)]
    add(store, 0, sweep(GRID), n=len(radii), population=len(radii), radii=radii, **facts)


def test_a_sweep_is_read_at_each_of_its_radii(store: Store) -> None:
    swept(store, {0.0: 20, 2 / 255: 30, 8 / 255: 60, 32 / 255: 50, math.inf: 40})
    found = model_results(store, "resnet18")
    shares = {run.footer.changes[-1].args["radius"]: run.accuracy for run in found.runs if run.group == "attacked"}
    expected = {1: 180, 2: 150, 4: 150, 8: 90, 16: 90, 32: 40}
    assert shares == {radius / 255: wilson(right, 200) for radius, right in expected.items()}
    clean = next(run for run in found.runs if run.group == "undisturbed")
    assert clean.accuracy == wilson(180, 200)
    assert len(found.files) == found.finished == 1
    assert attacked(store)[0] == 8


def test_a_sweep_and_a_clean_run_count_undisturbed_once(store: Store) -> None:
    add(store, 0.9, n=100, population=100)
    swept(store, {0.0: 10, 8 / 255: 90})
    assert sum(run.group == "undisturbed" for run in model_results(store, "resnet18").runs) == 1


def test_a_sweep_without_radii_in_its_rows_is_taken_as_it_is_not_left_out_in_silence(store: Store) -> None:
    add(store, 0.4, sweep(GRID))
    found = model_results(store, "resnet18")
    assert [run.accuracy for run in found.runs] == [wilson(80, 200)]


def test_a_minimal_attack_is_read_at_radii_around_the_standard(store: Store) -> None:
    attack = change("attack", "fmn-linf", hidden=("radius",), radius=math.inf)
    add(store, 0, attack, radii=[0.0] * 20 + [3 / 255] * 80 + [50 / 255] * 100)
    assert attacked(store)[0] == 8
    chosen = headline(model_results(store, "resnet18").runs, "attacked")
    assert chosen is not None
    assert chosen.run.accuracy == wilson(100, 200)


def test_half_is_lost_where_the_line_through_the_shares_crosses_one_half(store: Store) -> None:
    swept(store, {0.0: 40, 4 / 255: 20, 8 / 255: 100, 32 / 255: 20, math.inf: 20})
    known = half_lost(model_results(store, "resnet18").runs)
    assert known is not None
    assert known.radius is not None
    # kept of the 160 right: 140 at 4/255, 40 at 8/255
    assert known.radius.value * 255 == pytest.approx(4 + 4 * (140 - 80) / 100, rel=1e-5)
    assert (known.radius.low, known.radius.high, known.radius.n) == (4 / 255, 8 / 255, 160)
    text = result(store, "Attacked")
    assert (
        "lost at a radius of about 6.4/255, interpolated (between 4/255 and 8/255 at 95 % or more, 160 samples" in text
    )


def test_half_not_lost_is_said_with_what_is_kept(store: Store) -> None:
    add(store, 0.9)
    for radius in (4, 8):
        add(store, 0.85, pgd(radius / 255))
    assert "not lost up to radius 8/255, the largest measured (pgd-linf): there it keeps 94.4 %" in result(
        store, "Attacked"
    )
    assert "radii=[8/255,16/255,32/255]" in next_step(model_results(store, "resnet18")).command


def test_half_lost_under_one_attack_is_not_called_kept_because_of_another(store: Store) -> None:
    add(store, 0.9, n=200)
    for radius in (1, 2, 4, 8):
        add(store, 0.85, pgd(radius / 255))
    add(store, 0, sweep([8 / 255, 32 / 255]), radii=[0.0] * 20 + [8 / 255] * 20 + [32 / 255] * 160)
    assert "lost at a radius of about" in result(store, "Attacked")


def test_without_an_undisturbed_run_the_radius_of_half_is_not_claimed(store: Store) -> None:
    add(store, 0.3, pgd(8 / 255))
    assert "is not known: no undisturbed run" in result(store, "Attacked")


def test_one_radius_bounds_where_half_is_lost(store: Store) -> None:
    add(store, 0.9)
    add(store, 0.3, pgd(8 / 255))
    assert "Half of what it gets right is lost below radius 8/255, the only one measured" in result(store, "Attacked")
    assert "sweep:attack=(pgd-linf),radii=[2/255,4/255,8/255,16/255,32/255]" in (
        next_step(model_results(store, "resnet18")).command
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_a_crossing_lies_between_its_neighbours(shares: list[float]) -> None:
    radii = [float(i) for i in range(len(shares) + 1)]
    found = crossing(radii, [1.0, *shares])
    below = [i + 1 for i, share in enumerate(shares) if share <= 0.5]
    assert found == math.inf if not below else below[0] - 1 <= found <= below[0]


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_the_interval_of_the_radius_of_half_covers_the_truth(n: int) -> None:
    """Breaking radii are uniform on (0, 1); half is lost at 0.5, whatever grid they are searched on."""
    generator = np.random.default_rng(n)
    grid = np.linspace(0, 1, 41)[1:]
    inside = 0
    for _ in range(1000):
        kept = (generator.random(n)[:, None] > grid).sum(0)
        scores = [wilson(int(count), n) for count in kept]
        low = max((r for r, score in zip(grid, scores, strict=True) if score.low > 0.5), default=0.0)
        high = min((r for r, score in zip(grid, scores, strict=True) if score.high < 0.5), default=math.inf)
        inside += low <= 0.5 <= high
    assert inside >= 930


def test_a_class_into_which_wrong_answers_fall_is_named(store: Store) -> None:
    add(store, 0.9)
    add(store, 0.1, fog(5), wrong_class=6)
    text = result(store, "Corrupted")
    assert "Most wrong predictions are one class:" in text
    assert "are “frog”" in text
    assert "spread evenly it would be 10 %" in text


def test_wrong_answers_that_spread_name_no_class(store: Store) -> None:
    add(store, 0.1, fog(5))
    assert "rong predictions" not in result(store, "Corrupted")


def test_the_verdict_says_what_holds_and_what_does_not(store: Store) -> None:
    def claim() -> str:
        return verdict(model_results(store, "resnet18").runs).claim

    add(store, 0.9)
    assert claim() == "How it holds up is not known yet."
    add(store, 0.85, fog(1))
    assert claim() == "It holds up under the corruptions measured; attacks were not measured."
    add(store, 0.8, pgd(8 / 255))
    assert claim() == "It holds up."
    add(store, 0.6, pgd(8 / 255, "mm5-linf"))
    assert claim() == "It holds up in part under attack, and under the corruptions measured."
    add(store, 0.1, fog(5))
    assert claim() == "It holds up in part under attack, not under every corruption."
    add(store, 0.46, pgd(8 / 255, "apgd-linf"))
    assert claim() == "Whether it holds up under attack is open."
    add(store, 0.05, pgd(8 / 255, "autoattack-linf"))
    assert claim() == "It does not hold up under attack."


def test_the_verdict_does_not_count_what_guessing_gets(store: Store) -> None:
    add(store, 0.1)
    add(store, 0.1, pgd(8 / 255))
    found = model_results(store, "resnet18")
    assert verdict(found.runs).claim == "Undisturbed it is no better than guessing."
    assert next_step(found).command == "holdfast check resnet18 --dataset cifar10 --attacks"


def test_the_next_command_closes_the_first_gap(store: Store) -> None:
    def command() -> str:
        return next_step(model_results(store, "resnet18")).command.removesuffix(f" --store {store.url}")

    facts = {"card": UNTRAINED}
    add(store, 0.8, pgd(4 / 255), **facts)
    assert command() == "holdfast evaluate resnet18 --scenario cifar10"
    add(store, 0.9, **facts)
    assert "sweep:" in command()
    for radius, accuracy in ((8, 0.6), (16, 0.2)):
        add(store, accuracy, pgd(radius / 255), **facts)
    assert command() == "holdfast evaluate resnet18 --suite quick --part corruptions --dataset cifar10"
    add(store, 0.8, fog(1), **facts)
    assert command() == "holdfast evaluate resnet18 --suite quick --part combinations --dataset cifar10"
    add(store, 0.5, fog(1), pgd(8 / 255), **facts)
    assert command() == "holdfast evaluate resnet18 --scenario cifar10+autoattack-linf:radius=8/255"
    add(store, 0.5, pgd(8 / 255, "autoattack-linf"), **facts)
    assert command() == "holdfast board quick"
    add(store, 0.5, model="other")
    assert command() == "holdfast compare resnet18 other"


def test_a_module_of_somebodys_program_gets_a_line_of_python(store: Store) -> None:
    add(store, 0.9, card=replace(UNTRAINED, source="live"))
    command = next_step(model_results(store, "resnet18")).command
    assert command.startswith('holdfast.evaluate(model, ["cifar10+pgd-linf:radius=8/255", ')


def test_a_model_without_gradients_is_offered_an_attack_that_needs_none(store: Store) -> None:
    add(store, 0.9, card=replace(UNTRAINED, differentiable=False))
    assert "cifar10+square-linf:radius=8/255" in next_step(model_results(store, "resnet18")).command


def test_training_that_was_measured_is_not_called_missing(store: Store) -> None:
    add(store, 0.5, pgd(8 / 255, "autoattack-linf"))
    assert unmeasured_training(model_results(store, "resnet18").runs) == []
