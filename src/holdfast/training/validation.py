"""Accuracy, robust accuracy and posterior agreement on the images that are held out, as training goes on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from holdfast.attacks.attack import Attack
from holdfast.core.errors import HoldfastError
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Classifier, ModelCard
from holdfast.datasets import load
from holdfast.models.classifier import TorchClassifier, normalised
from holdfast.training.recipes import Recipe, Selection
from holdfast.training.training_data import TrainingData, unit_floats

WIDTH = 1000
USUAL = "pgd-linf:radius=8/255,steps=10"  # what a model without an attack of its own is checked with


@dataclass(frozen=True, slots=True)
class Validated:
    """Shares right on the images held out, clean and attacked, and the posterior agreement of both, in nats."""

    accuracy: float
    robust_accuracy: float | None = None
    agreement: float | None = None

    def value(self, keep: Selection) -> float:
        chosen = {"accuracy": self.accuracy, "robust-accuracy": self.robust_accuracy, "agreement": self.agreement}[keep]
        assert chosen is not None, f"`{keep}` was not measured"
        return chosen


def validate(recipe: Recipe, net: nn.Module, card: ModelCard, data: TrainingData) -> Validated:
    """In full precision. The attack is the recipe's `checked`, else the first that it trains on, else the usual one."""
    model = TorchClassifier(normalised(net, recipe.mean or None, recipe.std or None).to(data.labels.device), card)
    model.eval().requires_grad_(False)
    if recipe.paired:
        return _of_pair(recipe, model, data.labels.device)
    images, labels = data.images(data.held), data.labels[data.held]
    clean = logits_of(model, images)
    accuracy = _share_right(clean, labels)
    text = checked_attack(recipe)
    if text is None:
        return Validated(accuracy)
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, Attack), f"`{text}` is an attack"
    noise = Noise(data.held)
    parts = []
    for start in range(0, len(labels), WIDTH):
        some = slice(start, start + WIDTH)
        batch = Batch(images[some], labels[some], ("",) * len(labels[some]))
        parts.append(attack(model, batch, noise.take(some), width=WIDTH).images)
    attacked = logits_of(model, torch.cat(parts))
    agreement = _agreement(clean, attacked) if recipe.keep == "agreement" else None
    return Validated(accuracy, _share_right(attacked, labels), agreement)


def _of_pair(recipe: Recipe, model: TorchClassifier, device: torch.device) -> Validated:
    """Accuracy on both datasets of a pair together, and the posterior agreement between them."""
    logits, right = [], []
    for text in recipe.paired:
        pixels, labels = _whole(text)
        logits.append(logits_of(model, unit_floats(pixels.to(device))))
        right.append(_share_right(logits[-1], labels.to(device)))
    if len(logits[0]) != len(logits[1]):
        raise HoldfastError(
            f"`{recipe.paired[0]}` has {len(logits[0]):,} samples and `{recipe.paired[1]}` {len(logits[1]):,}",
            hint="the datasets of `paired` show the same samples",
        )
    return Validated(sum(right) / 2, agreement=_agreement(*logits))


@lru_cache(maxsize=2)
def _whole(text: str) -> tuple[Tensor, Tensor]:
    """All images and labels of a dataset. Both of a pair are kept: some are drawn anew each time they are read."""
    dataset = load(text)
    read = dataset.images(range(len(dataset.ids)))
    if read.failed:
        raise HoldfastError(f"{len(read.failed)} images of `{text}` cannot be read")
    return read.pixels, torch.from_numpy(dataset.labels)


def _agreement(one: Tensor, other: Tensor) -> float:
    from holdfast.metrics.agreement import posterior_agreement

    return posterior_agreement(one.cpu().double().numpy(), other.cpu().double().numpy()).score.value


def checked_attack(recipe: Recipe) -> str | None:
    """The attack of the validation, where there is one."""
    if recipe.checked is not None:
        return recipe.checked
    own = [text for text in recipe.threats if registry.bind_change(text).kind == "attack"]
    if own:
        return own[0]
    return USUAL if recipe.keep in ("robust-accuracy", "agreement") else None


@torch.no_grad()
def logits_of(model: Classifier, images: Tensor) -> Tensor:
    return torch.cat([model(part) for part in torch.split(images, WIDTH)])


def _share_right(logits: Tensor, labels: Tensor) -> float:
    return float((logits.argmax(1) == labels).float().mean())
