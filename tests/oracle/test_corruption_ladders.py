"""The ladders of the corruptions against the published generator, number by number, and what is drawn at random."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.corruptions.elastic_transform import ElasticTransform, square
from holdfast.corruptions.motion_blur import MotionBlur
from holdfast.corruptions.plasma import plasma, side_for
from holdfast.corruptions.zoom_blur import ZoomBlur

# Hendrycks & Dietterich 2019 and its public scripts: severity 1 first
IMAGENET = {
    "gaussian-noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "shot-noise": (60, 25, 12, 5, 3),
    "impulse-noise": (0.03, 0.06, 0.09, 0.17, 0.27),
    "speckle-noise": (0.15, 0.2, 0.35, 0.45, 0.6),
    "gaussian-blur": (1, 2, 3, 4, 6),
    "defocus-blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass-blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion-blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    "jpeg": (25, 18, 15, 10, 7),
    "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),
    "elastic-transform": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    "greyscale": (1,),
}
CIFAR = {
    "gaussian-noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "shot-noise": (500, 250, 100, 75, 50),
    "impulse-noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle-noise": (0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian-blur": (0.4, 0.6, 0.7, 0.8, 1),
    "defocus-blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass-blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion-blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "jpeg": (80, 65, 58, 50, 40),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    "elastic-transform": ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
    "greyscale": (1,),
}
# end and step of the published np.arange from 1; the end is left out, up to rounding
ZOOMS = {
    "imagenet": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "cifar": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
}
EXTRA = {"speckle-noise", "gaussian-blur", "spatter", "saturate", "greyscale"}
CATEGORIES = {
    "noise": {"gaussian-noise", "shot-noise", "impulse-noise", "speckle-noise"},
    "blur": {"defocus-blur", "glass-blur", "motion-blur", "zoom-blur", "gaussian-blur"},
    "weather": {"snow", "frost", "fog", "brightness", "spatter"},
    "digital": {"contrast", "elastic-transform", "pixelate", "jpeg", "saturate", "greyscale"},
}


def ladders_of(name: str) -> dict[str, tuple]:
    return registry.build(registry.bind("corruption", f"{name}:severity=1")).ladders


@pytest.mark.parametrize("name", sorted(IMAGENET))
def test_the_levels_are_the_published_ones(name: str) -> None:
    for ladder, table in (("imagenet", IMAGENET), ("cifar", CIFAR)):
        levels = ladders_of(name)[ladder]
        assert len(levels) == len(table[name])
        for ours, theirs in zip(levels, table[name], strict=True):
            assert np.atleast_1d(ours) == pytest.approx(np.atleast_1d(theirs), rel=1e-12)


@pytest.mark.parametrize("ladder", ["imagenet", "cifar"])
def test_views_of_zoom_blur_are_those_of_the_published_list(ladder: str) -> None:
    for (views, step), (end, apart) in zip(ladders_of("zoom-blur")[ladder], ZOOMS[ladder], strict=True):
        factors = np.arange(1, end, apart)
        assert (views, step) == (len(factors), apart)


def test_every_ladder_is_checked_here() -> None:
    assert set(registry.entries("corruption")) == {*IMAGENET, "zoom-blur"}
    assert set(CIFAR) == set(IMAGENET)


def test_standard_ones_extra_ones_and_categories() -> None:
    for category, names in CATEGORIES.items():
        for name in names:
            tags = registry.entry("corruption", name).tags
            assert category in tags
            assert ("extra" in tags) == (name in EXTRA)


@pytest.mark.parametrize("name", ["contrast", "brightness", "jpeg"])
def test_severity_s_is_rung_s_and_the_middle_one_is_the_default(name: str) -> None:
    images, ids = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0)), ("a",)
    batch = Batch(images, torch.zeros(1, dtype=torch.int64), ids)

    def corrupted(text: str) -> torch.Tensor:
        return registry.build(registry.bind("corruption", text))(None, batch, Noise.of(0, ids), width=1).images

    results = [corrupted(f"{name}:severity={severity}") for severity in (1, 2, 3, 4, 5)]
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(results))
    assert torch.equal(corrupted(name), results[2])
    renderer = registry.build(registry.bind("corruption", name)).renderer
    for level, result in zip(CIFAR[name], results, strict=True):
        drawn = renderer.draw(images, level, Noise.of(0, ids))
        expected = (renderer.apply(images, drawn).clamp(0, 1) * 255).round() / 255
        assert torch.equal(result, expected)


def many(count: int) -> Noise:
    return Noise.of(0, tuple(f"s{i}" for i in range(count)))


def test_a_motion_points_anywhere_within_45_degrees_of_the_rows() -> None:
    angles = MotionBlur().draw(torch.zeros(2000, 1, 1, 1), (6.0, 1.0), many(2000)).angle
    degrees = torch.rad2deg(angles)
    assert -45 <= float(degrees.min()) < -44.5
    assert 44.5 < float(degrees.max()) <= 45
    # the mean of 2,000 uniform angles has a standard error of 0.6 degrees
    assert abs(float(degrees.mean())) < 2.4


def test_a_zoom_blur_is_the_mean_of_the_image_and_its_zooms() -> None:
    image = torch.rand(1, 1, 20, 20, generator=torch.Generator().manual_seed(1))
    plane = image[0, 0].double().numpy()
    total = plane.copy()
    for factor in np.arange(1, 1.06, 0.01):
        side = math.ceil(20 / factor)
        top = (20 - side) // 2
        large = ndimage.zoom(plane[top : top + side, top : top + side], factor, order=1)
        trim = (len(large) - 20) // 2
        total += large[trim : trim + 20, trim : trim + 20]
    expected = total / (len(np.arange(1, 1.06, 0.01)) + 1)
    np.testing.assert_allclose(ZoomBlur().apply(image, (7, 0.01))[0, 0].numpy(), expected, atol=1e-6)


def test_a_plasma_of_four_by_four_by_hand() -> None:
    """One wibble at a time: a midpoint is the mean of four neighbours on the torus plus its own, less at each level."""
    wibble = torch.zeros(1, 4, 4)
    wibble[0, 2, 2] = 8.0  # the middle of the first level
    field = plasma(wibble, decay=2.0)[0]
    assert field[0, 0] == 0
    assert field[2, 2] == 8
    # edges between: two corners of height 0, the middle twice (once across the border)
    assert field[0, 2] == field[2, 0] == 4
    # second level: four points of the first around each
    assert field[1, 1] == field[3, 3] == (0 + 4 + 4 + 8) / 4
    fine = torch.zeros(1, 4, 4)
    fine[0, 1, 1] = 8.0
    field = plasma(fine, decay=2.0)[0]
    assert field[1, 1] == 4  # weight 1 / decay at the second level
    assert field[0, 1] == field[1, 0] == 1  # a quarter of it in each neighbour
    assert [side_for(pixels) for pixels in (1, 2, 3, 32, 33, 224)] == [1, 2, 4, 32, 64, 256]


def test_rubber_is_pulled_at_three_corners_of_the_middle_third_by_at_most_its_level() -> None:
    images = torch.zeros(500, 1, 30, 24)
    drawn = ElasticTransform().draw(images, (0.0, 0.0, 2.5), many(500))
    fixed = square(30, 24, images)
    assert fixed.tolist() == [[20, 23], [20, 7], [4, 7]]
    pulls = drawn.corners - fixed
    assert 2.4 < float(pulls.abs().max()) <= 2.5
    assert abs(float(pulls.mean())) < 0.11  # 3,000 draws: a standard error of 0.026
    assert not bool(drawn.displacement.any())
    wobble = ElasticTransform().draw(images[:8], (3.0, 0.0, 0.0), many(8)).displacement
    assert 2.95 < float(wobble.abs().max()) <= 3
