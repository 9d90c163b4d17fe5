"""Flags for numbers that cannot be trusted: models that hide their gradients raise them, an honest one does not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from torch import Tensor, nn

from holdfast.core.types import Batch
from holdfast.engine.flags import FALSE_ALARM, exceeds, tally_flags
from holdfast.engine.trials import _Trials, trials
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
    assert trials(made(Honest()), *images_and_labels(), note=lambda _: None) == ()


def test_a_model_without_gradients_is_flagged_by_what_must_succeed_and_does_not() -> None:
    names = {flag.name for flag in trials(made(Rounded()), *images_and_labels(), note=lambda _: None)}
    assert names == {"unbounded-attack-fails", "black-box-beats-white-box"}


def test_gradients_that_point_nowhere_are_found_out_by_random_search() -> None:
    names = {flag.name for flag in trials(made(Jagged()), *images_and_labels(), note=lambda _: None)}
    assert "black-box-beats-white-box" in names


@pytest.mark.parametrize(
    ("tallies", "flag"),
    [
        ({"gradients": 1000, "zero gradients": 11}, "zero-gradients"),
        ({"climbs": 100, "flat climbs": 11}, "flat-objective"),
        ({"tried without gradients": 200, "broken without gradients alone": 8}, "black-box-beats-white-box"),
        ({"probe: survivors asked": 60, "probe: broken by queries alone": 9}, "black-box-beats-white-box"),
        ({"probe: survivors attacked": 60, "probe: unbroken without a bound": 9}, "unbounded-attack-fails"),
        ({"probe: survivors shown": 60, "probe: clean images now wrong": 9}, "answers-change"),
    ],
)
def test_a_share_above_its_limit_is_flagged_and_one_below_is_not(tallies: dict[str, int], flag: str) -> None:
    assert [found.name for found in tally_flags(tallies)] == [flag]
    few = {name: (count if count > 50 else 1) for name, count in tallies.items()}
    assert tally_flags(few) == ()


@given(total=st.integers(1, 300), share=st.sampled_from([0.01, 0.05, 0.5]))
def test_the_chance_of_a_false_alarm_is_as_stated(total: int, share: float) -> None:
    """The smallest count that is flagged has a binomial tail of at most 1 %, and one fewer has more."""
    flagged = [count for count in range(total + 1) if exceeds(count, total, share)]
    if flagged:
        least = flagged[0]
        assert binom.sf(least - 1, total, share) <= FALSE_ALARM * (1 + 1e-9)
        assert binom.sf(least - 2, total, share) > FALSE_ALARM * (1 - 1e-9) or least - 1 <= share * total
        assert flagged == list(range(least, total + 1))


def test_one_of_sixty_four_is_noise_and_seven_of_seven_is_not() -> None:
    assert not exceeds(1, 64, 0.01)
    assert not exceeds(0, 0, 0.01)
    assert exceeds(7, 7, 0.5)


class GradientsOn(Honest):
    """With gradients on it answers as a model that nothing breaks: every attack sees its samples unbroken."""

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        return logits.detach() * 0 + super().forward(images.flip(3)) if images.requires_grad else logits


class Reversed(Honest):
    """Its gradient points the other way in batches of more than 32."""

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 32:
            images = images.detach() * 2 - images
        return super().forward(images)


class Tires(Honest):
    """Answers for the mirrored image after two hundred calls."""

    calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(images.flip(3) if self.calls > 200 else images)


@pytest.mark.parametrize(
    ("net", "flags"),
    [
        (GradientsOn, {"black-box-beats-white-box", "unbounded-attack-fails"}),
        (Reversed, {"batch-dependent"}),
        (Tires, {"answers-change"}),
    ],
)
def test_trials_score_success_as_a_run_does(net: type[Honest], flags: set[str]) -> None:
    names = {flag.name for flag in trials(made(net()), *images_and_labels(), note=lambda _: None)}
    assert names & flags


def test_trials_choose_a_radius_that_suits_the_data() -> None:
    """Images of contrast 0.02 and of 0.4: an attack breaks half of them at radii twenty times apart."""
    found = []
    for contrast in (0.02, 0.4):
        images = 0.5 + contrast * (torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0)) - 0.5)
        with torch.no_grad():
            labels = Honest()(images).argmax(1)
        batch = Batch(images, labels, tuple(str(i) for i in range(60)))
        found.append(_Trials(made(Honest()), batch).radius)
    assert 8 <= found[1] / found[0] <= 64
