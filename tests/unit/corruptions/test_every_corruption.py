"""What every corruption keeps to, beyond the conformance suite: any size, grey or in colour, any neighbours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.core.registry import registry
from holdfast.core.types import Changed

Corrupt = Callable[..., Changed]
Pictures = Callable[..., Tensor]
NAMES = sorted(registry.entries("corruption"))
COLOUR_ONLY = {"saturate", "greyscale"}


def test_all_twenty_are_there_and_fifteen_are_standard() -> None:
    standard = [name for name in NAMES if "standard" in registry.entry("corruption", name).tags]
    assert len(NAMES) == 20
    assert len(standard) == 15


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(3, 17, 29), (1, 28, 28), (3, 70, 66), (1, 9, 9)])
def test_any_size_grey_or_in_colour(
    corrupt: Corrupt, pictures: Pictures, name: str, shape: tuple[int, int, int]
) -> None:
    channels, height, width = shape
    images = pictures(3, height, width, channels)
    before = images.clone()
    changed = corrupt(images, name).images
    assert changed.shape == images.shape
    assert torch.equal(images, before), "the input is left alone"
    assert bool(changed.isfinite().all())
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    torch.testing.assert_close((changed * 255).round() / 255, changed, msg="8 bits by default")
    if channels == 1 and name in COLOUR_ONLY:
        assert torch.equal(changed, images)
    else:
        assert not torch.equal(changed, images)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_depend_on_its_neighbours(corrupt: Corrupt, pictures: Pictures, name: str) -> None:
    images = pictures(7, 70, 66)
    whole = corrupt(images, name).images
    for i in (0, 4, 6):
        assert torch.equal(corrupt(images[i : i + 1], name, first=i).images[0], whole[i])


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"greyscale", "saturate", "elastic-transform", "glass-blur"}))
def test_severity_5_changes_more_than_severity_1(corrupt: Corrupt, pictures: Pictures, name: str) -> None:
    """In the mean; elastic and glass trade one kind of change for another along their ladders."""
    images = pictures(24, 32, 32)
    mild, strong = (
        float((corrupt(images, f"{name}:severity={severity},quantise=off").images - images).square().mean())
        for severity in (1, 5)
    )
    assert strong > mild
