"""Corruptions with chosen draws, against plain loops and numbers that can be worked out on paper."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import io
import math
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from scipy.stats import poisson
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.corruptions import frost as frost_module
from holdfast.corruptions import photographs, shot_noise
from holdfast.corruptions.axes import along, blurred, box, gaussian, nearest
from holdfast.corruptions.defocus_blur import DefocusBlur, disk, mirrored
from holdfast.corruptions.elastic_transform import ElasticTransform, Rubber
from holdfast.corruptions.fog import Cloud, Fog
from holdfast.corruptions.frost import Frost
from holdfast.corruptions.gaussian_blur import GaussianBlur
from holdfast.corruptions.gaussian_noise import GaussianNoise
from holdfast.corruptions.glass_blur import GlassBlur, Shuffle, turns
from holdfast.corruptions.impulse_noise import Chances, ImpulseNoise
from holdfast.corruptions.jpeg import Jpeg
from holdfast.corruptions.jpeg_tensors import through_jpeg
from holdfast.corruptions.ladder import Corruption, Level, Renderer, corruption
from holdfast.corruptions.motion_blur import Motion, MotionBlur, smeared
from holdfast.corruptions.pixelate import Pixelate
from holdfast.corruptions.plasma import plasma, stretched
from holdfast.corruptions.shot_noise import Photons, ShotNoise
from holdfast.corruptions.snow import Snow
from holdfast.corruptions.speckle_noise import SpeckleNoise
from holdfast.corruptions.zoom_blur import ZoomBlur, zoomed

Plane = NDArray[np.float64]


class Given(Noise):
    """Noise whose draws are chosen, by purpose, one row for each sample."""

    def __init__(self, **draws: Tensor) -> None:
        super().__init__(torch.zeros(len(next(iter(draws.values()))), dtype=torch.int64))
        self.draws = draws

    def uniform(self, purpose: str, shape: Sequence[int], *, draw: int | Tensor = 0) -> Tensor:
        assert self.draws[purpose].shape[1:] == tuple(shape)
        return self.draws[purpose]

    def normal(self, purpose: str, shape: Sequence[int], *, draw: int | Tensor = 0) -> Tensor:
        return self.uniform(purpose, shape)

    def integers(self, purpose: str, shape: Sequence[int], *, low: int, high: int, draw: int | Tensor = 0) -> Tensor:
        drawn = self.uniform(purpose, shape)
        assert bool(((low <= drawn) & (drawn < high)).all())
        return drawn


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def ids(count: int) -> tuple[str, ...]:
    return tuple(f"s{i}" for i in range(count))


# filters and resizing


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("sigma", [0.1, 0.62, 3.0])
@pytest.mark.parametrize("border", ["edge", "mirror"])
def test_the_rows_of_a_blur_sum_to_one_and_weigh_nothing_negatively(size: int, sigma: float, border: Any) -> None:
    matrix = gaussian(size, sigma, 4.0, border, "cpu")
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(size))
    assert bool((matrix >= 0).all())


@pytest.mark.parametrize("shape", [(7, 9), (2, 7, 9), (2, 3, 7, 9), (2, 1, 3, 7, 9)])
def test_a_blur_is_of_the_last_two_axes(shape: tuple[int, ...]) -> None:
    if len(shape) == 2:
        shape = (1, *shape)
    images = numbers(*shape)
    sigmas = (*[0.0] * (len(shape) - 2), 1.2, 1.2)
    expected = ndimage.gaussian_filter(images.double().numpy(), sigmas, mode="nearest", truncate=4.0)
    np.testing.assert_allclose(blurred(images, 1.2).numpy(), expected, atol=1e-6)
    assert along(images, torch.ones(2, 7), torch.ones(4, 9)).shape == (*shape[:-2], 2, 4)


@pytest.mark.parametrize("sigma", [0.4, 0.62, 1.0, 6.0])
def test_a_gaussian_blur_ends_at_four_standard_deviations(sigma: float) -> None:
    """0.62: four of them are 2.48 pixels, so two on either side."""
    image = torch.zeros(1, 1, 61, 61)
    image[0, 0, 30, 30] = 1.0
    row = GaussianBlur().apply(image, sigma)[0, 0].sum(dim=0)
    reach = math.floor(4 * sigma + 0.5)
    weights = [math.exp(-0.5 * (offset / sigma) ** 2) for offset in range(-reach, reach + 1)]
    expected = torch.zeros(61)
    expected[30 - reach : 31 + reach] = torch.tensor(weights) / sum(weights)
    torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-9)


@given(st.integers(1, 60), st.data())
def test_a_box_is_that_of_pillow(size: int, data: st.DataObject) -> None:
    """The mean of the places whose centres lie in it, ties included; on the way back the box that a place lies in."""
    smaller = data.draw(st.integers(1, size))
    row = numbers(size)
    expected = np.asarray(Image.fromarray(row.numpy()[None]).resize((smaller, 1), Image.Resampling.BOX))[0]
    np.testing.assert_allclose((box(size, smaller, "cpu") @ row).numpy(), expected, atol=1e-6)
    assert nearest(smaller, size, "cpu").tolist() == [(2 * i + 1) * smaller // (2 * size) for i in range(size)]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (9, 1)])
def test_pixelate_keeps_at_least_one_pixel_a_side(height: int, width: int) -> None:
    """A share of 0.05 leaves less than a pixel: the mean of all."""
    image = torch.arange(height * width).view(1, 1, height, width).float() / 255
    mean = (height * width - 1) / 2 / 255
    torch.testing.assert_close(Pixelate().apply(image, 0.05), torch.full_like(image, mean))


@pytest.mark.parametrize("low", [0, 1, 100, 252])
def test_pixelate_rounds_a_mean_between_two_shades_up(low: int) -> None:
    """Two shades of one apart: across rounds up first, so that three of four low ones end low."""
    image = torch.tensor([[low, low + 1], [low, low]]).view(1, 1, 2, 2) / 255
    assert (Pixelate().apply(image, 0.5) * 255).flatten().tolist() == pytest.approx([low + 1] * 4, abs=1e-3)
    image = torch.tensor([[low, low + 2], [low, low]]).view(1, 1, 2, 2) / 255
    assert (Pixelate().apply(image, 0.5) * 255).flatten().tolist() == pytest.approx([low + 1] * 4, abs=1e-3)
    image = torch.tensor([low, low, low + 1, low]).view(1, 1, 1, 4) / 255
    assert (Pixelate().apply(image, 0.25) * 255).flatten().tolist() == pytest.approx([low] * 4, abs=1e-3)
    image = torch.tensor([low] * 11 + [low + 1] * 9).view(1, 1, 1, 20) / 255  # a mean of 0.45 more
    assert (Pixelate().apply(image, 0.05) * 255).flatten().tolist() == pytest.approx([low] * 20, abs=1e-3)


@pytest.mark.parametrize(("radius", "sigma"), [(0.5, 0.6), (1.0, 0.2), (1.5, 0.1), (3.0, 0.1), (8.0, 0.5), (10.0, 0.5)])
def test_a_disk_is_the_published_one_pixel_by_pixel(radius: float, sigma: float) -> None:
    """Pixels within the radius, its rim included; 3x3 softening up to a radius of 8, then 5x5; reflect-101."""
    reach, soft = (8, 1) if radius <= 8 else (int(radius), 2)
    side = range(-reach, reach + 1)
    inside = np.array([[float(y * y + x * x <= radius * radius) for x in side] for y in side])
    inside /= inside.sum()
    line = np.array([math.exp(-0.5 * (i / sigma) ** 2) for i in range(-soft, soft + 1)])
    square = np.outer(line, line) / line.sum() ** 2
    expected = ndimage.correlate(inside, square, mode="mirror")
    np.testing.assert_allclose(disk(radius, sigma).numpy(), expected, atol=1e-7)


@pytest.mark.parametrize("shape", [(3, 10), (10, 3), (2, 5), (5, 2), (1, 4), (4, 1), (4, 4)])
def test_narrow_images_are_mirrored_on_both_axes(shape: tuple[int, int]) -> None:
    image = numbers(1, 1, *shape)
    expected = np.pad(image[0, 0].numpy(), 8, mode="reflect")
    np.testing.assert_array_equal(mirrored(image, 8)[0, 0].numpy(), expected)


@pytest.mark.parametrize(("height", "width"), [(12, 70), (70, 12), (20, 14)])
def test_defocus_weighs_neighbours_by_its_kernel(height: int, width: int) -> None:
    """A kernel that is not symmetric, so that a turned or shifted one shows."""
    image, kernel = numbers(1, 2, height, width), numbers(5, 5, seed=1)
    expected = ndimage.correlate(image.double().numpy(), kernel.double().numpy()[None, None], mode="mirror")
    np.testing.assert_allclose(DefocusBlur().apply(image, kernel).numpy(), expected, atol=2e-5)


def test_a_zoom_of_an_oblong_image_is_about_its_centre() -> None:
    """Twice as near: the middle half of either side, corner on corner."""
    ramp = torch.arange(12.0).view(1, 1, 1, 12).expand(1, 1, 8, 12)
    found = zoomed(ramp, 2.0)[0, 0]
    torch.testing.assert_close(found[0], torch.linspace(3.0, 8.0, 12))
    torch.testing.assert_close(found, found[:1].expand(8, 12))
    found = zoomed(ramp.transpose(2, 3), 2.0)[0, 0]
    torch.testing.assert_close(found[:, 0], torch.linspace(3.0, 8.0, 12))


def test_a_zoom_blur_counts_the_image_twice() -> None:
    image = numbers(1, 3, 9, 7)
    torch.testing.assert_close(ZoomBlur().apply(image, (1, 0.1)), image)
    expected = (2 * image + zoomed(image, 1.25) + zoomed(image, 1.5)) / 4
    torch.testing.assert_close(ZoomBlur().apply(image, (3, 0.25)), expected)


# motion and glass


def test_a_smear_at_45_degrees_by_hand() -> None:
    """Step i lies i/√2 up and left, rounded to pixels: 0, 0.71, 1.41, 2.12, 2.83 are 0, 1, 1, 2, 3."""
    dot = torch.zeros(1, 1, 15, 15)
    dot[0, 0, 7, 7] = 1.0
    weights = [math.exp(-i * i / 8) for i in range(5)]
    expected = torch.zeros(15, 15)
    for weight, steps in zip(weights, (0, 1, 1, 2, 3), strict=True):
        expected[7 - steps, 7 - steps] += weight / sum(weights)
    found = smeared(dot, torch.tensor([math.pi / 4]), radius=2, sigma=2.0)[0, 0]
    torch.testing.assert_close(found, expected)
    found = smeared(dot, torch.tensor([-math.pi / 4]), radius=2, sigma=2.0)[0, 0]
    torch.testing.assert_close(found, expected.flip(0))


@pytest.mark.parametrize(("turn", "height", "width"), [(0.0, 20, 5), (math.pi / 2, 5, 20)])
def test_a_trail_breaks_off_where_it_is_as_long_as_the_image(turn: float, height: int, width: int) -> None:
    """Five pixels along the trail: steps 0 to 4 count, the other four are not made up for."""
    weights = [math.exp(-i * i / 18) for i in range(9)]
    found = smeared(torch.ones(1, 1, height, width), torch.tensor([turn]), radius=4, sigma=3.0)
    torch.testing.assert_close(found, torch.full_like(found, sum(weights[:5]) / sum(weights)))


def test_a_trail_that_breaks_off_leaves_the_next_one_whole() -> None:
    """Twenty rows of five: along the rows a trail of nine breaks off, down the columns it does not."""
    flat, turns_ = torch.ones(2, 1, 20, 5), torch.tensor([0.0, math.pi / 2])
    found = smeared(flat, turns_, radius=4, sigma=3.0).mean(dim=(1, 2, 3))
    weights = [math.exp(-i * i / 18) for i in range(9)]
    assert found.tolist() == pytest.approx([sum(weights[:5]) / sum(weights), 1.0])


@pytest.mark.parametrize(("chance", "degrees"), [(0.0, -45.0), (0.25, -22.5), (0.5, 0.0), (1.0, 45.0)])
def test_a_motion_turns_evenly_from_one_end_to_the_other(chance: float, degrees: float) -> None:
    drawn = MotionBlur().draw(torch.zeros(1, 1, 4, 4), (6.0, 1.5), Given(angle=torch.tensor([chance])))
    assert math.degrees(drawn.angle.item()) == pytest.approx(degrees, abs=1e-4)
    assert (drawn.radius, drawn.sigma) == (6.0, 1.5)
    image = numbers(1, 2, 30, 30)
    found = MotionBlur().apply(image, Motion(drawn.angle, 6.0, 1.5))
    torch.testing.assert_close(found, smeared(image, drawn.angle, radius=6.0, sigma=1.5))


def test_glass_where_no_pixel_moves_blurs_twice_with_8_bits_between() -> None:
    image = numbers(1, 3, 12, 13)
    for reach in (1, 2):
        pixels = sum(map(len, turns(12, 13, reach, "cpu")))
        stay = torch.full((1, 2, pixels), reach * 2 * reach + reach)
        once = ndimage.gaussian_filter(image[0].double().numpy(), (0, 0.9, 0.9), mode="nearest", truncate=4.0)
        kept = np.floor(once * 255) / 255
        expected = ndimage.gaussian_filter(kept, (0, 0.9, 0.9), mode="nearest", truncate=4.0)
        found = GlassBlur().apply(image, Shuffle(0.9, reach, stay))[0].numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("reach", "rounds"), [(1, 2), (2, 1), (3, 2)])
def test_glass_chooses_among_all_neighbours_evenly(reach: int, rounds: int) -> None:
    """Offsets from -reach to reach - 1, both ways."""
    drawn = GlassBlur().draw(torch.zeros(8, 3, 40, 40), (0.7, reach, rounds), Noise.of(0, ids(8)))
    assert (drawn.sigma, drawn.reach) == (0.7, reach)
    assert drawn.choices.shape == (8, rounds, (40 - 2 * reach) ** 2)
    counts = drawn.choices.flatten().bincount()
    assert len(counts) == (2 * reach) ** 2
    expected = drawn.choices.numel() / len(counts)
    assert bool(((counts - expected).abs() < 5 * expected**0.5).all())


# noises


@pytest.mark.parametrize(("renderer", "factor"), [(GaussianNoise(), 1.0), (SpeckleNoise(), 0.3)])
def test_normal_noise_is_added_as_it_was_drawn(renderer: Renderer, factor: float) -> None:
    """Twice the level is twice as much, upwards where the draw is above 0; speckle in proportion to the pixel."""
    images, normal = torch.full((1, 1, 2, 2), 0.3), torch.tensor([-1.0, 0.0, 0.5, 2.0]).view(1, 1, 2, 2)
    for level in (0.1, 0.2):
        drawn = renderer.draw(images, level, Given(pixels=normal.clone()))
        torch.testing.assert_close(renderer.apply(images, drawn), 0.3 + level * factor * normal)


def test_impulses_are_symmetric_up_to_their_limits() -> None:
    """A quarter from either end; a number exactly there is not hit, at either end."""
    chance = torch.tensor([0.2499, 0.25, 0.75, 0.7501]).view(1, 1, 1, 4)
    images = torch.full((1, 1, 1, 4), 0.3)
    hit = ImpulseNoise().apply(images, Chances(chance, 0.5)).flatten().tolist()
    assert hit == pytest.approx([1.0, 0.3, 0.3, 0.0])


@pytest.mark.parametrize("white", [3.0, 60.0])
@pytest.mark.parametrize("shade", [0, 1, 100, 255])
def test_photons_at_the_ends_of_chance(white: float, shade: int) -> None:
    """From the smallest to the largest uniform number there is, and next to every border between two bins."""
    edges = torch.arange(0, 4096, 64).double() / 4096
    chances = torch.cat([edges + 2.0**-24, edges[1:] - 2.0**-24, torch.tensor([1 - 2.0**-24])]).float()
    images = torch.full((1, 1, 1, len(chances)), shade / 255)
    drawn = Photons(chances.view(1, 1, 1, -1), white)
    counts = (ShotNoise().apply(images, drawn) * white).flatten().double().numpy()
    assert np.abs(counts - np.round(counts)).max() < 1e-3
    mean = shade / 255 * white
    counts = np.round(counts)
    cumulative = poisson.cdf(counts, mean)
    assert (cumulative >= chances.double().numpy() - 1e-12).all()
    assert (poisson.cdf(counts - 1, mean) < chances.double().numpy() + 1e-12).all()


def test_whole_levels_of_shot_noise_survive_truncating(monkeypatch: pytest.MonkeyPatch) -> None:
    """All counts that are a whole number of levels, for every number of photons up to 600."""
    for white in range(1, 601):
        counts = torch.arange(2 * white + 1)
        counts = counts[counts * 255 % white == 0]
        monkeypatch.setattr(shot_noise, "_counts", lambda *_, whole=counts: whole.float())
        made = ShotNoise().apply(torch.zeros(1), Photons(torch.zeros(1), float(white)))
        assert torch.equal((made * 255).floor().long(), counts * 255 // white)


def test_bins_of_shot_noise_are_exact() -> None:
    """A power of two of them: a uniform number times it has no rounding that puts it into the next bin."""
    assert math.log2(shot_noise.BINS).is_integer()


# weather


def clouds(wibble: Plane, decay: float) -> Plane:
    """Diamond-square point by point on a torus; the weight of a wibble falls by `decay` squared from level to level."""
    side = len(wibble)
    field, spacing, weight = np.zeros((side, side)), side, 1.0
    while spacing > 1:
        half = spacing // 2
        for y in range(half, side, spacing):
            for x in range(half, side, spacing):
                corners = [(y + v, x + u) for v in (-half, half) for u in (-half, half)]
                field[y, x] = sum(field[v % side, u % side] for v, u in corners) / 4 + weight * wibble[y, x]
        for y in range(0, side, half):
            for x in range(0, side, half):
                if (y // half + x // half) % 2:
                    beside = [(y - half, x), (y + half, x), (y, x - half), (y, x + half)]
                    field[y, x] = sum(field[v % side, u % side] for v, u in beside) / 4 + weight * wibble[y, x]
        spacing, weight = half, weight / decay**2
    return field


@pytest.mark.parametrize(("height", "width", "side"), [(8, 8, 8), (3, 7, 8), (9, 4, 16)])
def test_a_cloud_is_a_plasma_of_numbers_between_minus_and_plus_one(height: int, width: int, side: int) -> None:
    chosen = numbers(2, side, side)
    drawn = Fog().draw(torch.zeros(2, 3, height, width), (1.5, 1.75), Given(wibble=chosen))
    assert drawn.strength == 1.5
    for given_, cloud in zip(chosen.double().numpy(), drawn.cloud[:, 0].numpy(), strict=True):
        field = clouds(given_ * 2 - 1, 1.75)
        expected = (field - field.min()) / (field.max() - field.min())
        np.testing.assert_allclose(cloud, expected[:height, :width], atol=1e-5)


def test_a_field_without_relief_is_a_cloud_of_nothing() -> None:
    field = torch.stack([torch.full((4, 4), 3.0), torch.arange(16.0).view(4, 4)])
    assert torch.equal(stretched(field)[0], torch.zeros(4, 4))
    torch.testing.assert_close(stretched(field)[1], torch.arange(16.0).view(4, 4) / 15)


def test_a_plasma_takes_one_neighbour_from_farther_away_where_a_source_errs() -> None:
    """The first level has one middle, so that only the second one tells: middles of 1 to 4 on a flat field."""
    wibble = torch.zeros(1, 4, 4)
    wibble[0, 1::2, 1::2] = torch.tensor([[4.0, 8.0], [12.0, 16.0]])
    near, far = (plasma(wibble, decay=1.0, away=away)[0] for away in (1, 2))
    # above [0, 1] lies, across the border, the middle [3, 1]; two cells off is the middle [1, 1] itself
    assert (near[0, 1].item(), far[0, 1].item()) == ((4 + 12) / 4, (4 + 4) / 4)
    assert (near[1, 0].item(), far[1, 0].item()) == ((4 + 8) / 4, (4 + 4) / 4)


def test_fog_scales_each_image_by_its_own_brightest() -> None:
    images = torch.zeros(2, 3, 1, 2)
    images[0, 1, 0, 1], images[1, 2, 0, 0] = 0.5, 1.0
    cloud = torch.tensor([[0.0, 1.0], [1.0, 0.5]]).view(2, 1, 1, 2)
    foggy = Fog().apply(images, Cloud(cloud, 1.5))
    assert foggy[0, :, 0, 1].tolist() == pytest.approx([1.5 * 0.25, 2.0 * 0.25, 1.5 * 0.25])
    assert foggy[1, :, 0, 0].tolist() == pytest.approx([1.5 * 0.4, 1.5 * 0.4, 2.5 * 0.4])


@pytest.mark.parametrize(("mean", "level"), [(0.74, 0), (0.75, 191), (0.8, 204), (1.0, 255), (3.0, 255)])
def test_flakes_fall_from_the_threshold_on_and_are_at_most_white(mean: float, level: int) -> None:
    images = torch.zeros(1, 3, 4, 4)
    noise = Given(flakes=torch.zeros(1, 1, 4, 4), angle=torch.tensor([0.5]))
    drawn = Snow().draw(images, (mean, 0.3, 1.0, 0.75, 0.0, 1.0, 0.9), noise)
    assert drawn.kept == 0.9
    assert (drawn.layer * 255).flatten().tolist() == pytest.approx([level] * 16, abs=1e-4)


@pytest.mark.parametrize(
    ("chance", "across"), [(0.0, (0, 1, 1, 2, 3)), (0.5, (0, 0, 0, 0, 0)), (1.0, (0, -1, -1, -2, -3))]
)
def test_a_flake_trails_down_within_45_degrees_of_upright(chance: float, across: tuple[int, ...]) -> None:
    """Steps of the trail are a pixel apart: straight down at a chance of one half, i/√2 both ways at the ends."""
    flakes = torch.zeros(1, 1, 15, 15)
    flakes[0, 0, 7, 7] = 1.0
    noise = Given(flakes=flakes, angle=torch.tensor([chance]))
    drawn = Snow().draw(torch.zeros(1, 3, 15, 15), (0.0, 1.0, 1.0, 0.5, 2.0, 2.0, 0.9), noise)
    weights = [math.exp(-i * i / 8) for i in range(5)]
    expected = torch.zeros(15, 15)
    for step, (weight, x) in enumerate(zip(weights, across, strict=True)):
        expected[7 + (step if chance == 0.5 else abs(x)), 7 + x] += weight / sum(weights)
    torch.testing.assert_close(drawn.layer[0, 0], (expected * 255).round() / 255)


@pytest.mark.parametrize("zoom", [1.0, 1.25, 1.75, 2.25, 4.5])
def test_flakes_are_enlarged_grains(zoom: float) -> None:
    high, wide = math.ceil(32 / zoom), math.ceil(20 / zoom)
    grains = torch.randn(1, 1, high, wide, generator=torch.Generator().manual_seed(0))
    noise = Given(flakes=grains, angle=torch.tensor([0.5]))
    drawn = Snow().draw(torch.zeros(1, 3, 32, 20), (0.25, 0.3, zoom, 0.6, 0.0, 1.0, 0.9), noise)
    large = ndimage.zoom(grains[0, 0].double().numpy() * 0.3 + 0.25, zoom, order=1)
    top, left = (large.shape[0] - 32) // 2, (large.shape[1] - 20) // 2
    large = large[top : top + 32, left : left + 20]
    expected = np.minimum(np.where(large < 0.6, 0.0, large), 1.0) * 255
    np.testing.assert_allclose(drawn.layer[0, 0].numpy() * 255, expected, atol=0.502)
    assert (expected > 0).any()


# frost


def pictures(height: int, width: int) -> tuple[Tensor, ...]:
    """Two pictures that say where a pixel comes from: red its row, green its column, blue which of the two."""
    rows = torch.arange(height)[:, None].expand(height, width)
    columns = torch.arange(width).expand(height, width)
    return tuple(torch.stack([rows, columns, torch.full_like(rows, i)]).to(torch.uint8) for i in (100, 200))


def frosted(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], side: tuple[int, int], channels: int = 3) -> Tensor:
    """The frost in levels of two images, with pictures of a size; the second picture at (0, 1/2), the first at 3/4."""
    made = photographs.Frosts(pictures(*size), "two pictures")
    monkeypatch.setattr(frost_module, "frosts", lambda device: made)
    noise = Given(photograph=torch.tensor([1, 0]), place=torch.tensor([[0.0, 0.5], [0.75, 0.75]]))
    drawn = Frost().draw(torch.zeros(2, channels, *side), (0.8, 0.6), noise)
    assert (drawn.image_weight, drawn.frost_weight) == (0.8, 0.6)
    return (drawn.frost * 255).round()


def test_frost_of_a_large_image_is_cut_out_where_it_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    frost = frosted(monkeypatch, (111, 200), (65, 30))
    assert frost.shape == (2, 3, 65, 30)
    assert frost[0, :, 0, 0].tolist() == [0, 85, 200]
    assert frost[1, :, 0, 0].tolist() == [34, 127, 100]  # 3/4 of 46 and of 170, rounded down
    assert frost[0, :, -1, -1].tolist() == [64, 114, 200]


def test_photographs_are_shrunk_to_a_fifth_for_images_up_to_64_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth pixel, the middle of five."""
    frost = frosted(monkeypatch, (250, 250), (10, 30))
    assert frost[0, :, 0, 0].tolist() == [2, 52, 200]
    assert frost[0, :, 1, 1].tolist() == [7, 57, 200]
    assert frost[1, :, 0, 0].tolist() == [2 + 5 * 30, 2 + 5 * 15, 100]
    monkeypatch.undo()
    shrunk, whole = (frost_module._fitting(pictures(250, 250)[0][:, :, :200], side, 3) for side in (49, 65))
    assert (shrunk.shape, whole.shape) == ((3, 50, 40), (3, 250, 200))
    assert frost_module._fitting(torch.zeros(3, 400, 400, dtype=torch.uint8), 3, 64).shape == (3, 80, 80)


