"""The LPIPS ball and what moves in it, on networks whose distance can be written down.

A network that shows (cos θx, sin θx) for every pixel has activations of length one, so that two images lie
√(mean of 4 sin²(θd / 2)) apart, where d is how far a pixel moved.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from holdfast.attacks.perceptual import lpips_ball
from holdfast.attacks.perceptual.lpa import Lagrange
from holdfast.attacks.perceptual.lpips import Look
from holdfast.attacks.perceptual.lpips_ball import LpipsBall, PassCounts
from holdfast.attacks.steps import Point
from holdfast.attacks.threat import Scene, scene_of
from holdfast.core.noise import Noise

THETA = 2.0


def turning(theta: float | Tensor = THETA) -> Look:
    return lambda images: [torch.cat([(theta * images).cos(), (theta * images).sin()], dim=1)]


def scene_for(ball: LpipsBall, images: Tensor, radius: float) -> Scene:
    n = len(images)
    reach = torch.full((n,), radius, dtype=images.dtype)
    return scene_of(ball, images, reach, Noise.of(0, [str(i) for i in range(n)]), torch.zeros(n, dtype=torch.int64))


def pixel(value: float) -> Tensor:
    return torch.full((1, 1, 1, 1), value, dtype=torch.float64)


def far(moved: float) -> float:
    return 2 * abs(math.sin(THETA * moved / 2))


def test_distances_are_chords_of_the_turn() -> None:
    ball = LpipsBall(turning())
    images = torch.full((1, 1, 1, 3), 0.2, dtype=torch.float64)
    moves = (0.3, 0.0, -0.1)
    size = ball.size(scene_for(ball, images, 1.0), torch.tensor(moves, dtype=torch.float64).view(1, 1, 1, 3))
    assert float(size) == pytest.approx(math.sqrt(sum(far(moved) ** 2 for moved in moves) / 3))


def bent(images: Tensor) -> list[Tensor]:
    """Turns by 2x²: a distance that bends upwards, so that Newton's steps come from outside and take several."""
    turn = 2 * images.square()
    return [torch.cat([turn.cos(), turn.sin()], dim=1)]


def bent_far(moved: float) -> float:
    return 2 * math.sin(moved**2)


def bent_slope(moved: float) -> float:
    return 4 * moved * math.cos(moved**2)


def halved(moved: float, radius: float) -> float:
    """The most of 1024 parts of the way from the clean image that lie inside; all of it where that does."""
    parts = (
        1024 if bent_far(moved) <= radius else next(k for k in range(1024) if bent_far((k + 1) / 1024 * moved) > radius)
    )
    return parts / 1024 * moved


@pytest.mark.parametrize(("radius", "steps"), [(0.9, 1), (0.5, 2), (0.3, 3), (0.1, 4), (0.01, 5), (0.001, 6)])
def test_a_projection_takes_five_newton_steps_to_a_hundredth_inside_and_then_halves(radius: float, steps: int) -> None:
    moved, taken = 0.9, 0
    while bent_far(moved) > radius and taken < 5:
        moved -= (bent_far(moved) - 0.99 * radius) / bent_slope(moved)
        taken += 1
    arrived = bent_far(moved) <= radius
    assert (taken if arrived else 6) == steps, "the test has cases of all kinds"
    ball = LpipsBall(bent)
    made = ball.project(scene_for(ball, pixel(0.0), radius), pixel(0.9))
    assert float(made) == pytest.approx(moved if arrived else halved(moved, radius), rel=1e-6)


@pytest.mark.parametrize(("radius", "steps"), [(0.9, 1), (0.1, 2), (0.05, 3), (0.02, 5), (0.003, 6), (0.001, 7)])
def test_a_published_projection_adds_up_slopes_and_aims_a_tenth_inside(radius: float, steps: int) -> None:
    """Each step by 1.1 times the excess and a tenth; later ones are shorter by the slopes before."""
    moved, total, taken = 0.9, 0.0, 0
    while bent_far(moved) > radius and taken < 10:
        total += bent_slope(moved)
        moved = max(moved - 1.1 * (bent_far(moved) - radius + 0.1) / total, 0.0)
        taken += 1
    ball = LpipsBall(bent, published=True)
    made = ball.project(scene_for(ball, pixel(0.0), radius), pixel(0.9))
    assert taken == steps
    assert float(made) == pytest.approx(moved, rel=1e-6)


@pytest.mark.parametrize(("over", "stays"), [(4e-5, True), (2e-4, False), (0.0, True)])
def test_what_was_projected_stays_where_rounding_puts_it(over: float, stays: bool) -> None:
    """Half of what a result may be outside is left as it is."""
    ball, radius = LpipsBall(turning()), 0.5
    moved = pixel(2 * math.asin(radius * (1 + over) / 2) / THETA)
    assert torch.equal(ball.project(scene_for(ball, pixel(0.0), radius), moved), moved) is stays


