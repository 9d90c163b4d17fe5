"""What every attack is made of, against the numbers that its source prints: radii, steps, targets, starts, prices."""

from __future__ import annotations

import math

import pytest
import torch

from holdfast.attacks.aimed import lead, leads, targeted_dlr
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import Objective, cross_entropy, dlr, margin
from holdfast.attacks.perceptual.lpa import Excess, Lagrange
from holdfast.attacks.perceptual.lpips_attack import LpipsAttack, margin_to_one
from holdfast.attacks.perceptual.lpips_ball import LpipsBall
from holdfast.attacks.recipes.adam import Adam, Smoothness
from holdfast.attacks.recipes.automatic import Automatic, Sparse
from holdfast.attacks.recipes.cascade import Cascade
from holdfast.attacks.recipes.fab import AlongBoundary
from holdfast.attacks.recipes.fmn import AdaptiveBall
from holdfast.attacks.recipes.pgd_variants import capped_margin
from holdfast.attacks.recipes.square import Bumps, Squares
from holdfast.attacks.recipes.uar import FarFirstPass, StepsInRadii
from holdfast.attacks.search import RandomSearch
from holdfast.attacks.steps import Steepest, Step
from holdfast.attacks.threats.jpeg_threat import FrankWolfe
from holdfast.attacks.threats.snow_threat import FlakeSteps
from holdfast.core.errors import Misuse
from holdfast.core.registry import registry

NORMS = ("linf", "l2", "l1")
USUAL = {"linf": 8 / 255, "l2": 0.5, "l1": 12.0}  # those of the leaderboards


def built(text: str) -> object:
    return registry.build(registry.bind("attack", text))


def gradient_attack(text: str) -> GradientAttack:
    made = built(text)
    assert isinstance(made, GradientAttack)
    return made


def inside(text: str) -> GradientAttack:
    """The loop of an LPIPS attack, with a network that sees the image itself."""
    made = built(text)
    assert isinstance(made, LpipsAttack)
    return made.inside(LpipsBall(lambda images: [images]))


def stages(text: str) -> list[str]:
    made = built(text)
    assert isinstance(made, Cascade)
    return [stage.ref for stage in made.stages]


def numbers(attack: GradientAttack) -> tuple[float, int, int, int]:
    return attack.radius, attack.steps, attack.restarts, attack.targets


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("name", "objective", "targets"), [("ce", cross_entropy, 0), ("dlr", dlr, 0), ("t", targeted_dlr, 9)]
)
def test_auto_pgd_takes_a_hundred_steps_from_the_border(
    name: str, objective: Objective, targets: int, norm: str
) -> None:
    attack = gradient_attack(f"apgd-{name}-{norm}")
    assert attack.objective is objective
    assert (attack.radius, attack.restarts, attack.targets, attack.draws) == (USUAL[norm], 1, targets, 1)
    assert (attack.start, attack.keep, attack.stop_when_broken) == ("border", "strongest", True)
    # in l1 the last moves of a stage of three are its own: a sparse step says how many it makes
    step = attack.step
    assert isinstance(step, Sparse if norm == "l1" else Automatic)
    assert attack.steps == (step.moves if isinstance(step, Sparse) else 100)
    assert step.steps == 100
    assert not gradient_attack(f"apgd-ce-{norm}:all_steps=true").stop_when_broken
    assert gradient_attack(f"apgd-{name}-{norm}:draws=7").draws == 7


@pytest.mark.parametrize(("name", "targets", "steps"), [("mm3", 3, 20), ("mm5", 5, 20), ("mm9", 9, 20)])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_minimum_margin_attacks_aim_at_three_five_or_nine_classes(
    name: str, targets: int, steps: int, norm: str
) -> None:
    for text, expected in ((f"{name}-{norm}", (steps, 1, targets)), (f"mm-plus-{norm}", (100, 1, 9))):
        attack = gradient_attack(text)
        assert numbers(attack) == (USUAL[norm], *expected)
        assert attack.objective is lead
        assert attack.start == "border"
        assert attack.step == Automatic(expected[0])


