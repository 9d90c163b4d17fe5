"""Flow fields, what their roughness costs, and StAdv on images whose optimum is known."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.recipes.adam import SOFT, Adam, Smoothness, roughness
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.flow import Flow, pixel_centres, sampled
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, wrap


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def published_roughness(grid: Tensor) -> Tensor:
    """Node by node, neighbour by neighbour, the borders repeated: what the sources sum up."""
    axes = grid.shape[2:]
    total = torch.zeros(len(grid), dtype=grid.dtype)
    for node in itertools.product(*map(range, axes)):
        for axis, way in itertools.product(range(len(axes)), (-1, 1)):
            other = list(node)
            other[axis] = min(max(other[axis] + way, 0), axes[axis] - 1)
            gap = grid[(..., *node)] - grid[(..., *other)]
            total += (gap.square().sum(dim=1) + 1e-10).sqrt()
    return total


@pytest.mark.parametrize("shape", [(2, 5, 4), (3, 3, 4, 2)])
def test_roughness_is_the_published_sum_but_for_its_constant(shape: tuple[int, ...]) -> None:
    grid = noise(3, *shape).double()
    terms = 2 * (len(shape) - 1) * grid[0, 0].numel()
    torch.testing.assert_close(roughness(grid), published_roughness(grid) - SOFT * terms)


def test_the_slope_of_roughness_is_its_derivative() -> None:
    # spread like a real table's: some gaps far below the length at which the price turns quadratic
    grid = (noise(2, 3, 3, 2, 4) ** 4 * 1e-3).double().requires_grad_()
    assert torch.autograd.gradcheck(roughness, grid, eps=1e-9, atol=1e-5)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_flow_that_is_the_same_everywhere_costs_nothing(across: float, down: float) -> None:
    grid = torch.tensor([across, down]).view(1, 2, 1, 1).expand(1, 2, 6, 6)
    assert float(roughness(grid)) == 0
    torch.testing.assert_close(roughness(grid + noise(1, 2, 6, 6)), roughness(noise(1, 2, 6, 6)), rtol=1e-4, atol=0)


def test_the_price_goes_by_each_samples_own_radius() -> None:
    flow = noise(1, 2, 6, 6).expand(3, 2, 6, 6)
    price = Smoothness(0.0025)(Scene(torch.zeros(3, 1, 6, 6), torch.tensor([0.05, 0.1, 0.0])), flow * 0.01, {})
    torch.testing.assert_close(price[0], 0.05 * roughness(flow * 0.01)[0])
    torch.testing.assert_close(price[0], 2 * price[1])
    still = Smoothness(0.0025)(Scene(torch.zeros(1, 1, 6, 6), torch.zeros(1)), torch.zeros(1, 2, 6, 6), {})
    assert float(still) == 0, "at radius zero, no flow has no price"


@pytest.mark.parametrize(("height", "width"), [(8, 8), (6, 9)])
def test_a_flow_of_whole_pixels_shifts_the_image(height: int, width: int) -> None:
    images = noise(2, 3, height, width)
    flow = torch.zeros(2, 2, height, width)
    flow[:, 0], flow[:, 1] = 2 * 2 / width, 2 * 1 / height  # two pixels from the right, one from below
    made = Flow().render(Scene(images, torch.ones(2)), flow)
    torch.testing.assert_close(made[..., :-1, :-2], images[..., 1:, 2:], rtol=0, atol=1e-5)
    assert float(made[..., -1, :].abs().max()) < 1e-5, "outside the image it is black"


def test_a_pixel_between_four_is_their_bilinear_mean() -> None:
    images = noise(1, 1, 4, 4)
    at = torch.tensor([1.25, 2.5]).view(1, 2, 1, 1).expand(1, 2, 4, 4)
    corner = images[0, 0, 2:4, 1:3]
    expected = (0.5 * corner[0] + 0.5 * corner[1]) @ torch.tensor([0.75, 0.25])
    torch.testing.assert_close(sampled(images, at)[0, 0, 0, 0], expected)


def test_no_pixel_looks_outside_the_image() -> None:
    images = noise(2, 1, 5, 7)
    where = Scene(images, torch.full((2,), 3.0))
    half = torch.tensor([7 / 2, 5 / 2]).view(2, 1, 1)
    at = pixel_centres(images) + Flow().project(where, 10 * (noise(2, 2, 5, 7) - 0.5)) * half
    for axis, side in ((0, 7), (1, 5)):
        assert float(at[:, axis].min()) >= -0.5 - 1e-5
        assert float(at[:, axis].max()) <= side - 0.5 + 1e-5


SLOPE, SIDE = 0.02, 20


class Level(nn.Module):
    """Two classes by the mean of the middle: on a ramp, a flow of u pixels changes it by the slope · u."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, images: Tensor) -> Tensor:
        over = 100 * (images[:, 0, 6:-6, 6:-6].mean(dim=(1, 2)) - SLOPE * (SIDE - 1) / 2 - self.limit)
        return torch.stack([torch.zeros_like(over), over], dim=1)


def ramps(n: int) -> Batch:
    across = torch.arange(SIDE) * SLOPE
    return Batch(
        across.expand(n, 1, SIDE, SIDE).clone(), torch.zeros(n, dtype=torch.int64), tuple(str(i) for i in range(n))
    )


def level_model(limit: float) -> TorchClassifier:
    return wrap(Level(limit), name="level", classes=2, channels=1)


@pytest.mark.parametrize(("share", "broken"), [(0.93, True), (1.001, False)])
def test_stadv_reaches_the_level_that_a_flow_can_reach(share: float, broken: bool) -> None:
    """The farthest flow brings slope · radius · side / 2; 7 % less must be found, more is out of reach."""
    radius, batch = 0.1, ramps(3)
    model = level_model(share * SLOPE * radius * SIDE / 2)
    attack = registry.build(registry.bind("attack", f"stadv:radius={radius},steps=60,rate=0.005"))
    changed = attack(model, batch, Noise.of(0, batch.ids), width=2)
    assert (model(changed.images).argmax(1) == 1).tolist() == [broken] * 3
    assert float(changed.size.max()) <= radius * (1 + 1e-4)


def test_a_high_price_hides_no_success() -> None:
    """The first step breaks the sample and costs more than it gains: broken it is."""
    batch = ramps(2)
    model = level_model(0.5 * SLOPE * 0.01 * SIDE / 2)
    step, penalty = Adam(0.01), Smoothness(1e3)
    attack = GradientAttack(Flow(), margin, step, 1, start="identity", penalty=penalty, radius=0.05)
    changed = attack(model, batch, Noise.of(0, batch.ids), width=2)
    assert model(changed.images).argmax(1).tolist() == [1, 1]
    assert changed.size.tolist() == pytest.approx([0.01, 0.01], rel=1e-4)
