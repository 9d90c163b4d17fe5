"""Affine and perspective warps against their definition, and the attacks against every corner of their set."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.threats.warps import warped
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import wrap


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def defined(image: Tensor, matrix: Tensor) -> Tensor:
    """Pixel by pixel: the place p of the result shows the place M⁻¹p, bilinearly, zero outside."""
    height, width = image.shape[1:]
    made, back = torch.zeros_like(image), torch.linalg.inv(matrix)
    for row, column in itertools.product(range(height), range(width)):
        across, down, depth = (back @ torch.tensor([column, row, 1.0], dtype=matrix.dtype)).tolist()
        x, y = across / depth, down / depth
        left, top = math.floor(x), math.floor(y)
        for i, j in itertools.product((top, top + 1), (left, left + 1)):
            if 0 <= i < height and 0 <= j < width:
                made[:, row, column] += (1 - abs(y - i)) * (1 - abs(x - j)) * image[:, i, j]
    return made


@given(st.integers(0, 10_000))
def test_a_warp_is_its_definition(seed: int) -> None:
    images = noise(1, 2, 5, 7, seed=seed).double()
    change = 0.2 * (noise(1, 3, 3, seed=seed + 1).double() - 0.5)
    change[:, 2] *= 0.1
    change[:, 2, 2] = 0
    expected = defined(images[0], torch.eye(3, dtype=torch.float64) + change[0])
    torch.testing.assert_close(warped(images, change.flatten(1))[0], expected, rtol=0, atol=1e-9)


def test_a_shift_by_one_pixel_moves_the_image_to_the_right() -> None:
    images = noise(2, 3, 6, 8)
    change = torch.zeros(2, 6)
    change[:, 2] = 1.0
    made = warped(images, change)
    torch.testing.assert_close(made[..., 1:], images[..., :-1], rtol=0, atol=1e-5)
    assert float(made[..., 0].abs().max()) < 1e-5


def test_an_affine_map_is_a_perspective_without_depth() -> None:
    images, change = noise(3, 1, 6, 6), 0.1 * (noise(3, 6) - 0.5)
    flat = torch.cat([change, torch.zeros(3, 2)], dim=1)
    assert torch.equal(warped(images, change), warped(images, flat))
    flat[:, 6] = 0.01
    assert not torch.allclose(warped(images, change), warped(images, flat), atol=1e-3)


@pytest.mark.parametrize("entry", range(8))
def test_a_map_that_squashes_everything_is_still_finite(entry: int) -> None:
    images = noise(1, 1, 6, 6)
    for value in (-1.0, -0.2, 1.0):
        change = torch.zeros(1, 8)
        change[0, entry] = value
        change.requires_grad_()
        made = warped(images, change)
        (gradient,) = torch.autograd.grad(made.sum(), change)
        assert bool(made.isfinite().all())
        assert bool(gradient.isfinite().all())


class Linear(nn.Module):
    """Two classes, linear in the pixels: smooth weights see where things lie."""

    def __init__(self, weight: Tensor, bias: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), bias

    def forward(self, images: Tensor) -> Tensor:
        over = (images * self.weight).flatten(1).sum(dim=1) + self.bias
        return torch.stack([torch.zeros_like(over), over], dim=1)


@pytest.mark.parametrize(
    ("name", "numbers", "radius"),
    [("affine", 6, 0.01), ("perspective", 8, 0.0005)],
)
def test_an_attack_does_as_well_as_the_best_corner_of_its_set(name: str, numbers: int, radius: float) -> None:
    """The image fades to black: at a bright border every move brings in black, and each side has its own summit."""
    coarse, weights = noise(1, 1, 4, 4), noise(1, 1, 3, 3, seed=5) - 0.5
    image = torch.nn.functional.interpolate(coarse, (16, 16), mode="bicubic", align_corners=True).clamp(0, 1)
    image = image * torch.hann_window(16, periodic=False) * torch.hann_window(16, periodic=False)[:, None]
    weight = torch.nn.functional.interpolate(weights, (16, 16), mode="bicubic", align_corners=True)[0]
    corners = radius * torch.tensor(list(itertools.product((-1.0, 1.0), repeat=numbers)))
    reached = (warped(image.expand(len(corners), 1, 16, 16), corners) * weight).flatten(1).sum(dim=1)
    here, best = float((image * weight).sum()), float(reached.max())
    assert best > here
    batch = Batch(image.expand(4, 1, 16, 16).clone(), torch.zeros(4, dtype=torch.int64), tuple("abcd"))
    model = wrap(Linear(weight, -here - 0.98 * (best - here)), name="linear", classes=2, channels=1)
    changed = registry.build(registry.bind("attack", f"{name}:radius={radius}"))(
        model, batch, Noise.of(0, batch.ids), width=3
    )
    assert model(changed.images).argmax(1).tolist() == [1] * 4
    assert float(changed.size.max()) <= radius * (1 + 1e-4)