def stepped(images: Tensor) -> list[Tensor]:
    """Turns by one all at once where a pixel exceeds 0.6: there is no slope to follow."""
    turn = (images > 0.6).to(images.dtype) + 0.0 * images
    return [torch.cat([turn.cos(), turn.sin()], dim=1)]


@pytest.mark.parametrize("slope", [0.0, 1.0, -1.0])
def test_a_slope_that_is_no_number_moves_nothing(slope: float) -> None:
    """Infinite, or zero times infinite, where a root begins: the step is left out, and halvings follow."""

    def look(images: Tensor) -> list[Tensor]:
        turn = (images > 0.6).to(images.dtype) + slope * (images - images.detach()).sqrt()
        return [torch.cat([turn.cos(), turn.sin()], dim=1)]

    ball = LpipsBall(look)
    made = ball.project(scene_for(ball, pixel(0.3), 0.5), pixel(0.5))
    assert float(made) == pytest.approx(math.floor(0.3 / 0.5 * 1024) / 1024 * 0.5, rel=1e-9)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("moved", [0.9, 0.43, 0.32])
def test_without_a_slope_ten_halvings_find_the_farthest_point_inside(moved: float, published: bool) -> None:
    """From 0.3 on it is outside: of the 1024 parts of the way, as many as stay below."""
    ball = LpipsBall(stepped, published=published)
    made = ball.project(scene_for(ball, pixel(0.3), 0.5), pixel(min(moved, 0.7)))
    way = min(moved, 0.7)
    assert float(made) == pytest.approx(math.floor((0.6 - 0.3) / way * 1024) / 1024 * way, rel=1e-9)


@pytest.mark.parametrize(("published", "newton"), [(False, 5), (True, 10)])
def test_a_projection_costs_its_newton_steps_and_eleven_looks(published: bool, newton: int) -> None:
    """Two samples know their passes by the keys of their noise; the one that is inside takes one look."""
    noise, draw = Noise.of(0, ("a", "b")), torch.zeros(2, dtype=torch.int64)
    counts = PassCounts(noise)
    ball = LpipsBall(stepped, counts=counts, published=published)
    images, radius = pixel(0.3).expand(2, 1, 1, 1), torch.full((2,), 0.5, dtype=torch.float64)
    scene = scene_of(ball, images, radius, noise, draw)
    assert counts.forwards.tolist() == [1, 1], "the clean images"
    ball.project(scene, torch.cat([pixel(0.5), pixel(0.1)]))
    assert counts.forwards.tolist() == [1 + newton + 11, 1 + 1]
    assert counts.backwards.tolist() == [newton, 0]


def test_halvings_keep_what_is_inside_already() -> None:
    ball = LpipsBall(turning())
    scene = scene_for(ball, pixel(0.0), 0.5)
    assert float(ball._halved(scene, pixel(0.2))) == pytest.approx(0.2)
    found = float(ball._halved(scene, pixel(0.9)))
    assert far(found) <= 0.5 < far(found + 0.9 / 1024)


def test_starts_are_noise_of_a_hundredth_or_brought_to_the_border_from_a_half() -> None:
    images = torch.full((3, 1, 4, 4), 0.5)
    noise, draw = Noise.of(0, "abc"), torch.zeros(3, dtype=torch.int64)
    drawn = noise.normal("start", (1, 4, 4), draw=draw)
    for published in (False, True):
        ball = LpipsBall(turning(), published=published)
        scene = scene_for(ball, images, 1.5)  # so large that little is outside
        torch.testing.assert_close(ball.start(scene, noise, draw), 0.01 * drawn)
        border = ball.start(scene, noise, draw, border=True)
        torch.testing.assert_close(border, 0.5 * drawn if published else ball.project(scene, 0.5 * drawn))
    ball = LpipsBall(turning())
    small = scene_for(ball, images, 0.005)
    assert bool((ball.size(small, ball.start(small, noise, draw)) <= 0.00501).all())


@pytest.mark.parametrize(("published", "seen"), [(True, 0.9), (False, 0.4)])
def test_only_the_published_ball_looks_beyond_valid_images(published: bool, seen: float) -> None:
    ball = LpipsBall(turning(), published=published)
    assert float(ball.far(scene_for(ball, pixel(0.6), 1.0), pixel(0.9))) == pytest.approx(far(seen))


SPEEDS = (1.0, 2.0, 5.0)


def ball_of_speeds(images: Tensor, *, published: bool, conjugate: int = 3) -> LpipsBall:
    """Pixels that turn at their own speed: the derivative of the features is θᵢ / √3 for each pixel alone."""
    return LpipsBall(turning(torch.tensor(SPEEDS, dtype=images.dtype)), conjugate, published=published)