def test_grey_images_get_the_lightness_of_frost(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = frosted(monkeypatch, (111, 200), (65, 30))
    grey = frosted(monkeypatch, (111, 200), (65, 30), channels=1)
    expected = (colour * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(dim=1, keepdim=True)
    torch.testing.assert_close(grey, expected.round(), rtol=0, atol=1.0)


@pytest.mark.parametrize(
    ("picture", "image", "fitted"),
    [
        ((100, 100), (100, 80), (110, 110)),  # a picture has to be larger than the image, both ways
        ((100, 100), (80, 100), (110, 110)),
        ((100, 100), (99, 99), (100, 100)),
        ((100, 50), (80, 100), (220, 110)),
        ((50, 100), (100, 80), (110, 220)),
    ],
)
def test_small_photographs_are_made_a_tenth_larger_than_the_image(
    picture: tuple[int, int], image: tuple[int, int], fitted: tuple[int, int]
) -> None:
    assert frost_module._fitting(torch.zeros(3, *picture, dtype=torch.uint8), *image).shape[1:] == fitted


def test_enlarged_photographs_do_not_wrap_around_black_and_white() -> None:
    """Cubic curves shoot beyond a step on both sides; a flat picture stays flat."""
    step = torch.zeros(3, 80, 80, dtype=torch.uint8)
    step[:, :, 40:] = 255
    larger = frost_module._fitting(step, 80, 80).float()
    assert bool((larger[:, :, :42] == 0).all())
    assert bool((larger[:, :, 46:] == 255).all())
    assert bool((larger.diff(dim=2) >= 0).all())
    assert bool((frost_module._fitting(torch.full_like(step, 77), 80, 80) == 77).all())


def test_enlarged_photographs_lie_on_the_image_edge_on_edge() -> None:
    """A ramp of 25 levels a pixel, 7.7 times larger: pixel i shows the place (i + 1/2) / 7.7 - 1/2."""
    ramp = (torch.arange(10) * 25).to(torch.uint8).expand(3, 10, 10)
    larger = frost_module._fitting(ramp, 70, 70).float()
    assert larger.shape == (3, 77, 77)
    places = (torch.arange(77.0) + 0.5) / 7.7 - 0.5
    inner = (places > 2) & (places < 7)
    assert float((larger[0, 40] - 25 * places)[inner].abs().max()) < 2.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package that carries photographs, each of its own grey."""
    made = tmp_path / "imagecorruptions" / "frost"
    made.mkdir(parents=True)
    for number in range(1, 7):
        name = f"frost{number}.{'png' if number < 4 else 'jpg'}"
        Image.new("RGB", (8, 6), (number * 40,) * 3).save(made / name)
    return made


def find(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    spec = importlib.machinery.ModuleSpec("imagecorruptions", None, is_package=True)
    spec.submodule_search_locations = [str(place) for place in places]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "imagecorruptions" else None)


def test_five_photographs_are_found_and_the_sixth_is_not_drawn(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    find(monkeypatch, folder.parent.parent, folder.parent)
    assert photographs.installed() == folder
    made = photographs.frosts.__wrapped__("cpu")
    assert [round(float(picture.float().mean()) / 40) for picture in made.pictures] == [1, 2, 3, 4, 5]
    assert all(picture.shape == (3, 6, 8) for picture in made.pictures)
    content = b"".join((folder / name).read_bytes() for name in photographs.NAMES)
    digest = photographs.photographs_digest.__wrapped__()
    assert digest == f"photographs {hashlib.sha256(content).hexdigest()[:12]}"


def test_a_package_that_lacks_a_photograph_or_is_absent_has_none(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "frost3.png").unlink()
    find(monkeypatch, folder.parent)
    assert photographs.installed() is None
    assert photographs.photographs_digest.__wrapped__() == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert photographs.installed() is None


def test_drawn_frost_is_bright_needles_over_a_dim_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five pictures from two clouds each, by the names `frost 0` to `frost 4` and seed 0 alone."""
    monkeypatch.setattr(photographs, "SIDE", 16)
    made = photographs.painted()
    assert len(made) == 5
    for number in (0, 4):
        noise = Noise.of(0, [f"frost {number}"])
        fields = []
        for purpose, decay in (("coarse", 2.0), ("fine", 1.4)):
            wibble = noise.uniform(purpose, (16, 16))[0].double().numpy() * 2 - 1
            field = clouds(wibble, decay**0.5)
            fields.append((field - field.min()) / (field.max() - field.min()))
        coarse, fine = fields
        light = np.minimum(1.0, 0.15 + 0.5 * coarse + 0.6 * (1 - abs(2 * fine - 1)) ** 3)
        expected = np.stack([light * tint for tint in (0.82, 0.94, 1.0)]) * 255
        np.testing.assert_allclose(made[number].numpy(), expected, atol=0.502)
        assert light.max() == 1.0


# rubber


def test_rubber_is_pulled_by_its_draws() -> None:
    chosen = Given(pull=numbers(2, 3, 2), wobble=numbers(2, 2, 12, 18, seed=1))
    drawn = ElasticTransform().draw(torch.zeros(2, 1, 12, 18), (3.0, 0.0, 2.0), chosen)
    fixed = torch.tensor([[13.0, 10.0], [13.0, 2.0], [5.0, 2.0]])  # the centre (9, 6), 4 to the sides
    torch.testing.assert_close(drawn.corners, fixed + 2.0 * (2 * chosen.draws["pull"] - 1))
    torch.testing.assert_close(drawn.displacement, 3.0 * (2 * chosen.draws["wobble"] - 1))


@pytest.mark.parametrize("sigma", [0.96, 1.28, 1.92, 6.4])
def test_a_wobble_is_smoothed_up_to_three_standard_deviations(sigma: float) -> None:
    chosen = Given(pull=numbers(1, 3, 2), wobble=numbers(1, 2, 12, 18, seed=1))
    drawn = ElasticTransform().draw(torch.zeros(1, 1, 12, 18), (3.2, sigma, 1.0), chosen)
    uneven = chosen.draws["wobble"][0].double().numpy() * 2 - 1
    expected = 3.2 * ndimage.gaussian_filter(uneven, (0, sigma, sigma), mode="reflect", truncate=3.0)
    np.testing.assert_allclose(drawn.displacement[0].numpy(), expected, atol=1e-5)


def test_rubber_of_one_pixel_stays() -> None:
    image = torch.full((1, 3, 1, 1), 0.4)
    drawn = ElasticTransform().draw(image, (3.2, 1.28, 1.6), Noise.of(0, ids(1)))
    torch.testing.assert_close(ElasticTransform().apply(image, drawn), image)


def test_rubber_is_stretched_between_its_corners() -> None:
    """Corners 4 apart pulled to 8 apart about (2, 2): what is seen at x comes from 2 + (x - 2) / 2."""
    image = torch.arange(7.0).view(1, 1, 1, 7).expand(1, 1, 7, 7).contiguous()
    fixed = torch.tensor([[5.0, 5.0], [5.0, 1.0], [1.0, 1.0]])
    corners = (2 + (fixed - 2) * 2)[None]
    found = ElasticTransform().apply(image, Rubber(corners, torch.zeros(1, 2, 7, 7)))[0, 0]
    torch.testing.assert_close(found, (2 + (torch.arange(7.0) - 2) / 2).expand(7, 7), rtol=0, atol=1e-4)
    down = ElasticTransform().apply(image.transpose(2, 3), Rubber(corners, torch.zeros(1, 2, 7, 7)))[0, 0]
    torch.testing.assert_close(down, found.T, rtol=0, atol=1e-4)


def test_an_oblong_wobble_is_in_pixels_across_and_down() -> None:
    """Half a pixel right and two down, in an image wider than high: the mean of two neighbours two rows below."""
    image = numbers(1, 2, 8, 13)
    displacement = torch.tensor([0.5, 2.0]).view(1, 2, 1, 1).expand(1, 2, 8, 13)
    fixed = torch.tensor([[8.0, 6.0], [8.0, 2.0], [4.0, 2.0]])[None]
    found = ElasticTransform().apply(image, Rubber(fixed, displacement))
    expected = (image[:, :, 2:, :-1] + image[:, :, 2:, 1:]) / 2
    torch.testing.assert_close(found[:, :, :-2, :-1], expected, rtol=0, atol=1e-4)


# JPEG


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 15, 17])
@pytest.mark.parametrize("height", [1, 3, 4, 17])
def test_jpeg_of_narrow_images_is_pillows_to_the_bit(height: int, width: int) -> None:
    """Chroma of one or two pixels across is repeated, not smoothed."""
    image = (numbers(3, height, width, seed=width) * 255).round()
    buffer = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).to(torch.uint8).numpy()).save(buffer, "JPEG", quality=90)
    expected = torch.from_numpy(np.array(Image.open(buffer))).permute(2, 0, 1).double()
    assert torch.equal(through_jpeg(image[None], 90)[0], expected)


