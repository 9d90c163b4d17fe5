"""FAB: its walk against the published update done plainly, its final search, and what a radius changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.recipes.fab import POLISH, AlongBoundary
from holdfast.attacks.recipes.hyperplane import onto_plane
from holdfast.attacks.steps import Point, State
from holdfast.attacks.success import CLEAR
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier, wrap

BALLS = {"linf": Linf(), "l2": L2(), "l1": L1()}
each_norm = pytest.mark.parametrize("norm", BALLS)
N, SHAPE = 4, (1, 3, 3)


def built(text: str) -> GradientAttack:
    made = registry.build(registry.bind("attack", text))
    assert isinstance(made, GradientAttack)
    return made


def attacked(text: str, model: TorchClassifier, batch: Batch, *, width: int = 64) -> Changed:
    return built(text)(model, batch, Noise.of(0, batch.ids), width=width)


def point_at(threat: Ball, *, classes: int = 0, wrong: bool = False, best_loss: float = -torch.inf) -> Point:
    """Samples somewhere on their way, with gradients and leads of their own."""
    random = torch.Generator().manual_seed(1)
    images = torch.rand(N, *SHAPE, generator=random)
    variable = (images + 0.2 * torch.randn(N, *SHAPE, generator=random)).clamp(0, 1) - images
    several = (classes,) if classes else ()
    gradient = torch.randn(N, *several, *SHAPE, generator=random)
    loss = -torch.rand(N, *several, generator=random) if not wrong else torch.rand(N, *several, generator=random)
    return Point(
        threat,
        Scene(images, torch.full((N,), torch.inf)),
        variable,
        gradient,
        loss,
        torch.full((N,), wrong),
        torch.zeros(N, dtype=torch.int64),
        variable,
        torch.full((N,), best_loss),
    )


def stepped(step: AlongBoundary, point: Point) -> Tensor:
    return step.advance(point, step.fresh(point.threat, point.scene, point.variable))


@each_norm
@pytest.mark.parametrize("wrong", [False, True])
def test_a_step_is_the_published_update_sample_by_sample(norm: str, wrong: bool) -> None:
    """Algorithm 1: x ← clip((1 - a)(x + η d₁) + a (x₀ + η d₂)), a = min(|d₁| / (|d₁| + |d₂|), α).

    Where x is adversarial it is first taken back to x₀ + β(x - x₀).
    """
    threat = BALLS[norm]
    point = point_at(threat, wrong=wrong)
    moved = stepped(AlongBoundary(100), point)
    for i in range(N):
        image, w = point.scene.images[i].flatten(), point.gradient[i].flatten()
        seen = image + point.variable[i].flatten()
        x = image + (0.9 if wrong else 1.0) * point.variable[i].flatten()
        d1, d2 = (plane_from(norm, w, at, seen, float(point.loss[i])) for at in (x, image))
        one, two = (float(threat.norm(d[None])[0]) for d in (d1, d2))
        a = min(one / (one + two), 0.1)
        expected = ((1 - a) * (x + 1.05 * d1) + a * (image + 1.05 * d2)).clamp(0, 1)
        torch.testing.assert_close(image + moved[i].flatten(), expected, rtol=1e-4, atol=1e-5)


def plane_from(norm: str, w: Tensor, at: Tensor, seen: Tensor, lead: float) -> Tensor:
    """From a point onto the plane where the lead, linear as `seen`, is zero."""
    gap = -(lead + float(w @ (at - seen)))
    return onto_plane(norm, w[None], torch.tensor([gap]), -at[None], 1 - at[None])[0]


@each_norm
def test_of_several_classes_the_one_whose_boundary_seems_nearest_is_taken(norm: str) -> None:
    point = point_at(BALLS[norm], classes=3)
    point.loss[:, 1] = -torch.inf  # the label
    point.loss[:, 0], point.loss[:, 2] = -0.01, -5.0
    point.gradient[:, 1] = 0.0
    moved = stepped(AlongBoundary(100), point)
    alone = point_at(BALLS[norm])
    first = Point(alone.threat, point.scene, point.variable, point.gradient[:, 0], point.loss[:, 0], *rest(point))
    torch.testing.assert_close(moved, stepped(AlongBoundary(100), first))
    other = Point(alone.threat, point.scene, point.variable, point.gradient[:, 2], point.loss[:, 2], *rest(point))
    assert not torch.allclose(moved, stepped(AlongBoundary(100), other), atol=1e-3)


def rest(point: Point) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return point.wrong, point.taken, point.best, point.best_loss


@each_norm
def test_a_step_stays_in_the_box_and_moves_nothing_without_a_gradient(norm: str) -> None:
    point = point_at(BALLS[norm])
    image = point.scene.images + stepped(AlongBoundary(100), point)
    assert float(image.min()) >= -1e-6
    assert float(image.max()) <= 1 + 1e-6
    point.gradient.zero_()
    still = stepped(AlongBoundary(100, bias=0.0), point)
    torch.testing.assert_close(still, point.variable, rtol=0, atol=1e-6)


class Bent(nn.Module):
    """A lead that bends on its way up: straight lines from the image meet the boundary where no tangent says."""

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1) - 0.5
        lead = 4 * x.sum(dim=1) + 30 * x.square().sum(dim=1) - 1
        return torch.stack([torch.zeros_like(lead), lead], dim=1)


def bent_batch(n: int = 5) -> tuple[TorchClassifier, Batch]:
    images = 0.5 + 0.02 * torch.randn(n, 1, 3, 3, generator=torch.Generator().manual_seed(2))
    return wrap(Bent(), name="bent", classes=2, channels=1), Batch(
        images, torch.zeros(n, dtype=torch.int64), tuple(str(i) for i in range(n))
    )


@each_norm
def test_the_last_steps_bring_the_best_point_to_the_boundary(norm: str) -> None:
    """On its line to the image the sample is whole again a thousandth nearer."""
    model, batch = bent_batch()
    changed = attacked(f"fab-{norm}:steps=30", model, batch)
    assert bool((model(changed.images).argmax(1) == 1).all())
    nearer = batch.images + 0.999 * (changed.images - batch.images)
    assert bool((model(nearer).argmax(1) == 0).all())


def test_the_final_search_halves_where_the_tangent_misleads() -> None:
    """A root beyond what failed is not tried again; halfway to the best point is."""
    step, point = AlongBoundary(100), point_at(L2(), wrong=True, best_loss=-1.0)
    state = step.fresh(point.threat, point.scene, point.variable)
    state["smallest"] = point.best_loss
    state["root"] = torch.tensor([0.5, 0.9, 2.0, float("nan")])
    late = Point(point.threat, point.scene, point.variable, point.gradient, point.loss, *rest(point))
    late.taken.fill_(100 - POLISH)
    first = step._polished(late, state).clone()
    torch.testing.assert_close(first, torch.tensor([0.5, 0.9, 0.5, 0.5]))
    late.taken.fill_(100 - POLISH + 1)  # all of these failed: nothing smaller was found
    torch.testing.assert_close(step._polished(late, state), torch.tensor([0.75, 0.95, 0.75, 0.75]))


@each_norm
def test_a_radius_ends_the_search_at_the_first_change_inside_it(
    norm: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear(classes=5)
    batch = batch_for(model, n=24)
    smallest = attacked(f"fab-{norm}:steps=30", model, batch).radius
    radius = float(smallest.median()) * 1.01
    changed = attacked(f"fab-{norm}:steps=30,radius={radius}", model, batch)
    assert torch.equal(changed.radius.isfinite(), smallest <= radius)
    assert float(changed.size.max()) <= radius * (1 + 1e-4)
    inside = changed.radius.isfinite()
    assert int(changed.forwards[inside].max()) < int(changed.forwards[~inside].min())


def test_a_sample_that_is_wrong_already_costs_one_pass(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear(classes=3)
    batch = batch_for(model, n=6)
    wrong = Batch(batch.images, (batch.labels + 1) % 3, batch.ids)
    for attack in ("fab-l2", "fab-t-l2", "fab-l2:radius=0.1", "fab-l2:restarts=3"):
        changed = attacked(attack, model, wrong)
        assert torch.equal(changed.images, batch.images)
        assert changed.radius.tolist() == [0.0] * 6
        assert changed.forwards.tolist() == [1] * 6


def test_restarts_find_a_nearer_side_that_the_gradient_hides() -> None:
    """From the image the lead rises to the right, where it takes 0.3; to the left, behind a dip, 0.1 is enough."""

    class TwoSides(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            x = images.flatten(1)[:, 0] - 0.5
            lead = torch.where(x > -0.05, x - 0.3, -5 * (x + 0.1))
            return torch.stack([torch.zeros_like(lead), lead], dim=1)

    model = wrap(TwoSides(), name="two sides", classes=2, channels=1)
    n = 24
    batch = Batch(torch.full((n, 1, 1, 1), 0.5), torch.zeros(n, dtype=torch.int64), tuple(map(str, range(n))))
    once, often = (attacked(f"fab-linf:steps=12,restarts={count}", model, batch).radius for count in (1, 3))
    torch.testing.assert_close(once, torch.full((n,), 0.3), rtol=5e-3, atol=0)
    # a start lies at 0.15 to the left with probability a half, so three quarters are found by two restarts
    left = torch.isclose(often, torch.tensor(0.1), rtol=5e-3)
    assert bool((left | torch.isclose(often, once)).all())
    assert 0.5 < float(left.float().mean()) < 0.95


def test_targets_find_what_the_nearest_plane_hides() -> None:
    """Class 1 seems a twentieth away wherever one stands, and is never reached; aiming at class 2 breaks the sample."""

    class Decoy(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            x = images.flatten(1)[:, 0] - 0.5
            y = images.flatten(1)[:, 1] - 0.5
            shy = -0.02 * torch.exp(-20 * x)
            return torch.stack([torch.zeros_like(x), shy, 4 * y - 0.8], dim=1)

    model = wrap(Decoy(), name="decoy", classes=3, channels=1)
    images = 0.5 + 0.01 * torch.randn(6, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, torch.zeros(6, dtype=torch.int64), tuple("abcdef"))
    assert not bool(attacked("fab-l2:steps=20", model, batch).radius.isfinite().any())
    aimed = attacked("fab-t-l2:steps=20", model, batch).radius
    truth = (0.2 - (images.flatten(1)[:, 1] - 0.5)).abs()
    torch.testing.assert_close(aimed, truth, rtol=5e-3, atol=0)


def test_a_step_is_told_of_a_break_too_narrow_to_count() -> None:
    """Else a walk that lands on the boundary would neither count nor go back, and stay there for good."""
    told: list[bool] = []

    class Ahead:
        """Goes to where the other class leads by a millionth of the largest logit."""

        strays: ClassVar[bool] = True

        def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:
            return {}

        def advance(self, point: Point, state: State) -> Tensor:
            told.append(bool(point.wrong[0]))
            return torch.full_like(point.variable, 0.25 + 0.5e-6)

    class Ramp(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            x = images.flatten(1)[:, 0]
            return torch.stack([1.5 - x, x], dim=1)

    model = wrap(Ramp(), name="ramp", classes=2, channels=1)
    batch = Batch(torch.full((1, 1, 1, 1), 0.5), torch.zeros(1, dtype=torch.int64), ("a",))
    attack = GradientAttack(L2(), margin, Ahead(), 3, start="identity", keep="smallest", radius=float("inf"))
    changed = attack(model, batch, Noise.of(0, batch.ids), width=1)
    assert told == [False, True, True]
    lead = model(changed.images) @ torch.tensor([-1.0, 1.0])
    assert float(lead) > CLEAR * 1.0, "the point was taken further out until it is clear"
    assert 0.25 < float(changed.radius) < 0.25 * 1.001


def test_results_do_not_depend_on_the_width() -> None:
    model, batch = bent_batch()
    one = attacked("fab-l2:steps=10,restarts=2", model, batch, width=1)
    for width in (2, 5):
        other = attacked("fab-l2:steps=10,restarts=2", model, batch, width=width)
        torch.testing.assert_close(other.images, one.images, rtol=0, atol=1e-4)


def test_shares_are_shares() -> None:
    for text in ("fab-l2:bias=1.5", "fab-l2:overshoot=0.9", "fab-t-l2:back=0", "fab-t-l2:targets=0", "fab-l2:steps=0"):
        with pytest.raises(Misuse):
            built(text)


@pytest.mark.parametrize(
    "text",
    [
        "fab-linf:steps=2",
        "worst-of:attacks=[(fgsm),(fab-l2:steps=2)]",
        "sweep:attack=(fab-l1:steps=2),radii=[0.1]",
        "autoattack-plus-linf",
    ],
)
def test_all_classes_at_once_are_refused_where_there_are_many(text: str) -> None:
    """A backward pass per class and step: a thousand classes take a hundred times as long as ten."""

    def classifier(classes: int) -> TorchClassifier:
        return wrap(nn.Sequential(nn.Flatten(), nn.Linear(4, classes)), name="many", classes=classes, channels=1)

    attack = registry.build(registry.bind("attack", text))
    with pytest.raises(Misuse, match="101 classes; 100 is the most") as caught:
        attack.refuse(classifier(101).card)
    assert "fab-t" in str(caught.value.hint)
    attack.refuse(classifier(100).card)
    for fine in ("fab-t-linf", "autoattack-linf", "worst-of:attacks=[(fgsm),(fab-t-l2)]"):
        registry.build(registry.bind("attack", fine)).refuse(classifier(1000).card)


def test_the_attack_itself_refuses_many_classes_before_its_first_pass() -> None:
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(4, 1000)), name="many", classes=1000, channels=1)
    batch = Batch(torch.rand(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64), ("a", "b"))
    with pytest.raises(Misuse, match="1000 classes"):
        attacked("fab-linf", model, batch)
