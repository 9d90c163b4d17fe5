"""Flags for numbers that cannot be trusted: models that hide their gradients raise them, an honest one does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from holdfast.engine.trust import tally_flags, trials
from holdfast.models import TorchClassifier, wrap


class Honest(nn.Module):
    """Two smooth classes: is the left half brighter than the right?"""

    def forward(self, images: Tensor) -> Tensor:
        gap = images[..., :4].flatten(1).mean(1) - images[..., 4:].flatten(1).mean(1)
        return torch.stack([gap, -gap], dim=1) * 20


class Rounded(Honest):
    """The same, of rounded pixels: its gradient is zero everywhere."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward((images * 64).round() / 64)


class Jagged(Honest):
    """The same, with a steep fine-grained ripple on the logits that gradients follow instead."""

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        ripple = torch.sin(images.flatten(1).sum(1) * 3e4)
        return logits + 0.05 * torch.stack([ripple, -ripple], dim=1)


def made(net: nn.Module) -> TorchClassifier:
    return wrap(net, name="made", classes=2, channels=1)


def images_and_labels() -> tuple[Tensor, Tensor]:
    images = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 0.2 + 0.4
    with torch.no_grad():
        return images, Honest()(images).argmax(1)


def test_an_honest_model_raises_nothing() -> None:
    assert trials(made(Honest()), *images_and_labels(), said=lambda _: None) == ()


def test_a_model_without_gradients_is_flagged_by_what_must_succeed_and_does_not() -> None:
    names = {flag.name for flag in trials(made(Rounded()), *images_and_labels(), said=lambda _: None)}
    assert names == {"unbounded-attack-fails", "black-box-beats-white-box"}


def test_gradients_that_point_nowhere_are_found_out_by_random_search() -> None:
    names = {flag.name for flag in trials(made(Jagged()), *images_and_labels(), said=lambda _: None)}
    assert "black-box-beats-white-box" in names


@pytest.mark.parametrize(
    ("tallies", "flag"),
    [
        ({"gradients": 1000, "zero gradients": 11}, "zero-gradients"),
        ({"climbs": 100, "flat climbs": 11}, "flat-objective"),
        ({"tried without gradients": 200, "broken without gradients alone": 3}, "black-box-beats-white-box"),
    ],
)
def test_a_share_above_its_limit_is_flagged_and_one_below_is_not(tallies: dict[str, int], flag: str) -> None:
    assert [found.name for found in tally_flags(tallies)] == [flag]
    few = {name: (count if count > 50 else 1) for name, count in tallies.items()}
    assert tally_flags(few) == ()