@pytest.mark.parametrize("side", [16, 56])
def test_jpeg_sees_images_inside_the_box_and_gives_no_gradient(side: int) -> None:
    """By tensors and by files; what lies outside 0 to 1 is black or white."""
    images = (numbers(1, 3, side, side) * 3 - 1).requires_grad_()
    found = Jpeg().apply(images, 80)
    assert not found.requires_grad
    assert torch.equal(found, Jpeg().apply(images.detach().clamp(0, 1), 80))


# what all share


class Counting:
    """A renderer that notes how many images it is given at once, and adds its draw."""

    at_once: int = 100

    def __init__(self) -> None:
        self.pieces: list[int] = []

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Tensor:
        self.pieces.append(len(images))
        return noise.uniform("pixels", images.shape[1:]) * float(level)  # type: ignore[arg-type]

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        return images + drawn


@pytest.mark.parametrize(
    ("count", "side", "pieces"), [(5, 4, [2, 2, 1]), (3, 6, [1, 1, 1]), (2, 10, [1, 1]), (0, 4, [])]
)
def test_images_are_rendered_a_few_at_a_time_each_with_its_own_draw(count: int, side: int, pieces: list[int]) -> None:
    """Pieces of at most 100 numbers: two images of 48, one of 108, which is more, or of 300; none of no images."""
    renderer = Counting()
    change = Corruption("counting", renderer, {"cifar": (0.25, 0.5), "imagenet": (0.1, 0.2)}, 2, "auto", "off")
    images, noise = numbers(count, 3, side, side), Noise.of(0, ids(count))
    batch = Batch(images, torch.zeros(count, dtype=torch.int64), ids(count))
    changed = change(None, batch, noise, width=1)
    assert renderer.pieces == pieces
    assert changed.facts == {"counting ladder": "cifar"}
    if count:
        torch.testing.assert_close(changed.images, (images + noise.uniform("pixels", images.shape[1:]) / 2).clamp(0, 1))
    else:
        assert changed.images.shape == images.shape


