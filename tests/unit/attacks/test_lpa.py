"""The Lagrangian perceptual attacks: the step, the price of distance, and what comes of them."""

from __future__ import annotations

import pytest
import torch
from fashion import attacked, batch, model
from torch import Tensor, nn

from holdfast.attacks.attack import Attack
from holdfast.attacks.perceptual.lpa import Excess, Lagrange, fast_lpa, lpa
from holdfast.attacks.perceptual.lpips import distance, network_for
from holdfast.attacks.perceptual.lpips_ball import LpipsBall
from holdfast.attacks.steps import Point
from holdfast.attacks.success import is_within, is_wrong
from holdfast.attacks.threat import Scene, scene_of
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise

RADIUS = 0.4


def smooth_scene(radius: float) -> tuple[LpipsBall, Scene]:
    """A small smooth network, in whose eyes a small step is nearly straight."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Softplus()).requires_grad_(False)
    ball = LpipsBall(lambda images: [net(images)])
    images = 0.3 + 0.4 * torch.rand(3, 1, 8, 8)
    noise = Noise.of(0, ("a", "b", "c"))
    return ball, scene_of(ball, images, torch.full((3,), radius), noise, torch.zeros(3, dtype=torch.int64))


def point_at(ball: LpipsBall, scene: Scene, variable: Tensor, taken: int) -> Point:
    gradient = torch.sin(torch.arange(scene.images.numel()).float()).view_as(scene.images)
    nothing = torch.zeros(len(scene))
    return Point(
        ball,
        scene,
        variable,
        gradient,
        nothing,
        nothing.bool(),
        torch.full((len(scene),), taken),
        variable,
        nothing,
    )


@pytest.mark.parametrize(("taken", "share"), [(0, 1.0), (5, 0.1**0.5), (9, 0.1**0.9), (10, 1.0)])
def test_a_step_moves_the_features_by_its_length(taken: int, share: float) -> None:
    """The length falls from the radius to a tenth of it, and starts anew with every round."""
    ball, scene = smooth_scene(radius=0.002)
    step = Lagrange(steps=10, rounds=2)
    variable = ball.identity(scene)
    moved = step.advance(point_at(ball, scene, variable, taken), step.fresh(ball, scene, variable))
    torch.testing.assert_close(ball.size(scene, moved), 0.002 * share * torch.ones(3), rtol=0.05, atol=0)


def test_the_price_grows_tenfold_where_a_round_ends_outside() -> None:
    ball, scene = smooth_scene(radius=0.002)
    step = Lagrange(steps=4, rounds=3)
    gradient = point_at(ball, scene, ball.identity(scene), 0).gradient
    variable = gradient * torch.tensor([0.0, 0.1, 0.1])[:, None, None, None]
    assert (ball.size(scene, variable) > scene.radius).tolist() == [False, True, True]
    state = step.fresh(ball, scene, variable)
    prices = []
    for taken in range(8):
        step.advance(point_at(ball, scene, variable, taken), state)
        prices.append(state["price"].tolist())
    assert prices[:3] == [pytest.approx([0.01, 0.01, 0.01])] * 3
    assert prices[3:7] == [pytest.approx([0.01, 0.1, 0.1])] * 4
    assert prices[7] == pytest.approx([0.01, 1.0, 1.0])


def test_the_fast_price_rises_from_one_to_ten() -> None:
    ball, scene = smooth_scene(radius=0.002)
    step, variable = Lagrange(steps=4, rising=True), ball.identity(scene)
    state = step.fresh(ball, scene, variable)
    prices = [float(state["price"][0])]
    for taken in range(4):
        step.advance(point_at(ball, scene, variable, taken), state)
        prices.append(float(state["price"][0]))
    assert prices == pytest.approx([10 ** (0.25 * t) for t in range(5)], rel=1e-5)


def test_only_the_distance_beyond_the_radius_is_paid_for() -> None:
    ball, scene = smooth_scene(radius=0.002)
    variable = point_at(ball, scene, scene.images, 0).gradient * torch.tensor([0.0, 0.0001, 0.1])[:, None, None, None]
    size = ball.size(scene, variable)
    price = torch.tensor([3.0, 3.0, 3.0])
    paid = Excess(ball)(scene, variable, {"price": price})
    assert paid[:2].tolist() == [0.0, 0.0]
    assert float(paid[2]) == pytest.approx(3.0 * (float(size[2]) - 0.002), rel=1e-5)


def test_the_last_step_ends_inside_and_others_need_not() -> None:
    ball, scene = smooth_scene(radius=0.002)
    step = Lagrange(steps=2, rounds=2)
    outside = 0.1 * point_at(ball, scene, scene.images, 0).gradient
    sizes = [
        ball.size(scene, step.advance(point_at(ball, scene, outside, taken), step.fresh(ball, scene, outside)))
        for taken in range(4)
    ]
    assert all(bool((size > 0.004).all()) for size in sizes[:3])
    assert bool(is_within(sizes[3], scene.radius).all())


@pytest.mark.parametrize(
    ("attack", "least"), [(lpa(radius=RADIUS, steps=5, rounds=3), 0.4), (fast_lpa(radius=RADIUS, steps=10), 0.2)]
)
def test_they_break_images_and_stay_inside(attack: Attack, least: float) -> None:
    """At this size noise breaks none of them: see the tests of PPGD."""
    changed, broken = attacked(attack)
    assert float(broken.float().mean()) >= least
    assert not changed.reasons
    far = distance(network_for("self", model(), batch().images), batch().images, changed.images)
    assert bool(is_within(far, torch.full_like(far, RADIUS)).all())
    torch.testing.assert_close(far, changed.size, rtol=1e-4, atol=1e-6)
    assert int(changed.forwards.max()) <= attack.cost.forwards
    assert int(changed.backwards.max()) <= attack.cost.backwards


def test_no_room_changes_nothing() -> None:
    changed, broken = attacked(lpa(radius=0.0, steps=2, rounds=2))
    assert not bool(broken.any())
    assert changed.size.tolist() == [0.0] * 16
    torch.testing.assert_close(changed.images, batch().images, rtol=0, atol=1e-6)


def test_the_width_does_not_matter() -> None:
    attack = lpa(radius=0.2, steps=3, rounds=2)
    (one, broken), (other, again) = attacked(attack), attacked(attack, width=5)
    assert torch.equal(broken, again)
    torch.testing.assert_close(one.images, other.images, rtol=0, atol=1e-3)


def test_every_pass_through_the_model_is_counted_and_none_is_made_twice() -> None:
    some, passed = batch(), 0

    def count(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        nonlocal passed
        passed += len(args[0])

    hook = model().register_forward_pre_hook(count)
    try:
        changed = lpa(radius=0.1, steps=4, rounds=2)(model(), some, Noise.of(0, some.ids), width=16)
    finally:
        hook.remove()
    assert int(changed.forwards.sum()) == passed - 1, "all but the grey image that shows the stages"
    # of the loop 1 + 9; features: clean 2, of each step's point and probe 2 · 8, of the last point 1; the rest projects
    least = 1 + 9 + 2 + 2 * 8 + 1
    survivors = changed.forwards[~is_wrong(model()(changed.images), some.labels)]
    assert bool((survivors >= least + 3).all())
    assert bool((survivors <= least + 3 * 16 + 1).all())


def test_numbers_that_mean_nothing_are_refused() -> None:
    for wrong in ({"radius": -0.1}, {"steps": 0}, {"rounds": 0}, {"restarts": 0}):
        with pytest.raises(Misuse):
            lpa(**wrong)
