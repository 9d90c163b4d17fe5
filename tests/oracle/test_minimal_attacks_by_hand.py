"""FAB's step, FMN's ball, sweeps and what a model is asked, on planes and in numbers that fit on a page."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.active_set import ActiveSet, Samples
from holdfast.attacks.asked_model import AskedModel, ExactModel, kind_of
from holdfast.attacks.attack import Attack
from holdfast.attacks.every_step import last_images, takes_every_step
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.minimal import STRETCHES, SmallestPoints
from holdfast.attacks.objectives import cross_entropy, margin
from holdfast.attacks.recipes.automatic import Automatic
from holdfast.attacks.recipes.fab import AlongBoundary, _root
from holdfast.attacks.recipes.fmn import AdaptiveBall
from holdfast.attacks.recipes.hyperplane import dual_norm, onto_plane
from holdfast.attacks.recipes.level_search import depth, splits
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.attacks.steps import Point, Steepest
from holdfast.attacks.success import CLEAR
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, FastVersion
from holdfast.models import TorchClassifier, wrap

BALLS: dict[str, Ball] = {"linf": Linf(), "l2": L2(), "l1": L1()}
WEIGHT = (1.0, -2.0)
# the nearest points of the plane ⟨w, d⟩ = 1 to zero for w = (1, -2): all entries alike, along w, the steepest alone
UNIT = {"linf": (1 / 3, -1 / 3), "l2": (1 / 5, -2 / 5), "l1": (0.0, -1 / 2)}


def point_at(
    ball: Ball,
    variable: tuple[float, float],
    loss: float,
    *,
    wrong: bool = False,
    taken: int = 0,
    best: tuple[float, float] = (0.0, 0.0),
    best_loss: float = -math.inf,
    weight: tuple[float, float] = WEIGHT,
    grey: float = 0.5,
) -> Point:
    def row(pair: tuple[float, float]) -> Tensor:
        return torch.tensor(pair).view(1, 1, 1, 2)

    scene = Scene(torch.full((1, 1, 1, 2), grey), torch.tensor([math.inf]))
    numbers = torch.tensor([loss]), torch.tensor([wrong]), torch.tensor([taken])
    return Point(ball, scene, row(variable), row(weight), *numbers, row(best), torch.tensor([best_loss]))


def entries(change: Tensor) -> list[float]:
    return change.flatten().tolist()


def sized(norm: str, change: tuple[float, float]) -> float:
    a, b = map(abs, change)
    return {"linf": max(a, b), "l2": math.hypot(a, b), "l1": a + b}[norm]


@pytest.mark.parametrize("norm", BALLS)
@pytest.mark.parametrize(("loss", "wrong"), [(-0.2, False), (-0.001, False), (0.1, True)])
def test_a_step_of_fab_on_a_plane(norm: str, loss: float, wrong: bool) -> None:
    """From (0.1, 0) and from the image onto the plane by its nearest points, 5 % beyond, at most a tenth to the latter.

    Where the point is adversarial it first goes back to nine tenths of its way.
    """
    here = (0.09, 0.0) if wrong else (0.1, 0.0)
    # the lead is linear: at the point `loss`, at the image 0.1 less
    near_gap, far_gap = -(loss - 0.01 if wrong else loss), -(loss - 0.1)
    near, far = (tuple(gap * u for u in UNIT[norm]) for gap in (near_gap, far_gap))
    one, two = sized(norm, near), sized(norm, far)  # type: ignore[arg-type]
    share = min(one / (one + two) if one + two else 0.0, 0.1)
    expected = [(1 - share) * (h + 1.05 * n) + share * 1.05 * f for h, n, f in zip(here, near, far, strict=True)]
    step = AlongBoundary(100)
    point = point_at(BALLS[norm], (0.1, 0.0), loss, wrong=wrong)
    made = step.advance(point, step.fresh(BALLS[norm], point.scene, point.variable))
    assert entries(made) == pytest.approx(expected, abs=1e-6)


def test_the_last_three_steps_of_fab_are_taken_on_the_line_to_the_best_point() -> None:
    for taken, polished in ((96, False), (97, True), (99, True)):
        point = point_at(L2(), (0.1, 0.0), 0.1, wrong=True, taken=taken, best=(0.2, -0.1), best_loss=-0.3)
        step = AlongBoundary(100)
        made = entries(step.advance(point, step.fresh(L2(), point.scene, point.variable)))
        on_line = made[0] == pytest.approx(-2 * made[1], abs=1e-6)
        assert on_line is polished
        nothing = point_at(L2(), (0.1, 0.0), 0.1, wrong=True, taken=taken, best=(0.2, -0.1))
        walked = entries(step.advance(nothing, step.fresh(L2(), point.scene, point.variable)))
        assert walked[0] != pytest.approx(-2 * walked[1], abs=1e-6), "without a success there is no such line"


@pytest.mark.parametrize(("loss", "root"), [(0.05, 1 - 0.98 * 0.05 / 0.3), (0.3, 0.02), (0.0, 1.0)])
def test_the_line_meets_the_boundary_where_the_tangent_says_less_a_fiftieth(loss: float, root: float) -> None:
    """At (0.1, -0.1) the slope along the line is 0.1 + 0.2."""
    assert float(_root(point_at(L2(), (0.1, -0.1), loss))) == pytest.approx(root, abs=1e-6)


def test_the_final_search_remembers_what_failed_as_a_share_of_the_best_point() -> None:
    """A success at the share tried makes that point the best: what failed lies at a larger share of it."""
    step = AlongBoundary(100)
    point = point_at(L2(), (0.1, -0.1), 0.06, wrong=True, taken=97, best=(0.1, -0.1), best_loss=-0.2)
    state = step.fresh(L2(), point.scene, point.variable)
    first = float(step._polished(point, state))
    assert first == pytest.approx(1 - 0.98 * 0.2)
    assert float(state["under"]) == 0
    # it failed: halfway between it and the best
    failed = point_at(L2(), (0.08, -0.08), -0.01, taken=98, best=(0.1, -0.1), best_loss=-0.2)
    second = float(step._polished(failed, state))
    assert float(state["under"]) == pytest.approx(first)
    assert second == pytest.approx((first + 1) / 2)
    # it succeeded: the best is now there, and the tangent at it says where to go on
    found = point_at(L2(), (0.09, -0.09), 0.009, wrong=True, taken=99, best=(0.09, -0.09), best_loss=-0.18)
    third = float(step._polished(found, state))
    assert float(state["under"]) == pytest.approx(first / second)
    assert third == pytest.approx(1 - 0.98 * 0.009 / 0.27)


@pytest.mark.parametrize("norm", BALLS)
@pytest.mark.parametrize(("gap", "low"), [(0.4, -1.0), (-0.4, -1.0), (0.0, -1.0)])
def test_the_nearest_point_of_a_plane_is_a_multiple_of_the_unit_plane_s(norm: str, gap: float, low: float) -> None:
    box = torch.ones(1, 2)
    made = onto_plane(norm, torch.tensor([WEIGHT]), torch.tensor([gap]), low * box, box)
    assert entries(made) == pytest.approx([gap * u for u in UNIT[norm]], abs=1e-6)
    assert float(dual_norm(norm, torch.tensor(WEIGHT))) == pytest.approx({"linf": 3, "l2": 5**0.5, "l1": 2}[norm])


@pytest.mark.parametrize(("norm", "expected"), [("linf", (0.3, -0.05)), ("l2", (0.3, -0.05)), ("l1", (0.3, -0.05))])
def test_an_entry_out_of_room_leaves_the_rest_to_the_others(norm: str, expected: tuple[float, float]) -> None:
    """⟨w, d⟩ = 0.4 with the second entry held at -0.05: it brings 0.1, and the first has to bring 0.3."""
    low, high = torch.tensor([[-1.0, -0.05]]), torch.tensor([[1.0, 1.0]])
    made = onto_plane(norm, torch.tensor([WEIGHT]), torch.tensor([0.4]), low, high)
    assert entries(made) == pytest.approx(expected, abs=1e-6)
    beyond = onto_plane(norm, torch.tensor([WEIGHT]), torch.tensor([9.0]), low, high)
    assert entries(beyond) == pytest.approx([1.0, -0.05]), "where the plane is out of reach all go as far as they can"


@pytest.mark.parametrize("norm", BALLS)
def test_the_balls_of_fmn_over_five_steps(norm: str) -> None:
    """Radii by hand: to the plane and 5 % more, then less where it is broken, more where not, by a falling pace."""
    step, ball = AdaptiveBall(10), BALLS[norm]
    dual = {"linf": 3.0, "l2": math.sqrt(5), "l1": 2.0}[norm]
    limit = math.inf
    state = {"limit": torch.full((1,), torch.inf)}
    smallest = math.inf
    for taken, loss, found in ((0, -0.3, math.inf), (1, 0.02, 0.2), (2, 0.01, 0.15), (3, -0.01, 0.15), (4, 0.3, 0.01)):
        variable, wrong, smallest = (0.02 * taken, 0.0), loss > 0, min(smallest, found)
        pace = 0.001 + 0.049 * (0.5 + 0.5 * math.cos(math.pi * taken / 10))
        if wrong:
            limit = min(limit * (1 - pace), smallest)
        elif smallest < math.inf:
            limit *= 1 + pace
        else:
            limit = (1 + pace) * (sized(norm, variable) + abs(loss) / dual)
        made = step.advance(point_at(ball, variable, loss, wrong=wrong, taken=taken, best_loss=-smallest), state)
        assert float(state["limit"]) == pytest.approx(limit, rel=1e-5)
        assert sized(norm, tuple(entries(made))) == pytest.approx(limit, rel=1e-4), (
            "a step of length one fills the ball"
        )  # type: ignore[arg-type]


# points that are wrong by less than rounding


def test_stretches_grow_fourfold_from_a_hundred_thousandth() -> None:
    steps = (1e-5, 4e-5, 1.6e-4, 6.4e-4, 2.56e-3, 1.024e-2, 4.096e-2, 0.16384, 0.65536)
    assert [stretch - 1 for stretch in STRETCHES] == pytest.approx(steps, rel=1e-6)


class Pixels(nn.Module):
    """The logits are the pixels, ten times over."""

    def forward(self, images: Tensor) -> Tensor:
        return 10 * images.flatten(1)


def pixels() -> TorchClassifier:
    return wrap(Pixels(), name="pixels", classes=2, channels=1)


def batch_of(*rows: tuple[float, float]) -> Batch:
    images = torch.tensor(rows).view(-1, 1, 1, 2)
    return Batch(images, torch.zeros(len(rows), dtype=torch.int64), tuple(map(str, range(len(rows)))))


def samples_at(attack: GradientAttack, batch: Batch, variable: Tensor, radius: float) -> tuple[SmallestPoints, Samples]:
    reach = torch.full((len(batch),), radius)
    active = ActiveSet(AskedModel(pixels(), attack), batch, Noise.of(0, batch.ids), reach, 9, None, 1)
    smallest, index = SmallestPoints(attack, active), torch.arange(len(batch))
    smallest.begin(pixels()(batch.images))
    run = torch.zeros_like(index)
    samples = active.new_samples(index, run, active.scene(index, run), variable)
    smallest.begin_run(samples)
    return smallest, samples


MINIMAL = GradientAttack(Linf(), margin, Steepest(0.3), 3, start="identity", keep="smallest", radius=math.inf)


def test_a_point_counts_once_another_class_leads_by_a_hundred_thousandth_of_the_largest_clean_logit() -> None:
    """Logits of 8 at most: a lead of 8e-5 is not enough, a little more is."""
    batch = batch_of((0.8, 0.3), (0.8, 0.3), (0.8, 0.3), (0.8, 0.3))
    clear = CLEAR * 8 / 10
    leads = torch.tensor([-0.01, 0.5 * clear, 2 * clear, 0.2])
    variable = torch.zeros(4, 1, 1, 2)
    variable[:, 0, 0, 1] = 0.5 + leads
    smallest, samples = samples_at(MINIMAL, batch, variable, 0.6)
    assert samples.state["clearance"].tolist() == pytest.approx([8e-5] * 4)
    logits = pixels()(batch.images + variable)
    value, success = smallest.value(samples, logits.argmax(1) != 0, logits)
    assert success.tolist() == [False, False, True, False], "the last is clear and too large"
    assert value.tolist() == pytest.approx([-math.inf, -math.inf, -0.5, -0.7], abs=1e-4)
    assert samples.state["unclear"].tolist() == pytest.approx([-math.inf, -0.5, -math.inf, -math.inf], abs=1e-4)
    torch.testing.assert_close(samples.state["unclear at"][1], variable[1])


def test_of_unclear_points_the_smallest_is_remembered() -> None:
    """The same lead of 4e-5, by a change of one pixel by 0.5 or of both by 0.25; of equal sizes the first is kept."""
    lead = 0.5 * CLEAR * 8 / 10
    near, equal, far = (-0.25, 0.25 + lead), (-0.2, 0.25 + lead), (0.0, 0.5 + lead)
    smallest, samples = samples_at(MINIMAL, batch_of((0.8, 0.3)), torch.zeros(1, 1, 1, 2), math.inf)
    for change, kept in ((far, far), (near, near), (equal, near), (far, near)):
        samples.variable = torch.tensor(change).view(1, 1, 1, 2)
        logits = pixels()(samples.images + samples.variable)
        smallest.value(samples, torch.tensor([True]), logits)
        assert entries(samples.state["unclear at"]) == pytest.approx(kept, abs=1e-7)
        assert float(samples.state["unclear"]) == pytest.approx(-max(map(abs, kept)), abs=1e-6)


def test_the_smallest_unclear_point_of_finished_samples_is_kept() -> None:
    batch = batch_of((0.8, 0.3), (0.8, 0.3), (0.8, 0.3))
    smallest, samples = samples_at(MINIMAL, batch, torch.full((3, 1, 1, 2), 0.1), math.inf)
    extra = smallest.active.extra
    extra["unclear"][:] = torch.tensor([-0.3, -0.1, -0.3])
    samples.state["unclear"] = torch.tensor([-0.2, -0.2, -0.2])
    samples.state["unclear at"] = torch.full((3, 1, 1, 2), 0.2)
    samples.done = torch.tensor([True, True, False])
    smallest.record(samples)
    assert extra["unclear"].tolist() == pytest.approx([-0.2, -0.1, -0.3])
    assert extra["unclear at"][:, 0, 0, 0].tolist() == pytest.approx([0.2, 0.0, 0.0])


@pytest.mark.parametrize(
    ("radius", "best", "broken", "size"),
    [
        (math.inf, -math.inf, True, 0.5 * (1 + 1e-5)),
        (math.inf, -0.4, True, 0.4),  # a smaller clear point is there already
        (0.5, -math.inf, True, 0.5),  # no room: wrong is enough inside a radius
    ],
)
def test_unclear_points_are_stretched_until_clear(radius: float, best: float, broken: bool, size: float) -> None:
    """A lead that is short of the clearance by a hair: the first stretch makes it clear, at one pass more."""
    batch = batch_of((0.8, 0.3))
    smallest, _ = samples_at(MINIMAL, batch, torch.zeros(1, 1, 1, 2), radius)
    active = smallest.active
    active.extra["clearance"][:] = 5e-5  # 0.5 · 1e-5 · 10 is what the first stretch brings
    active.extra["unclear"][:] = -0.5
    active.extra["unclear at"] = torch.tensor([0.0, 0.500001]).view(1, 1, 1, 2)
    active.result.best_value[:] = best
    active.result.broken[:] = math.isfinite(best)
    smallest.stretch()
    assert bool(active.result.broken) is broken
    assert float(active.result.best_value) == pytest.approx(-size, abs=1.5e-6)
    assert active.result.forwards.tolist() == [0 if math.isfinite(best) else 1 if radius == math.inf else 9]


# which version of a model is asked


class Fast(FastVersion):
    """Says what it is told to, and how often it was asked."""

    def __init__(self, logits: Tensor, *, error: float = 0.0) -> None:
        self.logits, self.error, self.asked = logits, error, 0

    def __call__(self, images: Tensor) -> Tensor:
        self.asked += len(images)
        return self.logits[: len(images)]


def test_clean_images_that_a_fast_version_calls_wrong_or_close_are_scored_again() -> None:
    """The label leads by 1 of 4, by 0.1 of 4 (close: 3 %), or not at all; the model itself says otherwise."""
    batch, model = batch_of((0.8, 0.3), (0.8, 0.3), (0.8, 0.3)), pixels()
    uneven = torch.tensor([[4.0, 3.0], [4.0, 3.9], [3.0, 4.0]])
    model.fast = Fast(uneven.clone())
    attack = GradientAttack(Linf(), margin, Steepest(0.3), 3, radius=0.1)
    logits, passes = AskedModel(model, attack).clean_logits(batch, width=3)
    torch.testing.assert_close(logits, torch.tensor([[4.0, 3.0], [8.0, 3.0], [8.0, 3.0]]))
    assert passes.tolist() == [1, 2, 2]
    known = Batch(batch.images, batch.labels, batch.ids, logits=uneven)
    again, passes = AskedModel(model, attack).clean_logits(known, width=3)
    assert torch.equal(again, uneven)
    assert passes.tolist() == [1, 1, 1]
    model.fast = None
    nobody = Batch(batch.images[:0], batch.labels[:0], ())
    assert AskedModel(model, attack).clean_logits(nobody, width=2)[0].shape == (0, 2)
    exact, passes = AskedModel(model, attack).clean_logits(batch, width=2)
    assert exact[:, 0].tolist() == pytest.approx([8.0] * 3)
    assert passes.tolist() == [1, 1, 1]


def test_a_fast_version_serves_only_attacks_that_confirm_and_that_it_is_strong_enough_for() -> None:
    model, attack = pixels(), GradientAttack(Linf(), margin, Steepest(0.3), 3, radius=0.1)
    every = GradientAttack(Linf(), margin, Steepest(0.3), 3, stop_when_broken=False, radius=0.1)
    other = GradientAttack(L2(), margin, Steepest(0.3), 3, radius=0.1)
    fast = Fast(torch.zeros(3, 2))
    model.fast = fast
    assert AskedModel(model, attack).fast is fast
    assert AskedModel(model, every).fast is None
    fast.weak = frozenset({kind_of(attack)})
    assert AskedModel(model, attack).fast is None
    assert AskedModel(model, other).fast is fast
    assert kind_of(attack) == (Linf(), margin, "strongest")
    itself = AskedModel(model, other).without_fast()
    assert itself.fast is None
    assert isinstance(itself.model, ExactModel)
    torch.testing.assert_close(itself(torch.full((1, 1, 1, 2), 0.5)), torch.tensor([[5.0, 5.0]]))


@pytest.mark.parametrize(("error", "expected"), [(0.0, [False, False, True]), (0.5, [False, True, True])])
def test_a_lead_within_the_error_of_a_fast_version_may_be_broken(error: float, expected: list[bool]) -> None:
    model, labels = pixels(), torch.zeros(3, dtype=torch.int64)
    model.fast = Fast(torch.zeros(3, 2), error=error)
    asked = AskedModel(model, GradientAttack(Linf(), margin, Steepest(0.3), 3, radius=0.1))
    assert asked.is_broken(torch.tensor([[4.0, 3.0], [4.0, 3.6], [3.0, 4.0]]), labels).tolist() == expected


def confirmed(attack: GradientAttack, *, broken: bool, near: bool, done: bool, taken: int, right: bool) -> Samples:
    """One sample of a fast version, after the model itself was asked about its best point."""
    batch, model = batch_of((0.8, 0.3)), pixels()
    model.fast = Fast(torch.zeros(1, 2))
    active = ActiveSet(AskedModel(model, attack), batch, Noise.of(0, batch.ids), torch.tensor([0.1]), 1, None, 1)
    index = torch.zeros(1, dtype=torch.int64)
    samples = active.new_samples(index, index, active.scene(index, index), torch.zeros(1, 1, 1, 2))
    samples.best = torch.tensor([0.0, 0.4 if right else 0.6]).view(1, 1, 1, 2)
    samples.best_value, samples.taken = torch.tensor([0.7]), torch.tensor([taken])
    for name, marks in (("broken", broken), ("near", near), ("done", done)):
        setattr(samples, name, torch.tensor([marks]))
    active.model.confirm(samples)
    return samples


@pytest.mark.parametrize(
    ("broken", "near", "done", "taken", "right", "asked", "then_broken", "then_done"),
    [
        (True, False, True, 2, False, 1, True, True),  # confirmed
        (True, False, True, 2, True, 1, False, False),  # denied halfway: it goes on
        (True, False, True, 4, True, 1, False, True),  # denied at the end: it is over
        (False, True, True, 4, False, 1, True, True),  # finished near, and the model says it is wrong
        (False, True, False, 2, False, 0, False, False),  # near, but not finished
        (False, False, True, 4, False, 0, False, True),
    ],
)
def test_a_success_of_a_fast_version_is_confirmed(
    broken: bool,
    near: bool,
    done: bool,
    taken: int,
    right: bool,
    asked: int,
    then_broken: bool,
    then_done: bool,
) -> None:
    attack = GradientAttack(Linf(), margin, Steepest(0.3), 3, radius=0.1)
    samples = confirmed(attack, broken=broken, near=near, done=done, taken=taken, right=right)
    assert samples.forwards.tolist() == [asked]
    assert (samples.broken.tolist(), samples.done.tolist()) == ([then_broken], [then_done])
    kept = not asked or then_done
    assert samples.best_value.tolist() == pytest.approx([0.7 if kept else -math.inf])


def test_only_the_strongest_point_is_asked_about_when_it_is_near() -> None:
    last = GradientAttack(Linf(), margin, Steepest(0.3), 3, keep="last", radius=0.1)
    samples = confirmed(last, broken=False, near=True, done=True, taken=4, right=False)
    assert (samples.forwards.tolist(), samples.broken.tolist()) == ([0], [False])


# every step, for training


def test_training_takes_the_last_point_of_fixed_steps_and_the_best_of_automatic_ones() -> None:
    batch, noise = batch_of((0.8, 0.3), (0.55, 0.5)), Noise.of(0, ("0", "1"))
    steps = GradientAttack(Linf(), margin, Steepest(0.3), 2, start="identity", radius=0.1)
    made = last_images(steps, pixels(), batch, noise)
    torch.testing.assert_close(made, batch.images + torch.tensor([-0.06, 0.06]))
    own = GradientAttack(Linf(), margin, Automatic(4), 4, start="identity", radius=0.1)
    torch.testing.assert_close(last_images(own, pixels(), batch, noise), batch.images + torch.tensor([-0.1, 0.1]))
    once = GradientAttack(Linf(), margin, Automatic(1), 1, start="identity", radius=0.1)
    torch.testing.assert_close(last_images(once, pixels(), batch, noise), batch.images + torch.tensor([-0.1, 0.1]))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("pgd-linf", True),
        ("apgd-ce-l2", True),
        ("apgd-ce-l1", True),
        ("stadv", True),
        ("pgd-linf:restarts=2", False),
        ("apgd-t-linf", False),
        ("fmn-l2", False),
        ("jpeg-l1", False),
    ],
)
def test_training_asks_for_one_run_of_fixed_steps(text: str, fits: bool) -> None:
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, GradientAttack)
    assert takes_every_step(attack) is fits


def test_no_smallest_point_is_trained_on() -> None:
    attack = GradientAttack(Linf(), cross_entropy, Steepest(0.3), 3, keep="smallest", radius=0.1)
    assert not takes_every_step(attack)


# numbers at their ends


def test_without_a_gradient_fmn_stays_and_is_finite() -> None:
    point = point_at(L2(), (0.1, 0.0), -0.2, weight=(0.0, 0.0), best_loss=-0.3)
    state = {"limit": torch.tensor([0.2])}
    assert entries(AdaptiveBall(10).advance(point, state)) == pytest.approx([0.1, 0.0])


@pytest.mark.parametrize("norm", BALLS)
def test_an_entry_beyond_its_box_by_rounding_does_not_move_the_wrong_way(norm: str) -> None:
    high = torch.tensor([[-1e-3, 1.0]])
    made = onto_plane(norm, torch.tensor([[1.0, 1.0]]), torch.tensor([0.4]), torch.tensor([[-1.0, -1.0]]), high)
    assert entries(made) == pytest.approx([0.0, 0.4], abs=1e-6)


def test_what_is_stretched_stays_a_valid_image() -> None:
    """The third stretch, by 1.6e-4, would take the second pixel beyond white; the first one then has to do."""
    smallest, _ = samples_at(MINIMAL, batch_of((0.8, 0.3)), torch.zeros(1, 1, 1, 2), math.inf)
    active = smallest.active
    active.extra["clearance"][:] = 4.0001
    active.extra["unclear"][:] = -0.6999
    active.extra["unclear at"] = torch.tensor([-0.2, 0.6999]).view(1, 1, 1, 2)
    smallest.stretch()
    assert active.result.broken.tolist() == [True]
    assert active.result.forwards.tolist() == [3]
    assert entries(active.result.variable) == pytest.approx([-0.2 * (1 + 1.6e-4), 0.7], abs=1e-7)
    assert float(active.result.best_value) == pytest.approx(-0.7, abs=1e-7)


# sweeps


class Rising(Attack):
    """Sets the first pixel to the radius; the model is wrong where that passes the second pixel. Notes what it got."""

    radius = math.nan

    def __init__(self) -> None:
        self.radii: list[list[float]] = []
        self.firsts: list[list[float] | None] = []

    @property
    def cost(self) -> Cost:
        return Cost(10, 5)

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        self.radii.append(radius.tolist())
        self.firsts.append(None if first is None else first.flatten().tolist())
        images = batch.images.clone()
        images[:, 0, 0, 0] = radius
        passes = torch.full((len(batch),), 3)
        broken = images[:, 0, 0, 0] > images[:, 0, 0, 1]
        return AttackResult(
            images, size=radius.clone(), broken=broken, forwards=passes, backwards=passes - 1, variable=radius + 1
        )


class Passes(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        lead = images[:, 0, 0, 0] - images[:, 0, 0, 1]
        return torch.stack([torch.zeros_like(lead), lead], dim=1)


RADII = (0.1, 0.2, 0.3, 0.4)
THRESHOLDS = {-0.5: 0.0, 0.05: 0.1, 0.15: 0.2, 0.25: 0.3, 0.35: 0.4, 0.9: math.inf}


def swept(**how: bool) -> tuple[Rising, AttackResult]:
    model = wrap(Passes(), name="passes", classes=2, channels=1)
    attack, batch = Rising(), batch_of(*((0.0, level) for level in THRESHOLDS))
    radius = torch.full((len(batch),), math.nan)
    return attack, Sweep(attack, RADII, **how).attempt(model, batch, Noise.of(0, batch.ids), radius, width=2)


@pytest.mark.parametrize("warm", [False, True])
def test_a_sweep_finds_every_threshold_of_its_grid(warm: bool) -> None:
    attack, made = swept(warm=warm)
    assert made.radius is not None
    assert made.radius.tolist() == pytest.approx(list(THRESHOLDS.values()))
    assert made.broken.tolist() == [True] * 5 + [False]
    # what is shown is the image at the threshold, or at the largest radius
    assert made.images[:, 0, 0, 0].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4])
    assert made.size.tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4])
    assert len(attack.radii[0]) == 5, "who is wrong already is not attacked"
    if warm:
        # an attack at r ends at r + 1 here; the next one begins there times its own radius over r
        before, now, first = attack.radii[0][0], attack.radii[1], attack.firsts[1]
        assert attack.firsts[0] is None
        assert first == pytest.approx([(before + 1) * radius / before for radius in now])
    else:
        assert attack.firsts == [None] * len(attack.firsts)


def test_an_exhaustive_sweep_attacks_at_every_radius_from_the_largest_down() -> None:
    attack, made = swept(exhaustive=True, warm=True)
    for radii, radius in zip(attack.radii[-4:], reversed(RADII), strict=True):
        assert radii == pytest.approx([radius] * 5)
    assert attack.firsts[-4:] == [None] * 4, "from where each attack begins alone"
    assert made.radius is not None
    assert made.radius.tolist() == pytest.approx(list(THRESHOLDS.values()))
    assert made.tallies["samples swept"] == 5
    assert made.tallies["samples that broke below a radius they withstood"] == 0
    assert made.tallies["samples whose search ends elsewhere"] == 0
    # passes are those of the search too; each attack takes three and two, and a success one more to confirm it
    search = swept(warm=True)[1]
    successes = torch.tensor([0, 4, 3, 2, 1, 0])
    attacked = torch.tensor([0, 4, 4, 4, 4, 4])
    assert torch.equal(made.forwards - search.forwards, 1 + 3 * attacked + successes)
    assert torch.equal(made.backwards - search.backwards, 2 * attacked)


def average(tree: tuple[int, ...], n: int) -> float:
    """The mean cost of a search over n places: where to attack goes by the distance; a success costs a fifth."""
    total = 0.0
    for threshold in range(1, n + 1):  # broken from this index on
        low, high = 0, n
        while high - low > 1:
            at = low + tree[high - low]
            if at >= threshold:
                high, total = at, total + 0.2
            else:
                low, total = at, total + 1.0
    return total / n


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_search_is_the_cheapest_of_all(n: int) -> None:
    trees = itertools.product(*(range(1, distance) for distance in range(2, n + 1)))
    best = min(average((0, 0, *tree), n) for tree in trees)
    assert average(splits(n), n) == pytest.approx(best)
    assert splits(n)[:2] == (0, 0)


def test_the_longest_search_is_that_of_the_worst_threshold() -> None:
    for n in (2, 3, 5, 9, 21):
        tree, longest = splits(n), 0
        for threshold in range(1, n + 1):
            low, high, count = 0, n, 0
            while high - low > 1:
                at, count = low + tree[high - low], count + 1
                low, high = (low, at) if at >= threshold else (at, high)
            longest = max(longest, count)
        assert depth(n) == longest
    assert Sweep(Rising(), RADII).cost == Cost((10 + 1) * depth(5) + 1, 5 * depth(5))
    assert Sweep(Rising(), RADII, exhaustive=True).cost == Cost((10 + 1) * (4 + depth(5)) + 1, 5 * (4 + depth(5)))
