"""Weather, colours and rubber against closed forms."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.types import Changed
from holdfast.corruptions import photographs
from holdfast.corruptions.elastic_transform import ElasticTransform, Rubber, square
from holdfast.corruptions.fog import Cloud, Fog
from holdfast.corruptions.frost import Frost
from holdfast.corruptions.saturate import Saturate
from holdfast.corruptions.snow import Flakes, Snow
from holdfast.corruptions.spatter import MUD, WATER, Spatter, distances, edges, equalised

Corrupt = Callable[..., Changed]
Pictures = Callable[..., Tensor]


def test_fog_lifts_the_darkest_by_its_cloud_and_keeps_the_brightest() -> None:
    images = torch.tensor([[0.0, 0.8]]).view(1, 1, 1, 2)
    cloud = torch.tensor([[0.5, 1.0]]).view(1, 1, 1, 2)
    foggy = Fog().apply(images, Cloud(cloud, 2.0))
    assert foggy.flatten().tolist() == pytest.approx([1.0 * 0.8 / 2.8, 2.8 * 0.8 / 2.8])


def test_a_cloud_spans_zero_to_one_and_is_rougher_with_less_decay() -> None:
    images = torch.zeros(8, 3, 32, 32)
    noise = Noise.of(0, tuple("abcdefgh"))
    smooth, coarse = (Fog().draw(images, (1.0, decay), noise).cloud for decay in (3.0, 1.4))
    for cloud in (smooth, coarse):
        torch.testing.assert_close(cloud.flatten(1).amin(1), torch.zeros(8))
        torch.testing.assert_close(cloud.flatten(1).amax(1), torch.ones(8))
    assert float(smooth.diff(dim=3).abs().mean()) < 0.5 * float(coarse.diff(dim=3).abs().mean())


def test_snow_falls_twice_and_pales(pictures: Pictures) -> None:
    images, layer = pictures(2, 9, 9), torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    snowy = Snow().apply(images, Flakes(layer, 0.7))
    lightness = (images * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    pale = 0.7 * images + 0.3 * torch.maximum(images, 1.5 * lightness + 0.5)
    torch.testing.assert_close(snowy, pale + layer + torch.rot90(layer, 2, (2, 3)))


def test_there_is_more_snow_at_a_lower_threshold(corrupt: Corrupt) -> None:
    black = torch.zeros(20, 3, 32, 32)
    amounts = [float(corrupt(black, f"snow:severity={severity},ladder=cifar").images.mean()) for severity in (1, 2)]
    assert amounts[0] < amounts[1]


def test_frost_is_a_weighted_sum(pictures: Pictures) -> None:
    images, frost = pictures(6, 32, 32), Frost()
    drawn = frost.draw(images, (0.9, 0.4), Noise.of(0, tuple("abcdef")))
    assert drawn.frost.shape == images.shape
    assert float(drawn.frost.std()) > 0.02
    torch.testing.assert_close(frost.apply(images, drawn), 0.9 * images + 0.4 * drawn.frost)


def test_frost_comes_from_the_installed_photographs_or_is_drawn_and_the_run_says_which(
    corrupt: Corrupt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images = torch.zeros(4, 3, 32, 32)
    monkeypatch.setattr(photographs, "installed", lambda: None)
    photographs.frosts.cache_clear()
    changed = corrupt(images, "frost")
    assert changed.facts["frost"].startswith("drawn")
    assert 0.02 < float(changed.images.mean()) < 0.4
    for name in photographs.NAMES:
        Image.fromarray(np.full((200, 300, 3), 100, np.uint8)).save(tmp_path / name)
    monkeypatch.setattr(photographs, "installed", lambda: tmp_path)
    photographs.frosts.cache_clear()
    changed = corrupt(images, "frost:severity=3,ladder=cifar")
    assert changed.facts["frost"] == "photographs of `imagecorruptions`"
    torch.testing.assert_close(changed.images, torch.full_like(images, 40 / 255))
    photographs.frosts.cache_clear()


@pytest.mark.parametrize("side", [32, 64, 100, 700])
def test_frost_covers_images_of_any_size(corrupt: Corrupt, side: int) -> None:
    assert corrupt(torch.zeros(1, 1, side, side), "frost").images.shape == (1, 1, side, side)


@given(st.tuples(*[st.integers(0, 255)] * 3), st.sampled_from([(0.3, 0.0), (2.0, 0.1), (20.0, 0.2)]))
def test_saturation_is_that_of_hsv(colour: tuple[int, int, int], level: tuple[float, float]) -> None:
    rgb = [channel / 255 for channel in colour]
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    expected = colorsys.hsv_to_rgb(hue, min(1.0, max(0.0, saturation * level[0] + level[1])), value)
    ours = Saturate().apply(torch.tensor(rgb).view(1, 3, 1, 1), level)
    assert ours.flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_rubber_at_rest_changes_nothing(pictures: Pictures) -> None:
    images = pictures(2, 30, 40)
    rest = Rubber(square(30, 40, images).expand(2, 3, 2), torch.zeros(2, 2, 30, 40))
    torch.testing.assert_close(ElasticTransform().apply(images, rest), images, rtol=0, atol=1e-4)


def test_rubber_pulled_by_whole_pixels_moves_the_image(pictures: Pictures) -> None:
    """Corners pulled 3 to the right and 2 up: every pixel goes there; what enters is mirrored."""
    images = pictures(1, 24, 24)
    corners = square(24, 24, images)[None] + torch.tensor([3.0, -2.0])
    moved = ElasticTransform().apply(images, Rubber(corners, torch.zeros(1, 2, 24, 24)))
    expected = np.pad(images[0].numpy(), ((0, 0), (0, 2), (3, 0)), mode="reflect")[:, 2:, :24]
    np.testing.assert_allclose(moved[0].numpy(), expected, atol=1e-4)


def test_rubber_wobbles_by_its_displacement(pictures: Pictures) -> None:
    images = pictures(1, 16, 16)
    displacement = torch.zeros(1, 2, 16, 16)
    displacement[:, 0] = 1.0  # every pixel shows its neighbour to the right
    moved = ElasticTransform().apply(images, Rubber(square(16, 16, images)[None], displacement))
    torch.testing.assert_close(moved[..., :-1], images[..., 1:], rtol=0, atol=1e-4)
    torch.testing.assert_close(moved[..., -1], images[..., -1], rtol=0, atol=1e-4)


def test_edges_are_thin_lines_around_a_square() -> None:
    layer = torch.zeros(1, 1, 20, 20)
    layer[:, :, 6:14, 6:14] = 200.0
    found = edges(layer, 50.0, 150.0)[0, 0]
    assert not bool(edges(torch.full((1, 1, 9, 9), 77.0), 50.0, 150.0).any())
    assert bool(found[10, 5:7].any())
    assert int(found[10].sum()) == 2, "one pixel on either side"
    assert not bool(found[8:12, 8:12].any())


def test_weak_edges_count_where_they_hang_on_strong_ones() -> None:
    """A step of 20 gives a gradient of 80: between the two thresholds."""
    step = torch.zeros(1, 1, 12, 12)
    step[:, :, 6:] = 20.0
    assert not bool(edges(step, 50.0, 150.0).any())
    step[:, :, 6:, :3] = 60.0
    assert bool(edges(step, 50.0, 150.0)[0, 0, 5:7, 8:].any())


def test_distances_are_chamfer_distances() -> None:
    marks = torch.zeros(1, 1, 41, 41, dtype=torch.bool)
    marks[0, 0, 20, 20] = True
    found = distances(marks, 20.0)[0, 0]
    for (down, across), expected in {
        (0, 0): 0.0,
        (0, 7): 7.0,
        (3, 3): 4.2,
        (2, 1): 2.1969,
        (4, 2): 4.3938,
        (3, 1): 3.1969,
        (20, 0): 20.0,
        (20, 20): 20.0,
    }.items():
        assert float(found[20 + down, 20 + across]) == pytest.approx(expected, abs=1e-4)
    assert torch.equal(found, found.flip(0))
    assert bool((distances(torch.zeros(1, 1, 5, 5, dtype=torch.bool), 20.0) == 20.0).all())


def test_an_even_histogram() -> None:
    layer = torch.tensor([3.0, 3.0, 5.0, 9.0]).view(1, 1, 2, 2)
    assert equalised(layer).flatten().tolist() == [0.0, 0.0, 128.0, 255.0]
    flat = torch.full((1, 1, 2, 2), 20.0)
    assert torch.equal(equalised(flat), flat)


@pytest.mark.parametrize(("severity", "colour"), [(2, WATER), (5, MUD)])
def test_spatter_has_the_colour_of_its_drops(
    corrupt: Corrupt, severity: int, colour: tuple[float, float, float]
) -> None:
    black = torch.zeros(8, 3, 32, 32)
    drops = corrupt(black, f"spatter:severity={severity},ladder=cifar,quantise=off").images
    wet = drops.amax(dim=1) > 0.05
    assert 0.005 < float(wet.float().mean()) < 0.9
    ratios = drops.permute(0, 2, 3, 1)[wet]
    expected = torch.tensor(colour) / max(colour)
    torch.testing.assert_close(ratios / ratios.amax(dim=1, keepdim=True), expected.expand_as(ratios))


def test_mud_covers_and_water_adds(pictures: Pictures) -> None:
    images = pictures(4, 32, 32)
    noise, spatter = Noise.of(0, tuple("abcd")), Spatter()
    mud = spatter.draw(images, (0.65, 0.1, 0.5, 0.68, 0.6, 1), noise)
    covered = spatter.apply(images, mud)
    brown = torch.tensor(MUD).view(1, 3, 1, 1)
    torch.testing.assert_close(covered, images * (1 - mud.cover) + brown * mud.cover)
    water = spatter.draw(images, (0.65, 0.3, 1.0, 0.69, 0.5, 0), noise)
    assert float(water.cover.amax()) == pytest.approx(0.5)
    assert bool((spatter.apply(images, water) >= images).all())


def test_greyscale_puts_lightness_in_every_channel(corrupt: Corrupt, pictures: Pictures) -> None:
    images = pictures(2, 8, 8)
    made = corrupt(images, "greyscale:quantise=off").images
    expected = (images * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1)
    for channel in range(3):
        torch.testing.assert_close(made[:, channel], expected)
