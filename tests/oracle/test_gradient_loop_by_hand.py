"""The gradient loop where every pass is known beforehand: targets, restarts, costs, a threat that strays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.aimed import lead
from holdfast.attacks.attack import LoopResult, verify_success
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy, margin
from holdfast.attacks.shapes import mean_tensor
from holdfast.attacks.steps import Point, State, Steepest
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import Linf
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, wrap

# four classes, one per pixel; the logits are the pixels, ten times over
IMAGES = torch.tensor([[0.8, 0.3, 0.5, 0.1], [0.2, 0.4, 0.6, 0.9]]).view(2, 1, 2, 2)
LABELS = torch.tensor([0, 3])


class Pixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * images.flatten(1)


def pixels() -> TorchClassifier:
    return wrap(Pixels(), name="pixels", classes=4, channels=1)


def batch() -> Batch:
    return Batch(IMAGES, LABELS, ("a", "b"))


@pytest.mark.parametrize(("aimed", "seen"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_targets_are_the_other_classes_likeliest_first(aimed: int, seen: int) -> None:
    """At most all others; the label itself is never aimed at. Each run of a sample has one target."""
    asked: list[Tensor] = []

    def spy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        asked.append(targets.clone())
        return lead(logits, labels, targets)

    attack = GradientAttack(Linf(), spy, Steepest(0.5), 2, targets=aimed, start="identity", radius=0.01)
    made = attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2)
    assert not bool(made.broken.any())
    each = [torch.stack(asked[3 * run : 3 * run + 3]) for run in range(seen)]
    assert [target[0].tolist() for target in each] == [[2, 2], [1, 1], [3, 0]][:seen]
    assert all(bool((target == target[0]).all()) for target in each)
    # one pass to rank, then for each target two steps and a last look
    assert made.forwards.tolist() == [1 + 3 * seen] * 2
    assert made.backwards.tolist() == [2 * seen] * 2


def test_each_target_has_its_restarts() -> None:
    asked: list[Tensor] = []

    def spy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        asked.append(targets.clone())
        return lead(logits, labels, targets)

    attack = GradientAttack(Linf(), spy, Steepest(0.5), 1, 2, targets=2, radius=0.01)
    made = attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2)
    assert [targets.tolist() for targets in asked] == [[2, 2]] * 4 + [[1, 1]] * 4
    assert made.forwards.tolist() == [1 + 2 * 2 * 2] * 2
    assert attack.cost.forwards == 1 + 2 * 2 * 2
    assert attack.cost.backwards == 4


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("draws", [1, 2])
def test_passes_are_those_of_every_step_and_a_last_look(steps: int, draws: int) -> None:
    attack = GradientAttack(Linf(), margin, Steepest(0.1), steps, 2, start="identity", draws=draws, radius=0.01)
    made = attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2)
    assert made.forwards.tolist() == [2 * (steps + 1) * draws] * 2
    assert made.backwards.tolist() == [2 * steps * draws] * 2
    assert (attack.cost.forwards, attack.cost.backwards) == (2 * (steps + 1) * draws, 2 * steps * draws)


def test_a_sample_leaves_at_its_first_success() -> None:
    """Margins of 0.3 close by 0.12 a step, so they break at the fourth look, whose gradient is taken with it."""
    attack = GradientAttack(Linf(), margin, Steepest(0.3), 9, start="identity", radius=0.2)
    made = attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2)
    assert made.broken.tolist() == [True, True]
    assert made.forwards.tolist() == [4, 4]
    assert made.backwards.tolist() == [4, 4]
    assert made.size.tolist() == pytest.approx([0.18, 0.18], abs=1e-6)


def test_the_strongest_point_is_kept_not_the_last() -> None:
    """An objective that falls again after its second look."""
    values = iter([0.0, 5.0, 1.0, -3.0])

    def wave(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        return margin(logits, labels, targets) * 0 + next(values) + (logits - logits.detach()).sum(dim=1)

    attack = GradientAttack(Linf(), wave, Steepest(0.25), 3, start="identity", radius=0.02)
    made = attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2)
    # after one step of a quarter of the radius
    assert made.size.tolist() == pytest.approx([0.005, 0.005], abs=1e-6)


def test_of_equal_values_the_first_is_kept() -> None:
    def flat(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        return (logits - logits.detach()).sum(dim=1)

    def attacked(**more: object) -> Tensor:
        attack = GradientAttack(Linf(), flat, Steepest(0.25), 3, radius=0.02, **more)  # type: ignore[arg-type]
        return attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=2).images

    assert torch.equal(attacked(start="identity"), IMAGES)
    assert torch.equal(attacked(restarts=3), attacked(restarts=1))
    assert not torch.equal(attacked(), IMAGES)


def test_a_union_counts_every_pass_and_its_checks() -> None:
    """The first attack moves both pixels by 0.06 and breaks a lead of 0.1, the second one of 0.3 by 0.2."""
    images = torch.tensor([[0.5, 0.4, 0.1, 0.0], [0.6, 0.3, 0.1, 0.0]]).view(2, 1, 2, 2)
    samples = Batch(images, torch.tensor([0, 0]), ("a", "b"))
    union = registry.build(registry.bind("attack", "worst-of:attacks=[(fgsm:radius=0.06),(fgsm:radius=0.2)]"))
    made = union(pixels(), samples, Noise.of(0, samples.ids), width=2)
    assert made.broken.tolist() == [True, True]
    assert made.size.tolist() == pytest.approx([0.06, 0.2], abs=1e-6)
    # two looks and a check for each attack that a sample meets
    assert made.forwards.tolist() == [3, 6]
    assert made.backwards.tolist() == [1, 2]
    assert (union.cost.forwards, union.cost.backwards) == (6, 2)
    assert made.tallies["broken by fgsm:radius=0.06"] == made.tallies["broken by fgsm:radius=0.2"] == 1
    assert "tried without gradients" not in made.tallies
    alone = registry.build(registry.bind("attack", "fgsm:radius=0.2"))
    second = alone(pixels(), samples, Noise.of(0, samples.ids), width=2)
    assert torch.equal(made.images[1], second.images[1])
    # a start given to the union is for its first attack
    given = torch.tensor([[0.0, 0.05, 0.0, 0.0], [0.01, 0.0, 0.0, 0.0]]).view_as(images)
    radius = torch.full((2,), torch.nan)
    begun = union.attempt(pixels(), samples, Noise.of(0, samples.ids), radius, width=2, first=given)
    assert torch.equal(begun.images[1], second.images[1])
    assert begun.broken.tolist() == [True, True]


def test_the_usual_radii_are_those_of_the_field() -> None:
    usual = {norm: registry.build(registry.bind("attack", f"pgd-{norm}")).radius for norm in ("linf", "l2", "l1")}
    assert usual == {"linf": pytest.approx(8 / 255), "l2": 0.5, "l1": 12.0}


@dataclass(frozen=True, slots=True)
class Straying(Linf):
    """A threat whose projection forgets the radius."""

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        return variable


def test_what_strays_from_its_set_is_scored_unattacked_and_says_so() -> None:
    attack = GradientAttack(Straying(), cross_entropy, Steepest(1.0), 4, start="identity", radius=0.05)
    model, samples = pixels(), batch()
    made = attack(model, samples, Noise.of(0, samples.ids), width=2)
    assert torch.equal(made.images, IMAGES)
    assert made.size.tolist() == [0, 0]
    assert sorted(made.reasons) == [0, 1]
    assert all("left its set" in reason for reason in made.reasons.values())


def test_a_mean_of_draws() -> None:
    parts = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])]
    assert mean_tensor(parts).tolist() == [2, 4]
    assert mean_tensor(parts[:1]).tolist() == [1, 2]


def test_a_narrow_batch_takes_the_samples_in_their_order(linear: Callable[..., TorchClassifier]) -> None:
    """One at a time: the first sample runs to its end before the second begins, and all are found."""
    asked: list[Tensor] = []

    def spy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        asked.append(labels.clone())
        return margin(logits, labels, targets)

    attack = GradientAttack(Linf(), spy, Steepest(0.3), 2, start="identity", radius=0.01)
    attack(pixels(), batch(), Noise.of(0, ("a", "b")), width=1)
    assert [labels.tolist() for labels in asked] == [[0]] * 3 + [[3]] * 3


@pytest.mark.parametrize(("jump", "is_broken"), [(0.1, True), (0.2, False)])
def test_a_step_that_strays_counts_only_where_it_lands_inside(jump: float, is_broken: bool) -> None:
    """The model turns at 0.05 above grey, the radius is 0.1: a success at 0.2 is none."""

    class Jump(Steepest):
        strays = True

        def advance(self, point: Point, state: State) -> Tensor:
            return torch.full_like(point.variable, jump)

    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[0.0] * 4, [0.25] * 4]))
        net[1].bias.copy_(torch.tensor([0.55, 0.0]))
    model = wrap(net, name="turns", classes=2, channels=1)
    greys = Batch(torch.full((3, 1, 2, 2), 0.5), torch.zeros(3, dtype=torch.int64), ("a", "b", "c"))
    attack = GradientAttack(Linf(), margin, Jump(1.0), 1, start="identity", radius=0.1)
    made = attack(model, greys, Noise.of(0, greys.ids), width=2)
    assert made.broken.tolist() == [is_broken] * 3


def test_images_that_a_threat_renders_outside_the_range_are_cut() -> None:
    """Rendered at 0.5 + 6 · 0.1 and 0.5 - 6 · 0.1."""

    class Loud(Linf):
        def render(self, scene: Scene, variable: Tensor) -> Tensor:
            return scene.images + 6 * variable

    images, radius = torch.full((2, 1, 1, 2), 0.5), torch.full((2,), 0.1)
    scene = Scene(images, radius, {})
    best = LoopResult.empty(scene, torch.tensor([0.1, -0.1]).view(1, 1, 1, 2).repeat(2, 1, 1, 1))
    made = verify_success(Loud(), images, radius, best)
    assert made.images.flatten(1).tolist() == [[1.0, 0.0]] * 2
    assert made.reasons == {}