@pytest.mark.parametrize("norm", NORMS)
def test_pgd_takes_steps_of_two_and_a_half_radii_over_their_number(norm: str) -> None:
    attack = gradient_attack(f"pgd-{norm}")
    assert numbers(attack) == (USUAL[norm], 20, 1, 0)
    assert attack.objective is cross_entropy
    assert (attack.start, attack.keep, attack.draws, attack.stop_when_broken) == ("inside", "strongest", 1, True)
    assert attack.step == Steepest(2.5 / 20, 0.0)
    assert gradient_attack(f"pgd-{norm}:steps=50").step == Steepest(0.05)
    assert gradient_attack(f"pgd-{norm}:radius=0.5,step_size=0.1,momentum=1.0").step == Steepest(0.2, 1.0)
    assert gradient_attack(f"pgd-{norm}:radius=0.0,step_size=0.1").step == Steepest(2.5 / 20)
    assert gradient_attack(f"pgd-{norm}:radius=0.5,step_share=0.1").step == Steepest(0.1)
    assert gradient_attack(f"pgd-{norm}:random_start=false").start == "identity"
    assert gradient_attack(f"pgd-{norm}:loss=margin").objective is margin
    assert gradient_attack(f"pgd-{norm}:loss=dlr").objective is dlr
    last = gradient_attack(f"pgd-{norm}:all_steps=true")
    assert (last.keep, last.stop_when_broken) == ("last", False)


@pytest.mark.parametrize(
    ("name", "objective", "share", "steps", "radius", "start"),
    [
        ("fgsm", cross_entropy, 1.0, 1, 8 / 255, "identity"),
        ("cw-linf", capped_margin, 0.25, 100, 8 / 255, "inside"),
        ("testbed-pgd-linf", cross_entropy, 0.03, 100, 2 / 255, "identity"),
        ("testbed-pgd-l2", cross_entropy, 0.1, 100, 0.5, "identity"),
    ],
)
def test_relatives_of_pgd_have_the_steps_of_their_sources(
    name: str, objective: Objective, share: float, steps: int, radius: float, start: str
) -> None:
    attack = gradient_attack(name)
    assert attack.objective is objective
    assert attack.step == Steepest(share)
    assert numbers(attack) == (radius, steps, 1, 0)
    assert (attack.start, attack.keep, attack.stop_when_broken) == (start, "strongest", True)


def test_the_step_of_cw_is_absolute() -> None:
    assert gradient_attack("cw-linf:radius=0.5,step_size=0.1").step == Steepest(0.2)
    assert gradient_attack("cw-linf:radius=0.0,step_size=0.1").step == Steepest(0.25)


@pytest.mark.parametrize(("norm", "outset"), [("linf", 0.3), ("l2", 1.0), ("l1", 5.0)])
def test_fab_has_the_papers_bias_overshoot_and_way_back(norm: str, outset: float) -> None:
    """Alpha_max 0.1, eta 1.05 and beta 0.9; a hundred steps, nine targets; restarts as far out as published."""
    for name, objective, targets in (("fab", leads, 0), ("fab-t", lead, 9)):
        attack = gradient_attack(f"{name}-{norm}")
        assert numbers(attack) == (math.inf, 100, 1, targets)
        assert attack.objective is objective
        assert attack.step == AlongBoundary(100, 0.1, 1.05, 0.9)
        assert attack.outset == outset
        assert (attack.start, attack.keep) == ("around", "smallest")
        other = gradient_attack(f"{name}-{norm}:bias=0.2,overshoot=1.3,back=0.7,steps=5,restarts=2,radius=0.25")
        assert other.step == AlongBoundary(5, 0.2, 1.3, 0.7)
        assert numbers(other) == (0.25, 5, 2, targets)


