"""What tests of perceptual attacks share: a robust Fashion-MNIST model and images it is sure about."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.success import is_wrong
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier, load


@functools.cache
def model() -> TorchClassifier:
    return load("fashion-at-linf", device="cpu")


@functools.cache
def batch(n: int = 16) -> Batch:
    """Images that the model gets right by a margin that small noise does not overcome."""
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    images = dataset.images(range(4 * n)).pixels.float() / 255
    labels = torch.from_numpy(dataset.labels[: 4 * n])
    with torch.no_grad():
        chance = model()(images).softmax(1).gather(1, labels[:, None]).squeeze(1)
    kept = (chance > 0.7).nonzero().squeeze(1)[:n]
    return Batch(images[kept], labels[kept], tuple(str(i) for i in kept.tolist()))


def attacked(attack: Attack, *, width: int = 16) -> tuple[Changed, Tensor]:
    """What the attack made of the batch, and which images the model then gets wrong."""
    some = batch()
    changed = attack(model(), some, Noise.of(0, some.ids), width=width)
    with torch.no_grad():
        return changed, is_wrong(model()(changed.images), some.labels)
