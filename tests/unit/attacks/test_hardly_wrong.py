"""Minimal attacks and points that are wrong by less than rounding: taken further out until clear, never thrown away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.minimal import STRETCHES
from holdfast.attacks.objectives import margin
from holdfast.attacks.steps import Point, State
from holdfast.attacks.success import CLEAR
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.core.noise import Noise
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, wrap

NORMS = {"linf": Linf(), "l2": L2(), "l1": L1()}
SIDE = 4


class Ramp(nn.Module):
    """Class 1 leads by the sum of all changes, less a gap; logits are about 10."""

    def __init__(self, gap: float) -> None:
        super().__init__()
        self.gap = gap

    def forward(self, images: Tensor) -> Tensor:
        lead = (images.flatten(1).double() - 0.5).sum(1) - self.gap
        return torch.stack([10 - lead / 2, 10 + lead / 2], dim=1)


@dataclass(frozen=True)
class Visits:
    """A step that goes to given points in turn, as multiples of ones."""

    strays: ClassVar[bool] = True
    points: tuple[float, ...]

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:
        return {}

    def advance(self, point: Point, state: State) -> Tensor:
        where = torch.tensor((*self.points, 0.0), dtype=torch.float64)[point.taken.clamp_max(len(self.points))]
        return where.float()[:, None, None, None].expand_as(point.variable)


def visited(norm: str, points: tuple[float, ...], gap: float, radius: float = float("inf")) -> tuple[Tensor, Tensor]:
    """The radius found by a walk over these points, and the final lead."""
    model: TorchClassifier = wrap(Ramp(gap), name="ramp", classes=2, channels=1)
    images = torch.full((1, 1, SIDE, SIDE), 0.5)
    batch = Batch(images, torch.zeros(1, dtype=torch.int64), ("a",))
    step = Visits(points)
    attack = GradientAttack(NORMS[norm], margin, step, len(points), start="identity", keep="smallest", radius=radius)
    changed = attack(model, batch, Noise.of(0, batch.ids), width=1)
    assert changed.radius is not None
    assert int(changed.forwards[0]) <= attack.cost.forwards
    logits = model(changed.images)
    return changed.radius[0], (logits[:, 1] - logits[:, 0])[0]


@pytest.mark.parametrize("norm", NORMS)
@given(over=st.floats(1e-6, 9e-6), far=st.floats(1.5, 3.0), hardly_first=st.booleans())
def test_a_nearer_point_that_is_hardly_wrong_beats_a_clear_one_further_out(
    norm: str, over: float, far: float, hardly_first: bool
) -> None:
    gap = 1.6
    near = (gap + over * 10) / SIDE**2
    points = (near, far * near) if hardly_first else (far * near, near)
    radius, lead = visited(norm, points, gap)
    size = near * {"linf": 1, "l2": SIDE, "l1": SIDE**2}[norm]
    assert size * (1 - 1e-6) <= float(radius) <= size * 1.001
    assert float(lead) > CLEAR * 10 * 0.9


@pytest.mark.parametrize("norm", NORMS)
def test_a_sample_that_was_only_ever_hardly_wrong_is_broken(norm: str) -> None:
    radius, lead = visited(norm, ((1.6 + 5e-5) / SIDE**2,), 1.6)
    assert bool(radius.isfinite())
    assert float(lead) > CLEAR * 10 * 0.9


def test_a_radius_that_leaves_no_room_takes_the_point_as_it_is() -> None:
    near = (1.6 + 5e-5) / SIDE**2
    radius, lead = visited("linf", (near,), 1.6, radius=near)
    assert float(radius) <= near * (1 + 1e-4)
    assert float(lead) > 0


def test_a_point_at_the_edge_of_the_box_goes_on_with_what_is_free() -> None:
    """The first pixel is white already: the second alone has to make it clear."""
    point = torch.tensor([0.1, 0.3]).view(1, 1, 1, 2)

    class Two(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            lead = images.flatten(1).double().sum(1) - 1.5 + 5e-5
            return torch.stack([10 - lead / 2, 10 + lead / 2], dim=1)

    @dataclass(frozen=True)
    class There:
        strays: ClassVar[bool] = True

        def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:
            return {}

        def advance(self, point_: Point, state: State) -> Tensor:
            return point

    model = wrap(Two(), name="two", classes=2, channels=1)
    batch = Batch(torch.tensor([0.9, 0.2]).view(1, 1, 1, 2), torch.zeros(1, dtype=torch.int64), ("a",))
    attack = GradientAttack(L1(), margin, There(), 1, start="identity", keep="smallest", radius=float("inf"))
    changed = attack(model, batch, Noise.of(0, batch.ids), width=1)
    assert changed.radius is not None
    assert 0.4 < float(changed.radius) < 0.401
    assert float(changed.images.max()) <= 1
    assert float(changed.images[0, 0, 0, 1]) > 0.5


def test_the_largest_stretch_is_under_two_thirds() -> None:
    assert 1.6 < STRETCHES[-1] < 5 / 3
    assert list(STRETCHES) == sorted(STRETCHES)