@pytest.mark.parametrize("norm", NORMS)
def test_fmn_takes_a_thousand_steps_of_length_one_at_a_pace_of_a_twentieth(norm: str) -> None:
    attack = gradient_attack(f"fmn-{norm}")
    assert numbers(attack) == (math.inf, 1000, 1, 0)
    assert attack.objective is margin
    assert attack.step == AdaptiveBall(1000, 1.0, 0.05)
    assert (attack.start, attack.keep) == ("identity", "smallest")
    assert gradient_attack(f"fmn-{norm}:steps=7,step_size=2.0,pace=0.1").step == AdaptiveBall(7, 2.0, 0.1)


@pytest.mark.parametrize("norm", NORMS)
def test_square_asks_five_thousand_times_of_windows_that_begin_at_four_fifths(norm: str) -> None:
    attack = built(f"square-{norm}")
    assert isinstance(attack, RandomSearch)
    assert attack.radius == USUAL[norm]
    assert attack.objective is margin
    proposal = attack.proposal
    assert isinstance(proposal, Squares if norm == "linf" else Bumps)
    sides = proposal.sides
    assert (sides.share, sides.queries, sides.rescale) == (0.8, 5000, False)
    assert (sides.least, sides.odd) == ((1, False) if norm == "linf" else (3, True))
    if isinstance(proposal, Bumps):
        assert (proposal.power, proposal.fall) == {"l2": (2, 2), "l1": (1, 4)}[norm]


AUTOATTACK = {
    "autoattack-linf": ["apgd-ce-linf", "apgd-t-linf", "fab-t-linf", "square-linf"],
    "autoattack-l2": ["apgd-ce-l2", "apgd-t-l2", "fab-t-l2", "square-l2"],
    "autoattack-l1": ["apgd-ce-l1:restarts=5", "apgd-t-l1:targets=5", "fab-t-l1", "square-l1"],
    **{
        f"autoattack-plus-{norm}": [
            *(f"apgd-ce-{norm}:restarts=5", f"apgd-dlr-{norm}:restarts=5", f"fab-{norm}:restarts=5"),
            *(f"square-{norm}", f"apgd-t-{norm}", f"fab-t-{norm}"),
        ]
        for norm in NORMS
    },
    **{f"autoattack-rand-{norm}": [f"apgd-ce-{norm}:draws=20", f"apgd-dlr-{norm}:draws=20"] for norm in NORMS},
    **{f"apgd-fab-t-{norm}": [f"apgd-t-{norm}", f"fab-t-{norm}"] for norm in NORMS},
}


@pytest.mark.parametrize("name", AUTOATTACK)
def test_autoattack_runs_its_published_parts_in_their_order(name: str) -> None:
    assert stages(name) == AUTOATTACK[name]
    made = built(name)
    assert isinstance(made, Cascade)
    assert made.radius == USUAL[name.rpartition("-")[2]]
    assert made.union_name is None


def test_the_union_of_lpips_attacks_is_ppgd_then_lpa() -> None:
    assert stages("lpips") == ["ppgd:steps=40,network=self", "lpa:steps=40,network=self"]
    assert [ref.endswith(",published=true") for ref in stages("lpips:published=true")] == [True, True]


# the middle of each grid of twenty radii in MultiRobustBench, 10 of 20 steps; hue and its like from their own grids
WHOLE_IMAGE = {
    "hue-attack": 0.25,
    "saturation-attack": 0.25,
    "contrast-attack": 0.25,
    "brightness-attack": 0.15,
    "affine": 0.05,
    "perspective": 0.001,
}


@pytest.mark.parametrize("name", WHOLE_IMAGE)
def test_changes_of_the_whole_image_take_sign_steps_of_a_ninth_of_the_radius(name: str) -> None:
    """20 steps of 2 · radius / 18 on the cross-entropy."""
    attack = gradient_attack(name)
    assert numbers(attack) == (WHOLE_IMAGE[name], 20, 1, 0)
    assert attack.objective is cross_entropy
    assert attack.step == Steepest(2 / 18)
    assert (attack.start, attack.keep, attack.stop_when_broken) == ("inside", "strongest", True)
    for steps, share in ((1, 2.0), (2, 2.0), (3, 2.0), (4, 1.0)):
        assert gradient_attack(f"{name}:steps={steps}").step == Steepest(share)
    last = gradient_attack(f"{name}:published=true")
    assert (last.keep, last.stop_when_broken) == ("last", False)


