"""PGD's step: absolute, or a share of the radius, so that a sweep over radii scales it."""

from __future__ import annotations

import pytest
import torch

import holdfast
from holdfast.core.errors import Misuse
from holdfast.core.registry import registry


def test_a_share_of_the_radius_is_the_step_of_that_size() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3))
    images, labels = torch.rand(6, 3, 4, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    for radius in (0.02, 0.1):
        start = f"pgd-linf:radius={radius},steps=3,random_start=false,all_steps=true"
        share = holdfast.attack(net, images, labels, f"{start},step_share=1/8")
        absolute = holdfast.attack(net, images, labels, f"{start},step_size={radius / 8}")
        assert torch.allclose(share.images, absolute.images, atol=1e-7)
        moved = (share.images - images).abs().amax((1, 2, 3))
        assert torch.allclose(moved, torch.full_like(moved, 3 * radius / 8), atol=1e-6)  # three steps, all inwards


def test_two_ways_to_say_the_step_are_misuse_and_old_keys_stay() -> None:
    for text in ("pgd-l2:step_share=1/8,step_size=0.1", "pgd-l2:step_share=0"):
        with pytest.raises(Misuse, match="step_share"):
            registry.build(registry.bind("attack", text))
    assert "step_share" not in registry.bind("attack", "pgd-linf").full
