"""The Square attack against the closed-form optimum of a linear model: the radius times the dual norm of the weights.

In linf its windows come down to single pixels, so that it must reach the optimum whatever the weights. Its bumps in l2
and l1 are three pixels wide or more, with a half of either sign: where the optimum is such a bump it must be found;
weights that change from pixel to pixel it can only follow in part.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from holdfast.attacks.recipes import square as windows
from holdfast.attacks.search import RandomSearch
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, wrap

DUALS = {"linf": 1, "l2": 2, "l1": math.inf}
SIZE = 6


class Half(torch.nn.Module):
    """Two classes; the second's lead is linear in the pixels."""

    def __init__(self, weight: Tensor, bias: float) -> None:
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(weight), bias

    def forward(self, images: Tensor) -> Tensor:
        lead = images.flatten(1) @ self.weight.flatten() + self.bias
        return torch.stack([torch.zeros_like(lead), lead], dim=1)


def setting(weight: Tensor, norm: str, radius: float, *, share: float, n: int = 12) -> tuple[TorchClassifier, Batch]:
    """Grey images that an optimal attack breaks at a share of the radius."""
    best = radius * float(torch.linalg.vector_norm(weight, DUALS[norm]))
    model = wrap(Half(weight, -0.5 * float(weight.sum()) - share * best), name="half", classes=2, channels=len(weight))
    images = torch.full((n, *weight.shape), 0.5)
    return model, Batch(images, torch.zeros(n, dtype=torch.int64), tuple(f"s{i}" for i in range(n)))


def gained(weight: Tensor, norm: str, radius: float, **given: object) -> Tensor:
    """The share of the attainable margin that is reached, where even all of it breaks nothing."""
    model, batch = setting(weight, norm, radius, share=1.1)
    changed = attack(norm, radius, **given)(model, batch, Noise.of(0, batch.ids), width=len(batch))
    reached = (changed.images - batch.images).flatten(1) @ weight.flatten()
    return reached / (radius * torch.linalg.vector_norm(weight, DUALS[norm]))


def attack(norm: str, radius: float, **given: object) -> RandomSearch:
    text = "".join(f",{name}={value}" for name, value in given.items())
    made = registry.build(registry.bind("attack", f"square-{norm}:radius={radius}{text}"))
    assert isinstance(made, RandomSearch)
    return made


def random_weights(channels: int = 1, size: int = SIZE) -> Tensor:
    return torch.randn(channels, size, size, generator=torch.Generator().manual_seed(0))


def test_in_linf_the_optimum_is_reached() -> None:
    """From query 501 on the windows are single pixels: each query sets one of 36 to one of two signs.

    A pixel is still wrong after 900 of them with probability (1 - 1/72)⁹⁰⁰ = 3e-6, any of 12 · 36 with 0.15 %.
    """
    assert float(gained(random_weights(), "linf", 0.03, queries=1400).min()) >= 0.9999


def test_in_linf_with_colours_too() -> None:
    """One of 36 pixels, one of eight colours: wrong ones become better more often than one in 72 · 4 queries.

    After 1,500 of them one is left with probability 0.5 %, and is worth 1/108 of the margin on average.
    """
    assert float(gained(random_weights(channels=3), "linf", 0.03, queries=2000).min()) >= 0.95


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("turned", [0, 1])
def test_an_optimum_that_is_a_bump_is_found(norm: str, turned: int) -> None:
    """In l2 the optimum is the weights; in l1 any change of the weights' signs where they are largest.

    A window of side 3 hits its place, way and sign once in 64 queries, so a dozen of 750 do. Each halves the error of
    the direction there and takes over what another window held; what lies in a corner is the last to be taken.
    """
    weight = torch.zeros(1, SIZE, SIZE)
    weight[0, 2:5, 3:6] = windows.bump(3, power=2, fall=2)[turned]
    if norm == "l1":
        weight = weight.sign()
    assert float(gained(weight, norm, 0.2, queries=800).min()) >= 0.85


def test_in_l2_weights_without_pattern_are_followed_far_beyond_chance() -> None:
    """The best of q random directions in d dimensions reaches √(2 ln q / d) of the margin at most, on average.

    Here that is 0.37. Over six draws of the weights the mean was between 0.64 and 0.71.
    """
    queries, size = 800, 10
    chance = math.sqrt(2 * math.log(queries) / size**2)
    assert float(gained(random_weights(size=size), "l2", 0.2, queries=queries).mean()) >= 1.5 * chance


@pytest.mark.parametrize(("norm", "share"), [("linf", 0.98), ("l2", 0.5), ("l1", 0.4)])
def test_what_can_be_broken_with_room_to_spare_is(norm: str, share: float) -> None:
    model, batch = setting(random_weights(), norm, 0.1, share=share)
    changed = attack(norm, 0.1, queries=1000)(model, batch, Noise.of(0, batch.ids), width=4)
    assert bool((model(changed.images).argmax(1) == 1).all())
    assert changed.forwards is not None
    assert int(changed.forwards.max()) < 1002, "and stops there"


@pytest.mark.parametrize("norm", DUALS)
def test_what_cannot_be_broken_is_not(norm: str) -> None:
    model, batch = setting(random_weights(), norm, 0.1, share=1.001)
    made = attack(norm, 0.1, queries=60, restarts=2)
    changed = made(model, batch, Noise.of(0, batch.ids), width=5)
    assert bool((model(changed.images).argmax(1) == 0).all())
    assert changed.forwards is not None
    assert changed.size is not None
    assert changed.forwards.tolist() == [made.cost.forwards] * len(batch)
    assert float(changed.size.max()) <= 0.1 * (1 + 1e-4)
