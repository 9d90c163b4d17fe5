"""The random corruptions of single pixels against their distributions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import poisson
from torch import Tensor

from holdfast.core.types import Changed
from holdfast.corruptions.impulse_noise import Chances, ImpulseNoise
from holdfast.corruptions.shot_noise import Photons, ShotNoise

Corrupt = Callable[..., Changed]


@pytest.mark.parametrize("white", [3.0, 12.0, 60.0, 500.0])
def test_shot_noise_is_the_quantile_of_a_poisson_draw(white: float) -> None:
    generator = torch.Generator().manual_seed(int(white))
    shades = torch.randint(0, 256, (4, 3, 40, 40), generator=generator)
    chance = (torch.randint(0, 1 << 23, shades.shape, generator=generator).float() * 2 + 1) / 2**24
    counts = ShotNoise().apply(shades / 255, Photons(chance, white)) * white
    expected = poisson.ppf(chance.double().numpy(), shades.numpy() / 255 * white)
    # ppf and the table round a cumulative probability each on its own: at a tie they may differ
    assert np.mean(np.abs(counts.numpy() - expected) > 1e-3 * white) < 1e-5


def test_black_has_no_shot_noise_and_a_mean_is_kept(corrupt: Corrupt) -> None:
    assert not bool(corrupt(torch.zeros(4, 3, 16, 16), "shot-noise:severity=5,ladder=imagenet").images.any())
    grey = torch.full((60, 3, 32, 32), 102 / 255)
    changed = corrupt(grey, "shot-noise:severity=3,ladder=cifar,quantise=off").images
    assert float(changed.mean()) == pytest.approx(0.4, abs=4 * (0.4 / 100) ** 0.5 / grey.numel() ** 0.5)
    assert float(changed.var()) == pytest.approx(0.4 / 100, rel=0.02)


def test_impulse_noise_is_half_salt_half_pepper(corrupt: Corrupt) -> None:
    grey = torch.full((60, 3, 32, 32), 0.5)
    changed = corrupt(grey, "impulse-noise:severity=5,ladder=imagenet,quantise=off").images
    for value, share in ((0.0, 0.135), (1.0, 0.135), (0.5, 0.73)):
        measured = float((changed == value).float().mean())
        assert measured == pytest.approx(share, abs=5 * (share / grey.numel()) ** 0.5)


def test_impulse_noise_hits_as_its_numbers_say() -> None:
    images, chance = torch.full((1, 1, 1, 4), 0.3), torch.tensor([0.01, 0.96, 0.06, 0.94]).view(1, 1, 1, 4)
    made = ImpulseNoise().apply(images, Chances(chance, 0.1))
    assert made.flatten().tolist() == pytest.approx([1.0, 0.0, 0.3, 0.3])


def test_speckle_grows_with_the_pixel(corrupt: Corrupt) -> None:
    for value in (0.2, 0.4):
        grey = torch.full((60, 3, 32, 32), value)
        changed = corrupt(grey, "speckle-noise:severity=5,ladder=cifar,quantise=off").images
        assert float(changed.std()) == pytest.approx(0.2 * value, rel=0.01)


@pytest.mark.parametrize("name", ["gaussian-noise", "shot-noise", "impulse-noise", "speckle-noise"])
def test_severities_share_their_draws(corrupt: Corrupt, name: str) -> None:
    """A sample's noise at two severities goes the same way: cells of a table differ by the level alone."""
    grey = torch.full((2, 3, 32, 32), 0.5)
    mild, strong = (corrupt(grey, f"{name}:severity={severity}").images - 0.5 for severity in (2, 5))
    together = torch.stack([mild.flatten(), strong.flatten()]).corrcoef()[0, 1]
    assert float(together) > 0.4


def test_images_between_two_shades_are_read_in_8_bits(corrupt: Corrupt) -> None:
    def noisy(value: float) -> Tensor:
        return corrupt(torch.full((1, 1, 8, 8), value), "shot-noise:severity=3").images

    assert torch.equal(noisy(0.5004), noisy(128 / 255))
