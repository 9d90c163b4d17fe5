"""Blurs and resizing against scipy, Pillow and plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions import motion_blur
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.defocus_blur import DefocusBlur, disk, mirrored
from holdfast.corruptions.glass_blur import GlassBlur, turns
from holdfast.corruptions.zoom_blur import zoomed

Pictures = Callable[..., Tensor]


@pytest.mark.parametrize(("border", "mode"), [("edge", "nearest"), ("mirror", "reflect")])
@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 6.0, 40.0])
def test_a_gaussian_blur_is_that_of_scipy(pictures: Pictures, border: str, mode: str, sigma: float) -> None:
    images = pictures(2, 20, 33)
    ours = blurred(images, sigma, truncate=3.0, border=border)  # type: ignore[arg-type]
    for image, result in zip(images.numpy(), ours.numpy(), strict=True):
        expected = ndimage.gaussian_filter(image.astype(np.float64), (0, sigma, sigma), mode=mode, truncate=3.0)
        np.testing.assert_allclose(result, expected, atol=2e-6)


@pytest.mark.parametrize(("height", "width", "share"), [(32, 32, 0.65), (32, 32, 0.95), (40, 56, 0.3), (37, 53, 0.25)])
def test_pixelate_is_pillows_way_down_and_up_to_the_bit(
    pictures: Pictures, height: int, width: int, share: float
) -> None:
    from holdfast.corruptions.pixelate import Pixelate

    images = pictures(3, height, width)
    ours = (Pixelate().apply(images, share) * 255).round().to(torch.uint8)
    for image, result in zip(images, ours, strict=True):
        file = Image.fromarray((image.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy())
        small = file.resize((int(width * share), int(height * share)), Image.Resampling.BOX)
        expected = np.asarray(small.resize((width, height), Image.Resampling.BOX))
        np.testing.assert_array_equal(result.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("factor", [1.01, 1.07, 1.2500000000000002, 2.25, 4.5])
def test_a_zoom_is_that_of_scipy_trimmed_to_size(pictures: Pictures, factor: float) -> None:
    images = pictures(1, 32, 32)
    side = math.ceil(32 / factor)
    top = (32 - side) // 2
    middle = images[0, :, top : top + side, top : top + side].double().numpy()
    large = ndimage.zoom(middle, (1, factor, factor), order=1)
    trim = (large.shape[1] - 32) // 2
    expected = large[:, trim : trim + 32, trim : trim + 32]
    np.testing.assert_allclose(zoomed(images, factor)[0].numpy(), expected, atol=1e-6)


def test_a_disk_is_normal_symmetric_and_as_wide_as_its_radius() -> None:
    for radius, sigma in ((0.3, 0.4), (1.5, 0.1), (3.0, 0.1), (8.0, 0.5), (10.0, 0.5)):
        kernel = disk(radius, sigma)
        assert float(kernel.sum()) == pytest.approx(
            1.0, abs=0.02 if radius >= 8 else 1e-6
        )  # the kernel ends at its rim, which is mirrored
        assert torch.equal(kernel, kernel.flip(0))
        torch.testing.assert_close(kernel, kernel.T)
        assert len(kernel) == 2 * max(8, int(radius)) + 1
    assert float(disk(0.3, 0.4)[8, 8]) == pytest.approx(1 / (1 + 2 * math.exp(-1 / 0.32)) ** 2, rel=1e-5)


def test_defocus_by_fourier_is_the_direct_sum(pictures: Pictures) -> None:
    images = pictures(2, 90, 70)
    kernel = disk(10.0, 0.5)
    direct = torch.nn.functional.conv2d(mirrored(images, 10), kernel.expand(3, 1, 21, 21), groups=3)
    torch.testing.assert_close(DefocusBlur().apply(images, kernel), direct, rtol=0, atol=3e-6)


def test_a_border_wider_than_the_image_is_mirrored_again() -> None:
    row = torch.arange(4.0).view(1, 1, 1, 4).expand(1, 1, 4, 4)
    expected = np.pad(row[0, 0].numpy(), 8, mode="reflect")
    np.testing.assert_array_equal(mirrored(row, 8)[0, 0].numpy(), expected)
    assert mirrored(torch.ones(1, 1, 1, 1), 2).shape == (1, 1, 5, 5)


@pytest.mark.parametrize(("height", "width", "reach", "rounds"), [(12, 10, 1, 2), (14, 17, 2, 3), (16, 16, 4, 2)])
def test_glass_takes_its_turns_as_one_by_one(height: int, width: int, reach: int, rounds: int) -> None:
    """The front of turns gives, to the bit, what turns from the bottom right to the top left give."""
    images = torch.rand(3, 3, height, width, generator=torch.Generator().manual_seed(0))
    noise = Noise.of(0, ("a", "b", "c"))
    glass = GlassBlur()
    drawn = glass.draw(images, (0.05, reach, rounds), noise)  # a sigma of 0.05 blurs nothing
    ours = (glass.apply(images, drawn) * 255).round()
    order = torch.cat(turns(height, width, reach, "cpu")).tolist()
    for n in range(3):
        pixels = (images[n] * 255).floor().clone()
        for round_ in range(rounds):
            choice = dict(zip(order, drawn.choices[n, round_].tolist(), strict=True))
            for row in range(height - reach, reach, -1):
                for column in range(width - reach, reach, -1):
                    down, across = divmod(choice[row * width + column], 2 * reach)
                    pixels[:, row, column] = pixels[:, row + down - reach, column + across - reach]
        assert torch.equal(ours[n], pixels)


def test_every_place_of_glass_has_one_turn() -> None:
    positions = torch.cat(turns(20, 30, 3, "cpu"))
    assert len(positions) == len(positions.unique()) == (20 - 6) * (30 - 6)


@pytest.mark.parametrize("degrees", [-45.0, -20.0, 0.0, 33.0, -90.0, -135.0])
def test_both_ways_to_smear_agree_and_keep_a_flat_image(pictures: Pictures, degrees: float) -> None:
    images = pictures(3, 24, 31)
    angle = torch.full((3,), math.radians(degrees)) + torch.tensor([0.0, 0.1, -0.1])
    ours = motion_blur.smeared(images, angle, radius=8, sigma=3.0)
    steps = torch.arange(17).double()
    down = -torch.ceil(steps * angle.double().sin()[:, None] - 0.5).long()
    across = -torch.ceil(steps * angle.double().cos()[:, None] - 0.5).long()
    weights = torch.exp(-(steps**2) / 18.0)
    weights = (weights / weights.sum()).float().expand(3, -1)
    torch.testing.assert_close(motion_blur._together(images, down, across, weights), ours, rtol=0, atol=1e-6)
    flat = torch.full((3, 1, 24, 31), 0.4)
    torch.testing.assert_close(motion_blur.smeared(flat, angle, radius=8, sigma=3.0), flat, rtol=0, atol=1e-6)


def test_a_smear_goes_to_one_side_as_a_half_gaussian() -> None:
    dot = torch.zeros(1, 1, 5, 41)
    dot[0, 0, 2, 20] = 1.0
    row = motion_blur.smeared(dot, torch.zeros(1), radius=6, sigma=2.0)[0, 0]
    weights = torch.exp(-(torch.arange(13.0) ** 2) / 8)
    expected = torch.zeros(5, 41)
    expected[2, 8:21] = (weights / weights.sum()).flip(0)
    torch.testing.assert_close(row, expected)


def test_what_would_come_from_beyond_the_image_is_left_out() -> None:
    """At 8 pixels a trail of 41 breaks off: its weights are not made up for, as published."""
    flat = torch.ones(1, 1, 8, 8)
    weights = torch.exp(-(torch.arange(41.0).double() ** 2) / 450)
    kept = float(weights[:8].sum() / weights.sum())
    torch.testing.assert_close(motion_blur.smeared(flat, torch.zeros(1), radius=20, sigma=15.0), flat * kept)