@pytest.mark.parametrize(
    ("name", "above"),
    [("affine", True), ("perspective", True), ("brightness-attack", False), ("hue-attack", False)],
)
def test_published_warps_start_on_one_side(name: str, above: bool) -> None:
    assert getattr(gradient_attack(f"{name}:published=true").threat, "starts_above") is above  # noqa: B009
    assert getattr(gradient_attack(name).threat, "starts_above") is False  # noqa: B009


@pytest.mark.parametrize(
    ("name", "radius", "rate", "weight"), [("stadv", 0.05, 0.01, 0.0025), ("recolor", 0.06, 0.001, 0.0036)]
)
def test_stadv_and_recolor_are_adam_on_the_margin_less_a_price(
    name: str, radius: float, rate: float, weight: float
) -> None:
    attack = gradient_attack(name)
    assert numbers(attack) == (radius, 20, 1, 0)
    assert attack.objective is margin
    assert attack.step == Adam(rate)
    assert attack.penalty == Smoothness(weight)
    assert (attack.start, attack.keep, attack.stop_when_broken) == ("identity", "strongest", True)
    assert gradient_attack(f"{name}:rate=none").step == Adam(1 / 18, relative=True)
    last = gradient_attack(f"{name}:published=true")
    assert (last.keep, last.stop_when_broken) == ("last", False)