STANDARD = {
    "noise": ["gaussian-noise", "shot-noise", "impulse-noise"],
    "blur": ["defocus-blur", "glass-blur", "motion-blur", "zoom-blur"],
    "weather": ["snow", "frost", "fog", "brightness"],
    "digital": ["contrast", "elastic-transform", "pixelate", "jpeg"],
}
EXTRA = {
    "noise": ["speckle-noise"],
    "blur": ["gaussian-blur"],
    "weather": ["spatter"],
    "digital": ["saturate", "greyscale"],
}
KINDS = [
    (name, category, kind)
    for kind, table in (("standard", STANDARD), ("extra", EXTRA))
    for category, names in table.items()
    for name in names
]


@pytest.mark.parametrize(("name", "category", "kind"), KINDS)
def test_a_corruption_is_standard_or_extra_and_has_a_source(name: str, category: str, kind: str) -> None:
    entry = registry.entry("corruption", name)
    assert set(entry.tags) == {category, kind}
    assert ("Taori et al. 2020" if name == "greyscale" else "Hendrycks & Dietterich 2019") in entry.source


@pytest.mark.parametrize(
    ("shape", "ladder"), [((3, 65, 20), "imagenet"), ((3, 20, 65), "imagenet"), ((90, 8, 8), "cifar")]
)
def test_the_longer_side_decides_the_ladder(shape: tuple[int, int, int], ladder: str) -> None:
    change = Corruption("counting", Counting(), {"cifar": (0.25,), "imagenet": (0.5,)}, 1, "auto", "off")
    batch = Batch(torch.zeros(1, *shape), torch.zeros(1, dtype=torch.int64), ids(1))
    assert change(None, batch, Noise.of(0, ids(1)), width=1).facts == {"counting ladder": ladder}


