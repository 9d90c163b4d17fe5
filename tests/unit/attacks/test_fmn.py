"""FMN: how its ball grows and shrinks, its schedule, and what a radius changes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.attacks.recipes.fmn import AdaptiveBall
from holdfast.attacks.recipes.hyperplane import dual_norm
from holdfast.attacks.steps import Point
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier

BALLS = {"linf": Linf(), "l2": L2(), "l1": L1()}
each_norm = pytest.mark.parametrize("norm", BALLS)
N, SHAPE = 3, (1, 4, 4)


def point_at(threat: Ball, *, wrong: bool, smallest: float = torch.inf, taken: int = 0) -> Point:
    random = torch.Generator().manual_seed(0)
    images = 0.5 + 0.2 * torch.rand(N, *SHAPE, generator=random)
    variable = 0.05 * torch.randn(N, *SHAPE, generator=random)
    loss = torch.rand(N, generator=random) * (1 if wrong else -1)
    return Point(
        threat,
        Scene(images, torch.full((N,), torch.inf)),
        variable,
        torch.randn(N, *SHAPE, generator=random),
        loss,
        torch.full((N,), wrong),
        torch.full((N,), taken),
        variable,
        torch.full((N,), -smallest),
    )


def stepped(point: Point, limit: float = torch.inf, **how: float) -> tuple[Tensor, Tensor]:
    step = AdaptiveBall(100, **how)
    state = {"limit": torch.full((N,), limit)}
    return step.advance(point, state), state["limit"]


@each_norm
def test_before_anything_is_found_the_ball_reaches_beyond_the_tangent_plane(norm: str) -> None:
    point = point_at(BALLS[norm], wrong=False)
    plane = BALLS[norm].norm(point.variable) + point.loss.abs() / dual_norm(norm, point.gradient.flatten(1))
    torch.testing.assert_close(stepped(point)[1], 1.05 * plane)


@each_norm
def test_the_ball_shrinks_while_broken_and_grows_while_not(norm: str) -> None:
    broken = point_at(BALLS[norm], wrong=True, smallest=0.3)
    torch.testing.assert_close(stepped(broken, limit=0.2)[1], torch.full((N,), 0.2 * 0.95))
    torch.testing.assert_close(stepped(broken, limit=0.9)[1], torch.full((N,), 0.3))
    whole = point_at(BALLS[norm], wrong=False, smallest=0.3)
    torch.testing.assert_close(stepped(whole, limit=0.2)[1], torch.full((N,), 0.2 * 1.05))


@each_norm
def test_the_ball_is_never_larger_than_the_box(norm: str) -> None:
    point = point_at(BALLS[norm], wrong=False, smallest=1e6)
    images = point.scene.images
    torch.testing.assert_close(stepped(point, limit=1e6)[1], BALLS[norm].norm(torch.maximum(images, 1 - images)))


@each_norm
def test_a_step_keeps_to_its_ball_and_the_box(norm: str) -> None:
    point = point_at(BALLS[norm], wrong=False, smallest=1.0)
    moved, limit = stepped(point, limit=0.4)
    assert bool((BALLS[norm].norm(moved) <= limit * (1 + 1e-5)).all())
    assert float((point.scene.images + moved).min()) >= 0
    assert float((point.scene.images + moved).max()) <= 1 + 1e-6


@pytest.mark.parametrize(("taken", "share"), [(0, 1.0), (50, 0.5), (100, 0.0)])
def test_steps_and_pace_fall_as_half_a_cosine(taken: int, share: float) -> None:
    """From 0.01 to a hundredth of it, and from 0.05 to 0.001, seen where nothing else limits the step."""
    point = point_at(L2(), wrong=False, smallest=0.5, taken=taken)
    moved, limit = stepped(point, limit=1.0, step_size=0.01)
    torch.testing.assert_close(limit, torch.full((N,), 1 + 0.001 + 0.049 * share))
    length = (moved - point.variable).flatten(1).norm(dim=1)
    torch.testing.assert_close(length, torch.full((N,), 0.0001 + 0.0099 * share), rtol=1e-3, atol=1e-7)


def attacked(text: str, model: TorchClassifier, batch: Batch, *, width: int = 64) -> Changed:
    return registry.build(registry.bind("attack", text))(model, batch, Noise.of(0, batch.ids), width=width)


@each_norm
def test_what_it_calls_broken_is_broken_in_any_batch(
    norm: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    """It ends a hair beyond the boundary, where rounding alone would decide were it nearer."""
    model = linear()
    batch = batch_for(model, n=16)
    changed = attacked(f"fmn-{norm}:steps=150", model, batch)
    assert bool(changed.radius.isfinite().all())
    for width in (1, 3, 16):
        predicted = torch.cat([model(part).argmax(1) for part in changed.images.split(width)])
        assert bool((predicted != batch.labels).all())
    nearer = batch.images + (1 - 5e-3) * (changed.images - batch.images)
    assert bool((model(nearer).argmax(1) == batch.labels).all()), "half a percent nearer it must still be whole"


@each_norm
def test_a_radius_ends_the_search_at_the_first_change_inside_it(
    norm: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch = batch_for(model, n=16)
    smallest = attacked(f"fmn-{norm}:steps=60", model, batch).radius
    radius = float(smallest.median()) * 1.02
    changed = attacked(f"fmn-{norm}:steps=60,radius={radius}", model, batch)
    assert torch.equal(changed.radius.isfinite(), smallest <= radius)
    assert float(changed.size.max()) <= radius * (1 + 1e-4)
    inside = changed.radius.isfinite()
    assert int(changed.forwards[inside].max()) < int(changed.forwards[~inside].min()) == 62


def test_more_steps_come_nearer(linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]) -> None:
    model = linear()
    batch = batch_for(model, n=12)
    few, many = (attacked(f"fmn-linf:steps={steps}", model, batch).radius for steps in (5, 100))
    assert bool((many <= few * (1 + 1e-3)).all())
    assert math.isfinite(float(many.max()))


def test_a_step_and_a_pace_are_more_than_zero() -> None:
    for text in ("fmn-l2:step_size=0", "fmn-l2:pace=1", "fmn-l2:pace=0", "fmn-l2:steps=0", "fmn-l2:radius=-1"):
        with pytest.raises(Misuse):
            registry.build(registry.bind("attack", text))