ROOT = 1 / math.sqrt(20)
# as published, the steps of the sources: fog's wibbles lie in a range of 2, JPEG looks first at a multiple of its start
PUBLISHED: dict[str, tuple[Step, Step]] = {
    "elastic": (Steepest(ROOT), Steepest(ROOT)),
    "fog-attack": (Steepest(ROOT), StepsInRadii(2 * ROOT)),
    "gabor-attack": (Steepest(ROOT), StepsInRadii(ROOT)),
    "snow-attack": (Steepest(ROOT), FlakeSteps(ROOT)),
    "jpeg-linf": (Steepest(ROOT), FarFirstPass(Steepest(ROOT))),
    "jpeg-l2": (Steepest(ROOT), FarFirstPass(Steepest(ROOT))),
    "jpeg-l1": (FrankWolfe(), FarFirstPass(FrankWolfe())),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_unforeseen_attacks_take_steps_of_the_radius_over_the_root_of_their_number(name: str) -> None:
    plain, last = gradient_attack(name), gradient_attack(f"{name}:published=true")
    assert (plain.step, last.step) == PUBLISHED[name]
    assert (plain.keep, plain.stop_when_broken) == ("strongest", True)
    assert (last.keep, last.stop_when_broken) == ("last", False)
    for attack in (plain, last):
        assert attack.objective is cross_entropy
        assert (attack.steps, attack.restarts, attack.start) == (20, 1, "inside")
    if name != "jpeg-l1":
        assert gradient_attack(f"{name}:share=0.3").step == Steepest(0.3)


def test_no_coefficient_of_jpeg_in_l1_or_l2_moves_by_more_than_two() -> None:
    caps = [getattr(gradient_attack(f"jpeg-{norm}").threat, "cap") for norm in NORMS]  # noqa: B009
    assert caps == [math.inf, 2.0, 2.0]


def test_ppgd_takes_steps_of_two_radii_over_their_number() -> None:
    attack = inside("ppgd")
    assert numbers(attack) == (0.5, 40, 1, 0)
    assert attack.objective is margin_to_one
    assert attack.step == Steepest(2 / 40)
    assert (attack.start, attack.keep, attack.stop_when_broken) == ("inside", "strongest", True)
    last = inside("ppgd:published=true")
    assert (last.keep, last.stop_when_broken) == ("last", False)


def test_lpa_takes_five_rounds_and_fast_lpa_one() -> None:
    attack, fast = inside("lpa"), inside("fast-lpa")
    assert numbers(attack) == (0.5, 200, 1, 0)
    assert numbers(fast) == (0.5, 20, 1, 0)
    assert attack.objective is margin_to_one
    assert fast.objective is margin
    for loop, steps, rounds, rising in ((attack, 40, 5, False), (fast, 20, 1, True)):
        step = loop.step
        assert isinstance(step, Lagrange)
        assert (step.steps, step.rounds, step.rising, step.stops, step.flat) == (steps, rounds, rising, False, 1e-8)
        assert loop.penalty == Excess(loop.threat)
        assert (loop.start, loop.keep, loop.stop_when_broken) == ("inside", "strongest", True)
    for name, stops, flat in (("lpa", True, 1e-8), ("fast-lpa", False, 1e-4)):
        last = inside(f"{name}:published=true")
        assert isinstance(last.step, Lagrange)
        assert (last.step.stops, last.step.flat) == (stops, flat)
        assert (last.keep, last.stop_when_broken) == ("last", False)


def test_the_margin_of_perceptual_attacks_ends_at_one() -> None:
    logits, labels = torch.tensor([[0.0, 3.0], [0.0, 0.5], [2.0, 0.0]]), torch.zeros(3, dtype=torch.int64)
    assert margin_to_one(logits, labels, labels).tolist() == [1.0, 0.5, -2.0]


@pytest.mark.parametrize(
    ("fine", "wrong"),
    [
        ("pgd-linf:steps=1", "pgd-linf:steps=0"),
        ("pgd-linf:draws=1", "pgd-linf:draws=0"),
        ("pgd-linf:step_size=0.001", "pgd-linf:step_size=0.0"),
        ("pgd-linf:step_share=0.001", "pgd-linf:step_share=0.0"),
        ("pgd-linf:step_share=0.1", "pgd-linf:step_share=0.1,step_size=0.1"),
        ("apgd-ce-linf:steps=1", "apgd-ce-linf:steps=0"),
        ("apgd-ce-linf:draws=1", "apgd-ce-linf:draws=0"),
        ("apgd-t-linf:targets=1", "apgd-t-linf:targets=0"),
        ("mm5-linf:targets=1", "mm5-linf:targets=-1"),
        ("fab-l2:bias=0.0", "fab-l2:bias=-0.1"),
        ("fab-l2:bias=1.0", "fab-l2:bias=1.1"),
        ("fab-l2:back=1.0", "fab-l2:back=1.1"),
        ("fab-l2:back=0.01", "fab-l2:back=0.0"),
        ("fab-l2:overshoot=1.0", "fab-l2:overshoot=0.99"),
        ("fab-t-l2:targets=1", "fab-t-l2:targets=0"),
        ("fmn-l2:step_size=0.01", "fmn-l2:step_size=0.0"),
        ("fmn-l2:pace=0.01", "fmn-l2:pace=0.0"),
        ("fmn-l2:pace=0.99", "fmn-l2:pace=1.0"),
        ("elastic:steps=1", "elastic:steps=0"),
        ("elastic:share=0.01", "elastic:share=0.0"),
        ("gabor-attack:density=1.0", "gabor-attack:density=1.01"),
        ("gabor-attack:density=0.01", "gabor-attack:density=0.0"),
        ("square-linf:share=1.0", "square-linf:share=1.01"),
        ("square-linf:share=0.01", "square-linf:share=0.0"),
        ("ppgd:steps=1", "ppgd:steps=0"),
        ("lpa:steps=1", "lpa:steps=0"),
        ("lpa:rounds=1", "lpa:rounds=0"),
        ("stadv:rate=0.0001", "stadv:rate=0.0"),
    ],
)
def test_numbers_are_refused_from_where_they_make_no_sense(fine: str, wrong: str) -> None:
    built(fine)
    with pytest.raises(Misuse):
        built(wrong)