@pytest.mark.parametrize("published", [False, True])
def test_the_steepest_ascent_divides_by_the_squares_of_the_speeds(
    published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(JᵀJ + ridge)v = g, of length |Jv| = 1; the ridge is a twentieth of |Jg|² / |g|², and none as published."""
    monkeypatch.setattr(lpips_ball, "NUDGE", 1e-6)
    monkeypatch.setattr(lpips_ball, "PUBLISHED_NUDGE", 1e-6)
    images = torch.full((1, 1, 1, 3), 0.5, dtype=torch.float64)
    gradient = (0.3, -0.4, 1.2)
    ball = ball_of_speeds(images, published=published)
    scene = scene_for(ball, images, 0.5)
    way = ball.ascent(
        scene, 0.01 * torch.ones_like(images), torch.tensor(gradient, dtype=torch.float64).view(1, 1, 1, 3)
    )
    bends = [speed**2 / 3 for speed in SPEEDS]
    ridge = 0.0
    if not published:
        along = sum(bend * g**2 for bend, g in zip(bends, gradient, strict=True))
        ridge = 0.05 * along / sum(g**2 for g in gradient)
    plain = [g / (bend + ridge) for bend, g in zip(bends, gradient, strict=True)]
    length = math.sqrt(sum(bend * v**2 for bend, v in zip(bends, plain, strict=True)))
    assert way.flatten().tolist() == pytest.approx([v / length for v in plain], rel=1e-4)


@pytest.mark.parametrize("published", [False, True])
def test_derivatives_are_differences_along_a_step_of_known_length(published: bool) -> None:
    """A twentieth of a unit whatever the direction's length; as published a thousandth of the direction."""
    ball = LpipsBall(turning(), published=published)
    scene = scene_for(ball, pixel(0.5), 0.5)
    here = torch.tensor([[math.cos(1.0), math.sin(1.0)]], dtype=torch.float64)
    for along in (4.0, 0.25):
        step = 1e-3 * along if published else 0.05
        after = torch.tensor([[math.cos(1.0 + THETA * step), math.sin(1.0 + THETA * step)]], dtype=torch.float64)
        made = ball._derivative(scene, pixel(0.0), pixel(along), here)
        torch.testing.assert_close(made, (after - here) * (along / step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("size", "moves"), [(0.9e-4, False), (1.1e-4, True)])
def test_a_gradient_below_a_ten_thousandth_gives_no_direction(size: float, moves: bool) -> None:
    images = torch.full((1, 1, 1, 3), 0.5, dtype=torch.float64)
    ball = ball_of_speeds(images, published=False)
    gradient = torch.tensor([0.0, size, 0.0], dtype=torch.float64).view(1, 1, 1, 3)
    way = ball.ascent(scene_for(ball, images, 0.5), torch.zeros_like(images), gradient)
    assert bool((way != 0).any()) is moves


@pytest.mark.parametrize(("taken", "share"), [(0, 1.0), (2, 0.1**0.5), (3, 0.1**0.75), (4, 1.0)])
@pytest.mark.parametrize("way", [1.0, -1.0])
def test_a_step_of_lpa_goes_as_far_as_a_probe_of_a_tenth_says(taken: int, share: float, way: float) -> None:
    ball, radius, here = LpipsBall(turning()), 0.05, 0.1
    scene, step = scene_for(ball, pixel(0.5), radius), Lagrange(steps=4, rounds=3, flat=0.01)
    variable, nothing = pixel(here), torch.zeros(1, dtype=torch.float64)
    count = torch.full((1,), taken)
    point = Point(ball, scene, variable, pixel(3 * way), nothing, nothing > 0, count, variable, nothing)
    moved = step.advance(point, step.fresh(ball, scene, variable))
    stride = radius * share / (far(0.1) / 0.1 + 0.01)
    assert float(moved) == pytest.approx(here + way * stride, rel=1e-9)


def test_a_step_of_lpa_keeps_to_valid_images() -> None:
    ball = LpipsBall(turning())
    scene, step = scene_for(ball, pixel(0.9), 0.9), Lagrange(steps=4)
    variable, nothing = pixel(0.0), torch.zeros(1, dtype=torch.float64)
    point = Point(ball, scene, variable, pixel(1.0), nothing, nothing > 0, torch.zeros(1), variable, nothing)
    assert float(step.advance(point, step.fresh(ball, scene, variable))) == pytest.approx(0.1)


@pytest.mark.parametrize(("size", "price"), [(1.0, 0.1), (0.999, 0.01)])
def test_who_ends_a_round_of_lpa_on_the_border_pays_ten_times_as_much(size: float, price: float) -> None:
    ball, radius = LpipsBall(turning()), 0.5
    scene, step = scene_for(ball, pixel(0.0), radius), Lagrange(steps=2, rounds=3)
    variable = pixel(2 * math.asin(radius * size / 2) / THETA)
    within = Scene(scene.images, ball.size(scene, variable) / size, scene.props)
    nothing = torch.zeros(1, dtype=torch.float64)
    point = Point(ball, within, variable, pixel(1.0), nothing, nothing > 0, torch.ones(1), variable, nothing)
    state = step.fresh(ball, within, variable)
    step.advance(point, state)
    assert float(state["price"]) == pytest.approx(price)