@pytest.mark.parametrize(("rungs", "middle"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4)])
def test_a_corruption_of_your_own_is_registered_with_the_middle_rung_as_its_default(rungs: int, middle: int) -> None:
    levels = tuple(0.1 * (i + 1) for i in range(rungs))
    try:
        options = {"extra": True} if rungs == 1 else {}
        made = corruption("made-up", category="noise", cifar=levels, imagenet=levels[::-1], **options)(Counting)
        assert made is Counting
        built = registry.build(registry.bind("corruption", "made-up"))
        assert (built.severity, built.ladder, built.quantise) == (middle, "auto", "round")
        assert built.ladders == {"cifar": levels, "imagenet": levels[::-1]}
        assert isinstance(built.renderer, Counting)
        entry = registry.entry("corruption", "made-up")
        assert (entry.tags, entry.version) == (("noise", "extra" if rungs == 1 else "standard"), 1)
    finally:
        registry.components["corruption"].pop("made-up", None)


def test_what_a_renderer_takes_from_outside_is_part_of_the_key() -> None:
    class Outside(Counting):
        source_in_key = "photographs 0123"
        facts = MappingProxyType({"from": "a file"})

    ladders: dict[str, tuple[Level, ...]] = {"cifar": (0.25,), "imagenet": (0.5,)}
    assert Corruption("counting", Counting(), ladders, 1, "auto", "off").source_in_key == ""
    outside = Corruption("counting", Outside(), ladders, 1, "imagenet", "off")
    assert outside.source_in_key == "photographs 0123"
    batch = Batch(torch.zeros(1, 1, 2, 2), torch.zeros(1, dtype=torch.int64), ids(1))
    facts = outside(None, batch, Noise.of(0, ids(1)), width=1).facts
    assert facts == {"counting ladder": "imagenet", "from": "a file"}
