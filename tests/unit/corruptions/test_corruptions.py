"""The first corruptions against their definitions."""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.corruptions.jpeg_tensors import through_jpeg
from holdfast.corruptions.ladder import Corruption, quantised


def corrupted(images: torch.Tensor, text: str, *, ids: tuple[str, ...] | None = None, width: int = 64) -> torch.Tensor:
    ids = ids or tuple(f"s{i}" for i in range(len(images)))
    change: Corruption = registry.build(registry.bind("corruption", text))
    batch = Batch(images, torch.zeros(len(images), dtype=torch.int64), ids)
    return change(None, batch, Noise.of(0, ids), width=width).images


@pytest.fixture
def images() -> torch.Tensor:
    return (torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 255).round() / 255


@pytest.mark.parametrize(
    ("ladder", "levels"), [("cifar", (0.04, 0.06, 0.08, 0.09, 0.10)), ("imagenet", (0.08, 0.12, 0.18, 0.26, 0.38))]
)
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_gaussian_noise_has_the_published_strength(ladder: str, levels: tuple[float, ...], severity: int) -> None:
    grey = torch.full((40, 3, 32, 32), 0.5)
    added = corrupted(grey, f"gaussian-noise:severity={severity},ladder={ladder},quantise=off") - 0.5
    inside = added.abs() < 0.499  # what the box did not cut
    level = levels[severity - 1]
    expected = level if float(inside.float().mean()) > 0.9999 else None
    if expected is not None:
        # 122,880 draws: the standard error of a standard deviation is 0.2 %
        assert float(added.std()) == pytest.approx(level, rel=0.01)
    assert abs(float(added.mean())) < 4 * level / np.sqrt(added.numel())


@given(st.tuples(*[st.integers(0, 255)] * 3), st.sampled_from([0.05, 0.1, 0.15, 0.2, 0.3]))
def test_brightness_raises_the_value_of_hsv(colour: tuple[int, int, int], level: float) -> None:
    severity = [0.05, 0.1, 0.15, 0.2, 0.3].index(level) + 1
    rgb = [channel / 255 for channel in colour]
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    expected = colorsys.hsv_to_rgb(hue, saturation, min(1.0, value + level))
    ours = corrupted(torch.tensor(rgb).view(1, 3, 1, 1), f"brightness:severity={severity},quantise=off")
    assert ours.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_brightness_of_grey_images_adds(images: torch.Tensor) -> None:
    grey = images[:, :1]
    torch.testing.assert_close(corrupted(grey, "brightness:severity=2,quantise=off"), (grey + 0.1).clamp(0, 1))


def test_contrast_pulls_towards_the_mean_of_each_channel(images: torch.Tensor) -> None:
    ours = corrupted(images, "contrast:severity=5,quantise=off")
    torch.testing.assert_close(ours.mean((2, 3)), images.mean((2, 3)), rtol=0, atol=1e-6)
    torch.testing.assert_close(ours.std((2, 3)), 0.15 * images.std((2, 3)), rtol=1e-4, atol=1e-6)


def through_pillow(pixels: torch.Tensor, quality: int) -> torch.Tensor:
    stored = pixels.permute(1, 2, 0).to(torch.uint8).numpy()
    buffer = io.BytesIO()
    Image.fromarray(stored[..., 0] if stored.shape[2] == 1 else stored).save(buffer, "JPEG", quality=quality)
    return torch.from_numpy(np.array(Image.open(buffer)).reshape(stored.shape)).permute(2, 0, 1).float()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("side", "severity", "quality"), [(32, 1, 80), (32, 5, 40), (96, 1, 25), (96, 5, 7)])
def test_jpeg_is_pillows_round_trip(channels: int, side: int, severity: int, quality: int) -> None:
    images = torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(0)).mul(255).round() / 255
    for image, result in zip(images, corrupted(images, f"jpeg:severity={severity}"), strict=True):
        assert torch.equal((result * 255).round(), through_pillow((image * 255).round(), quality))


@given(
    st.integers(1, 50),
    st.integers(1, 50),
    st.sampled_from([1, 3]),
    st.integers(1, 100),
    st.sampled_from([0.0, 8.0, 60.0, 1e6]),
    st.integers(0, 2**31),
)
def test_jpeg_on_tensors_is_pillows_to_the_bit(
    height: int, width: int, channels: int, quality: int, spread: float, seed: int
) -> None:
    """Any size, any quality; flat, smooth, noisy and black-and-white images."""
    draw = torch.Generator().manual_seed(seed)
    middle = torch.rand(channels, 1, 1, generator=draw) * 255
    image = (middle + spread * torch.randn(channels, height, width, generator=draw)).round().clamp(0, 255)
    assert torch.equal(through_jpeg(image[None], quality)[0].float(), through_pillow(image, quality))


def test_jpeg_needs_grey_or_colour() -> None:
    with pytest.raises(HoldfastError, match="1 or 3 channels"):
        corrupted(torch.rand(1, 4, 8, 8), "jpeg")


def test_the_ladder_follows_the_size_of_the_images() -> None:
    change: Corruption = registry.build(registry.bind("corruption", "contrast:severity=1"))
    for side, ladder in ((28, "cifar"), (64, "cifar"), (65, "imagenet"), (224, "imagenet")):
        batch = Batch(torch.rand(1, 3, side, side), torch.zeros(1, dtype=torch.int64), ("a",))
        assert change(None, batch, Noise.of(0, ["a"]), width=1).facts == {"contrast ladder": ladder}


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_a_severity_that_is_not_on_the_ladder_is_misuse(severity: int) -> None:
    with pytest.raises(Misuse, match="must be 1 to 5"):
        registry.build(registry.bind("corruption", f"contrast:severity={severity}"))


def test_quantising_rounds_truncates_or_leaves_alone() -> None:
    level = torch.tensor([0.0, 99.4, 99.6, 255.0]) / 255
    assert (quantised(level) * 255).round().tolist() == [0, 99, 100, 255]
    assert (quantised(level, "truncate") * 255).round().tolist() == [0, 99, 99, 255]
    assert torch.equal(quantised(level, "off"), level)


@given(st.integers(0, 255))
def test_every_8_bit_level_survives_quantising(level: int) -> None:
    value = torch.tensor([level / 255], dtype=torch.float32)
    assert torch.equal(quantised(value), value)
