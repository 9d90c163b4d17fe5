"""Who is wrong before an attack begins is what the model itself says, though its fast version looks first."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, FastVersion
from holdfast.models import TorchClassifier


def test_a_clean_image_is_wrong_only_where_the_model_says_so(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    """The fast version calls everyone wrong; the model is asked, and everyone is right."""
    model = linear(classes=3)
    batch = batch_for(model, n=40)

    class Reversed(FastVersion):
        def __call__(self, images: Tensor) -> Tensor:
            return -model(images)

    model.fast = Reversed()
    attack = registry.build(registry.bind("attack", "square-linf:radius=1e-6,queries=2"))
    made = attack.attempt(model, batch, Noise.of(0, batch.ids), torch.full((40,), 1e-6), width=16)
    with torch.no_grad():
        wrong = model(batch.images).argmax(1) != batch.labels
    assert torch.equal(made.broken, wrong)
    assert not bool(wrong.all())


def test_who_is_wrong_and_looks_wrong_takes_two_passes_and_no_more(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear(classes=3)
    batch = batch_for(model, n=10)
    labels = batch.labels.clone()
    labels[:4] = (labels[:4] + 1) % 3
    batch = Batch(batch.images, labels, batch.ids)
    with torch.no_grad():
        wrong = model(batch.images).argmax(1) != labels

    class Same(FastVersion):
        def __call__(self, images: Tensor) -> Tensor:
            return model(images)

    model.fast = Same()
    attack = registry.build(registry.bind("attack", "pgd-linf:radius=0.01,steps=3"))
    made = attack.attempt(model, batch, Noise.of(0, batch.ids), torch.full((10,), 0.01), width=16)
    assert bool(wrong.any())
    assert bool((made.forwards[wrong] == 2).all())
    assert bool(made.broken[wrong].all())
