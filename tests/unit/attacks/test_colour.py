"""Changes of hue, saturation, brightness and contrast against the standard library and closed forms."""

from __future__ import annotations

import colorsys
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.colour_shifts import brightened, contrasted, saturated, turned
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, wrap

share = st.floats(0, 1).map(lambda value: round(value * 255) / 255)
colour = st.tuples(share, share, share)
angles = st.floats(-math.pi, math.pi)


def pixel(values: tuple[float, float, float]) -> Tensor:
    return torch.tensor(values).view(1, 3, 1, 1)


def number(value: float) -> Tensor:
    return torch.tensor([[value]])


@given(colour, angles)
def test_hue_turns_as_in_the_standard_library(values: tuple[float, float, float], angle: float) -> None:
    hue, saturation, value = colorsys.rgb_to_hsv(*values)
    known = colorsys.hsv_to_rgb((hue + angle / (2 * math.pi)) % 1.0, saturation, value)
    torch.testing.assert_close(turned(pixel(values), number(angle)), pixel(known), rtol=0, atol=1e-5)


@given(colour, st.floats(-1.5, 1.5))
def test_saturation_scales_as_in_the_standard_library(values: tuple[float, float, float], change: float) -> None:
    hue, saturation, value = colorsys.rgb_to_hsv(*values)
    known = colorsys.hsv_to_rgb(hue, min(max(saturation * (1 + change), 0.0), 1.0), value)
    torch.testing.assert_close(saturated(pixel(values), number(change)), pixel(known), rtol=0, atol=1e-5)


@given(colour, angles, angles)
def test_two_turns_are_one(values: tuple[float, float, float], one: float, other: float) -> None:
    twice = turned(turned(pixel(values), number(one)), number(other))
    # a hue that lies within rounding of the next sixth may be read as either
    torch.testing.assert_close(twice, turned(pixel(values), number(one + other)), rtol=0, atol=1e-4)


@given(colour, st.floats(-0.5, 0.5))
def test_brightness_adds_and_contrast_multiplies(values: tuple[float, float, float], change: float) -> None:
    image = pixel(values)
    torch.testing.assert_close(brightened(image, number(change)), (image + change).clamp(0, 1))
    torch.testing.assert_close(contrasted(image, number(change)), (image * (1 + change)).clamp(0, 1))


def test_every_sample_has_a_dial_of_its_own() -> None:
    images = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    change = torch.tensor([[0.1], [0.0], [-0.2]])
    for render in (turned, saturated, brightened, contrasted):
        made = render(images, change)
        for i in range(3):
            torch.testing.assert_close(made[i : i + 1], render(images[i : i + 1], change[i : i + 1]))
        torch.testing.assert_close(made[1], images[1], rtol=0, atol=1e-6)


class Level(nn.Module):
    """Two classes by the mean of one channel."""

    def __init__(self, channel: int, limit: float) -> None:
        super().__init__()
        self.channel, self.limit = channel, limit

    def forward(self, images: Tensor) -> Tensor:
        over = 30 * (images[:, self.channel].mean(dim=(1, 2)) - self.limit)
        return torch.stack([torch.zeros_like(over), over], dim=1)


def level(channel: int, limit: float) -> TorchClassifier:
    return wrap(Level(channel, limit), name="level", classes=2, channels=3)


def samples(n: int, values: tuple[float, float, float], label: int) -> Batch:
    images = pixel(values).expand(n, 3, 4, 4).clone()
    return Batch(images, torch.full((n,), label), tuple(str(i) for i in range(n)))


# a colour; what the dial's far end makes of its green channel, up or down
ENDS = {
    "hue-attack:radius=0.3": ((0.8, 0.4, 0.2), 0.4 + 0.6 * 0.3 * 3 / math.pi),
    "saturation-attack:radius=0.3": ((0.8, 0.4, 0.2), 0.8 - 0.4 * 0.7),
    "brightness-attack:radius=0.2": ((0.8, 0.4, 0.2), 0.6),
    "contrast-attack:radius=0.2": ((0.8, 0.4, 0.2), 0.48),
}


@pytest.mark.parametrize("text", ENDS)
@pytest.mark.parametrize(("reach", "broken"), [(0.98, True), (1.01, False)])
def test_an_attack_finds_the_far_end_and_no_more(text: str, reach: float, broken: bool) -> None:
    values, end = ENDS[text]
    model, batch = level(1, 0.4 + reach * (end - 0.4)), samples(5, values, label=0)
    changed = registry.build(registry.bind("attack", text))(model, batch, Noise.of(0, batch.ids), width=3)
    assert (model(changed.images).argmax(1) == 1).tolist() == [broken] * 5


@pytest.mark.parametrize(("name", "darkens"), [("brightness-attack", False), ("contrast-attack", True)])
def test_brightness_only_grows_and_contrast_goes_both_ways(name: str, darkens: bool) -> None:
    model, batch = level(0, 0.75), samples(5, (0.8, 0.4, 0.2), label=1)
    changed = registry.build(registry.bind("attack", name))(model, batch, Noise.of(0, batch.ids), width=5)
    assert bool((changed.images < batch.images - 0.01).any()) is darkens
    assert (model(changed.images).argmax(1) == 0).tolist() == [darkens] * 5


def test_starts_lie_on_both_sides_unless_a_dial_only_grows() -> None:
    for name, least in (("hue-attack", -1.0), ("brightness-attack", 0.0)):
        attack = registry.build(registry.bind("attack", f"{name}:radius=1.0"))
        batch = samples(400, (0.8, 0.4, 0.2), label=0)
        start = attack.threat.start(
            Scene(batch.images, torch.ones(400)), Noise.of(0, batch.ids), torch.zeros(400, dtype=torch.int64)
        )
        assert float(start.min()) == pytest.approx(least, abs=0.02)
        assert float(start.max()) == pytest.approx(1.0, abs=0.02)
        # a uniform draw has mean (least + 1) / 2, here within four standard errors
        assert float(start.mean()) == pytest.approx((least + 1) / 2, abs=4 * (1 - least) / math.sqrt(12 * 400))


@pytest.mark.parametrize("name", ["hue-attack", "saturation-attack"])
def test_grey_images_have_no_colour_to_change(name: str) -> None:
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), name="grey", classes=2, channels=1)
    batch = Batch(torch.rand(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64), tuple("ab"))
    with pytest.raises(Misuse, match="images with 1 channel"):
        registry.build(registry.bind("attack", name))(model, batch, Noise.of(0, batch.ids), width=2)


def test_an_attack_on_one_number_says_nothing_of_gradients() -> None:
    """Grey images have no hue to turn: every gradient is zero, and nothing is hidden."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    images = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0)).expand(5, 3, 4, 4).contiguous()
    model = wrap(net, name="net", classes=3, channels=3)
    with torch.no_grad():
        batch = Batch(images, model(images).argmax(1), tuple("abcde"))
    made = registry.build(registry.bind("attack", "hue-attack"))(model, batch, Noise.of(0, batch.ids), width=5)
    assert "zero gradients" not in made.tallies
    assert "flat climbs" not in made.tallies
