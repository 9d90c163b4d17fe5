"""Fog, snow and Gabor noise: what their variables do to an image, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from holdfast.attacks.threat import Scene, Threat, scene_of
from holdfast.attacks.threats.fog_threat import FogThreat
from holdfast.attacks.threats.gabor import SIDE, Gabor, evened, kernels, spread
from holdfast.attacks.threats.snow_threat import BUDGET, LATTICE, REACH, SnowThreat, paled, streaks
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.corruptions.plasma import plasma, side_for, stretched
from holdfast.models import TorchClassifier, wrap

IDS = tuple("abcd")
NOISE, DRAW = Noise.of(0, IDS), torch.zeros(len(IDS), dtype=torch.int64)


def images_of(channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    return NOISE.uniform("images", (channels, height, width)) * 0.6 + 0.2


def scene_for(threat: Threat, images: Tensor, radius: float) -> Scene:
    return scene_of(threat, images, torch.full((len(images),), radius), NOISE, DRAW)


# plasma and fog


def slow_plasma(wibble: np.ndarray, decay: float) -> np.ndarray:
    """Point by point: first the middles of squares, then the middles of their edges, on a torus."""
    side = len(wibble)
    field, spacing, weight = np.zeros_like(wibble), side, 1.0
    while spacing > 1:
        half = spacing // 2
        for first in (True, False):
            for row in range(0, side, half):
                for column in range(0, side, half):
                    odd = (row % spacing != 0) + (column % spacing != 0)
                    if odd != (2 if first else 1):
                        continue
                    reach = [(-half, -half), (-half, half), (half, -half), (half, half)]
                    reach = reach if first else [(-half, 0), (half, 0), (0, -half), (0, half)]
                    near = [field[(row + y) % side, (column + x) % side] for y, x in reach]
                    field[row, column] = np.mean(near) + weight * wibble[row, column]
        spacing, weight = half, weight / decay
    return field


@pytest.mark.parametrize("side", [1, 2, 4, 16])
@pytest.mark.parametrize("decay", [1.75, 3.0])
def test_plasma_is_midpoint_displacement(side: int, decay: float) -> None:
    wibble = NOISE.normal("wibble", (side, side)).double()
    made = plasma(wibble, decay=decay)
    for one, field in zip(wibble.numpy(), made.numpy(), strict=True):
        np.testing.assert_allclose(field, slow_plasma(one, decay), atol=1e-12)


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_plasma_is_linear_in_its_wibbles(one: float, other: float) -> None:
    a, b = NOISE.normal("a", (8, 8)).double(), NOISE.normal("b", (8, 8)).double()
    parts = one * plasma(a, decay=2.0) + other * plasma(b, decay=2.0)
    torch.testing.assert_close(plasma(one * a + other * b, decay=2.0), parts, rtol=0, atol=1e-12)


def test_fields_are_stretched_one_by_one() -> None:
    field = torch.stack((NOISE.normal("a", (5, 7))[0], torch.full((5, 7), 3.0)))
    made = stretched(field)
    assert made[0].aminmax() == (0.0, 1.0)
    torch.testing.assert_close(made[0], (field[0] - field[0].min()) / (field[0].max() - field[0].min()))
    assert not made[1].any()


@pytest.mark.parametrize(("pixels", "side"), [(1, 1), (2, 2), (60, 64), (64, 64), (65, 128), (256, 256)])
def test_a_plasma_covers_its_pixels_and_no_more(pixels: int, side: int) -> None:
    assert side_for(pixels) == side


@pytest.mark.parametrize(("height", "width", "side"), [(32, 32, 64), (224, 224, 256), (28, 28, 64), (20, 40, 128)])
def test_fog_takes_the_middle_of_a_map_of_the_published_size(height: int, width: int, side: int) -> None:
    """Over a black image of any radius nothing is seen but the clouds."""
    scene = scene_for(FogThreat(), torch.zeros(4, 3, height, width), 10.0)
    variable = FogThreat().start(scene, NOISE, DRAW)
    assert variable.shape == (4, side, side)
    clouds = stretched(plasma(variable, decay=2.0))
    top, left = (side - height) // 2, (side - width) // 2
    expected = clouds[:, None, top : top + height, left : left + width].expand(-1, 3, -1, -1)
    torch.testing.assert_close(FogThreat().render(scene, variable), expected, rtol=0, atol=1e-6)


@given(st.floats(0.0, 60.0))
def test_fog_mixes_by_the_published_formula(radius: float) -> None:
    images = images_of()
    scene = scene_for(FogThreat(), images, radius)
    variable = FogThreat().start(scene, NOISE, DRAW)
    clouds = FogThreat().render(scene_for(FogThreat(), torch.zeros_like(images), 1.0), variable)
    if radius == 0:
        clouds = torch.zeros_like(images)
    peak = images.amax(dim=(2, 3), keepdim=True)
    expected = (255 * images + radius * clouds) / (255 * peak + radius)
    torch.testing.assert_close(FogThreat().render(scene, variable), expected, rtol=0, atol=2e-6)


def test_a_black_channel_at_radius_zero_stays_black() -> None:
    scene = scene_for(FogThreat(), torch.zeros(4, 3, 8, 8), 0.0)
    assert not FogThreat().render(scene, FogThreat().identity(scene)).any()


# snow


@pytest.mark.parametrize(("grey", "paler"), [(0.0, 0.125), (0.5, 0.6875), (0.8, 1.025), (1.0, 1.25)])
def test_paling_by_the_published_formula(grey: float, paler: float) -> None:
    for channels in (1, 3):
        made = paled(torch.full((1, channels, 2, 2), grey))
        torch.testing.assert_close(made, torch.full((1, channels, 2, 2), paler))
    red = paled(torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)).flatten()
    glow = 0.25 * (1.5 * 0.2126 + 0.5)
    torch.testing.assert_close(red, torch.tensor([1.0, glow, glow]))


def slow_line(down: int, across: int, width: int) -> np.ndarray:
    """A line from the middle, one row or column at a time, brighter the nearer, and its mirror image."""
    side = 2 * REACH + 1
    line = np.zeros((side, side))
    wide = width * math.sqrt(1 + min(down, across) / max(down, across)) / 2
    for along in range(max(down, across) + 1):
        beside = along * min(down, across) / max(down, across)
        for cell in range(REACH + 1):
            value = min(max(1 + wide / 2 - abs(cell - beside), 0), 1)
            row, column = (cell, along) if across >= down else (along, cell)
            line[REACH + row, REACH + column] = line[REACH - row, REACH - column] = value
    return line


def slow_streak(down: int, across: int, chance: float, leans: bool, sigma: float) -> np.ndarray:
    line = slow_line(down, across, 1 if chance <= 0.6 else 3 if chance <= 0.9 else 5)
    line = np.pad(line[:, ::-1] if leans else line, 1)
    weights = np.exp(-0.5 * (np.arange(-1, 2) / sigma) ** 2)
    window = np.outer(weights, weights) / weights.sum() ** 2
    side = 2 * REACH + 1
    return np.array([[(window * line[y : y + 3, x : x + 3]).sum() for x in range(side)] for y in range(side)])


def test_streaks_are_blurred_lines_of_the_published_kinds() -> None:
    many = Noise.of(0, [str(i) for i in range(40)])
    draw = torch.zeros(40, dtype=torch.int64)
    made = streaks(many, draw)
    ends = many.integers("end", (2, 7), low=2, high=7, draw=draw).numpy()
    chance, blur = (many.uniform(word, (7,), draw=draw).numpy() for word in ("width", "blur"))
    leans = (many.uniform("lean", (), draw=draw) < 0.5).numpy()
    assert 0.2 < leans.mean() < 0.8
    assert (ends[:, 0] == ends[:, 1]).any(), "lines at 45 degrees, where either axis could lead, are among them"
    for i in range(40):
        for kind in range(7):
            expected = slow_streak(*ends[i, :, kind], chance[i, kind], leans[i], 0.41 + 0.19 * blur[i, kind])
            np.testing.assert_allclose(made[i, kind].numpy(), expected, atol=1e-5)


def test_a_flake_falls_where_its_kind_has_its_lattice() -> None:
    images = torch.zeros(4, 1, 30, 41)
    scene = scene_for(SnowThreat(), images, 0.1)
    own = streaks(NOISE.scope("snow"), DRAW)
    for kind, (row, column) in enumerate(LATTICE):
        variable = SnowThreat().identity(scene)
        assert variable.shape == (4, 7, 8, 11)
        variable[:, kind, 3, 5] = 0.1
        fallen = SnowThreat().render(scene, variable) - 0.125
        y, x = 4 * 3 + row, 4 * 5 + column
        seen = fallen[:, 0, y - REACH : y + REACH + 1, x - REACH : x + REACH + 1]
        torch.testing.assert_close(seen, 0.1 * own[:, kind], rtol=0, atol=1e-6)
        assert float(fallen.sum()) == pytest.approx(float(seen.sum()), rel=1e-4)


def test_half_a_flake_is_worth_a_sixteenth() -> None:
    scene = scene_for(SnowThreat(), torch.zeros(4, 1, 32, 32), 0.1)
    full = torch.zeros(4, 7, 8, 8)
    full[:, 2, 4, 4] = 0.1
    whole, half = (SnowThreat().render(scene, variable) - 0.125 for variable in (full, full / 2))
    torch.testing.assert_close(half, whole / 16, rtol=0, atol=1e-6)


WILD = Noise.of(1, "abcde").normal("flakes", (7, 9, 3)).double()
flakes = hnp.arrays(np.float64, (1, 7, 9, 3), elements=st.floats(-1, 2, width=32))


@given(flakes, st.floats(0.125, 1, width=32))
def test_snow_is_projected_to_the_nearest_that_keeps_the_budget(moved: np.ndarray, radius: float) -> None:
    """Blocks of 8 x 3 and 1 x 3 flakes. The optimality condition holds against any other flakes that keep it."""
    target = torch.from_numpy(moved)
    scene = Scene(torch.zeros(1, 1, 36, 12, dtype=torch.float64), torch.tensor([radius], dtype=torch.float64))
    nearest = SnowThreat().project(scene, target)
    assert float(nearest.min()) >= 0
    assert float(nearest.max()) <= radius * (1 + 1e-6)
    for block in (nearest[:, :, :8], nearest[:, :, 8:]):
        assert float(block.mean(dim=(2, 3)).max()) <= BUDGET * radius * (1 + 1e-6)
    assert float(SnowThreat().size(scene, nearest)) <= radius * (1 + 1e-6)
    other = SnowThreat().project(scene.take(torch.zeros(5, dtype=torch.int64)), radius * WILD)
    assert float(((target - nearest) * (other - nearest)).flatten(1).sum(1).max()) <= 1e-5


def test_the_size_of_snow_is_the_smallest_radius_that_allows_it() -> None:
    variable = torch.zeros(2, 7, 8, 8)
    variable[0, 1, 2, 3] = 0.3  # one bright flake
    variable[1, 4] = 0.1  # half as many again as the budget allows at its brightness
    scene = Scene(torch.zeros(2, 1, 32, 32), torch.ones(2))
    torch.testing.assert_close(SnowThreat().size(scene, variable), torch.tensor([0.3, 0.1 / BUDGET]))
    assert torch.equal(SnowThreat().project(scene.within(torch.tensor([0.301, 0.501])), variable), variable)


def test_snow_attacks_what_only_paling_sets_right(wrap_mean: TorchClassifier) -> None:
    """Dark images are wrong as they are and right once paled, whatever falls: each takes every step."""
    batch = Batch(torch.full((4, 1, 8, 8), 0.1), torch.ones(4, dtype=torch.int64), IDS)
    assert bool((wrap_mean(batch.images).argmax(1) == 0).all())
    attack = registry.build(registry.bind("attack", "snow-attack:steps=3"))
    changed = attack(wrap_mean, batch, NOISE, width=4)
    assert bool((wrap_mean(changed.images).argmax(1) == 1).all())
    assert changed.backwards.tolist() == [3] * 4


@pytest.fixture
def wrap_mean() -> TorchClassifier:
    """Calls an image bright (class 1) from a mean of 0.15 on."""

    class Mean(torch.nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            mean = images.flatten(1).mean(dim=1)
            return torch.stack((torch.full_like(mean, 0.15), mean), dim=1)

    return wrap(Mean(), name="mean", classes=2, channels=1)


# Gabor noise


def test_specks_are_spread_by_their_own_kernel() -> None:
    for height, width in ((32, 32), (28, 17)):
        specks, kernel = NOISE.normal("specks", (height, width)).double(), kernels(NOISE, DRAW).double()
        expected = F.conv2d(specks[None], kernel[:, None].flip(2, 3), padding=SIDE // 2, groups=4)[0]
        torch.testing.assert_close(spread(specks, kernel), expected, rtol=0, atol=1e-9)


def test_a_kernel_is_a_gaussian_times_waves_in_even_directions() -> None:
    many, draw = Noise.of(0, [str(i) for i in range(30)]), torch.zeros(30, dtype=torch.int64)
    made = kernels(many, draw)
    angle, waves, width = (many.uniform(word, (), draw=draw).numpy() for word in ("angle", "waves", "width"))
    directions = many.integers("directions", (), low=1, high=11, draw=draw).numpy()
    assert {1, 10} <= set(directions.tolist())
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, 23), np.linspace(-0.5, 0.5, 23))
    for i in range(30):
        expected = np.zeros((23, 23))
        for turn in range(directions[i]):
            turned = np.pi * (angle[i] + turn / directions[i])
            expected += np.cos(2 * np.pi * (3 + 2.75 * waves[i]) * (x * np.cos(turned) + y * np.sin(turned)))
        expected *= np.exp(-0.5 * (x**2 + y**2) / (0.101 + 0.3 * width[i]) ** 2)
        np.testing.assert_allclose(made[i].numpy(), expected, atol=1e-4)


@given(st.floats(0.5, 20.0))
def test_gabor_noise_brightens_by_up_to_the_radius_alike_in_all_channels(radius: float) -> None:
    images = images_of()
    scene = scene_for(Gabor(), images, radius)
    change = (Gabor().render(scene, Gabor().start(scene, NOISE, DRAW)) - images) * 255
    for extreme, expected in zip(change.flatten(1).aminmax(dim=1), (0.0, radius), strict=True):
        torch.testing.assert_close(extreme, torch.full((4,), expected), rtol=0, atol=1e-3)
    torch.testing.assert_close(change[:, 0], change[:, 2], rtol=0, atol=1e-3)


@pytest.mark.parametrize("density", [1 / 14, 1.0])
def test_specks_stay_where_they_were_drawn(density: float) -> None:
    threat = Gabor(density=density)
    scene = scene_for(threat, images_of(), 5.0)
    specks = scene.props["specks"]
    assert float(specks.float().mean()) == pytest.approx(density, abs=0.02)
    moved = threat.project(scene, NOISE.normal("wild", (32, 32)) * 9)
    assert torch.equal(moved != 0, specks)
    assert float(moved.abs().max()) == 5.0
    other = scene_of(threat, scene.images, scene.radius, NOISE, DRAW + 1)
    assert density == 1 or not torch.equal(other.props["specks"], specks), "another run has other specks"


def test_crests_are_evened_out_and_gradients_may_take_that_as_given() -> None:
    waves = NOISE.normal("waves", (16, 16)).double().requires_grad_()
    centred = waves - waves.mean(dim=(1, 2), keepdim=True)
    share = centred / centred.abs().amax(dim=(1, 2), keepdim=True)
    made = evened(waves)
    highest = centred.abs().amax(dim=(1, 2), keepdim=True)
    torch.testing.assert_close(made, highest * share * 1.001 / (0.001 + share.abs()))
    assert float((made.abs() / highest).detach().median()) > 0.99
    given_up = evened(waves, straight_through=True)
    assert torch.equal(given_up, made)
    (slope,) = torch.autograd.grad(given_up.sum(), waves)
    gain = 1.001 / (0.001 + share.abs())
    torch.testing.assert_close(slope, (gain - gain.mean(dim=(1, 2), keepdim=True)).detach())
