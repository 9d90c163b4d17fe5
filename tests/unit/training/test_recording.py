"""A training step reads no value on the host: so a GPU can record it whole, with its attack."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast.training.recipes import Recipe, family
from holdfast.training.train import Training
from holdfast.training.training_data import TrainingData

# the host waits for these
READING = ("_local_scalar_dense", "nonzero", "lift_fresh", "unique", "masked_select")
THREATS = (
    *("pgd-linf", "pgd-l2", "pgd-l1", "stadv", "recolor", "jpeg-linf", "elastic"),
    *("apgd-ce-l1", "snow-attack", "fog-attack", "gabor-attack", "affine", "hue-attack"),
)


class Watch(TorchDispatchMode):
    """Counts the operations that a recording cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        masked = name == "aten.index.Tensor" and any(each is not None and each.dtype == torch.bool for each in args[1])
        if masked or any(word in name for word in READING):
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def random_data() -> TrainingData:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels, positions = torch.arange(8), torch.arange(8)
    return TrainingData(pixels, labels, torch.zeros_like(labels), positions, positions[:0], 10, 1)


def reads(recipe: Recipe) -> dict[str, int]:
    """What the second step of a recipe reads; the first fills caches."""
    data = random_data()
    small = replace(recipe, batch=4, mixed=False)
    training = Training(small, Path("none"), torch.device("cpu"), lambda _: None, 1e9, "eager", lambda: False, data)
    training.step.index.copy_(data.used[:4])
    seen: Counter[str] = Counter()
    for kind in range(training.step.kinds):
        training.step(kind)
        with Watch() as watch:
            training.step(kind)
        seen += watch.seen
    return dict(seen)


@pytest.fixture(autouse=True)
def never_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where an iteration does not ask whether it may end."""
    for module in list(sys.modules.values()):
        if module is not None and "may_stop_early" in vars(module):
            monkeypatch.setattr(module, "may_stop_early", lambda _: False)


@pytest.mark.parametrize("threat", THREATS)
def test_a_step_with_this_threat_can_be_recorded(threat: str) -> None:
    recipe = Recipe("r", architecture="small-cnn:width=2", loss="pgd-at", threats=(f"{threat}:steps=2",))
    assert reads(recipe) == {}


@pytest.mark.parametrize(
    "more",
    [
        {"loss": "trades", "threats": ("pgd-linf:steps=1",), "awp": 0.01, "variation": 0.1, "average": 0.9},
        {"threats": ("gaussian-noise",), "augment": ("crop", "flip", "cutout", "cutmix", "randaugment")},
        {"loss": "mart", "threats": ("pgd-linf:steps=1", "pgd-l2:steps=1"), "union": "msd", "optimiser": "adamw"},
    ],
    ids=["trades", "corruption", "msd"],
)
def test_losses_augmentation_and_unions_can_be_recorded(more: dict[str, Any]) -> None:
    assert reads(Recipe("r", architecture="small-cnn:width=2", **more)) == {}


def test_a_value_that_is_read_would_be_noticed() -> None:
    with Watch() as watch:
        float(torch.ones(2).sum())
        torch.arange(3)[torch.arange(3) > 1]
    assert watch.seen["aten._local_scalar_dense.default"] == 1
    assert watch.seen["aten.index.Tensor"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("recipe", family("cifar10-zoo"), ids=lambda recipe: recipe.name)
def test_every_step_of_the_zoo_can_be_recorded(recipe: Recipe) -> None:
    assert reads(recipe) == {}
