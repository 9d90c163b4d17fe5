from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.core.labels import merged, subset
from holdfast.core.types import Batch, Classifier, FastVersion, ModelCard
from holdfast.models import TorchClassifier
from holdfast.models.fast import folded
from holdfast.models.label_mapped import with_label_map

PAIRS = merged(6, [(0, 1), (2, 3)], words="pairs", other=True)


class Plain:
    """A classifier that is no module, with a fast version."""

    card = ModelCard("plain", "here", 6)

    def __call__(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :6]

    class Quick(FastVersion):
        records, replays = True, "its own"

        def __call__(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, :6].bfloat16().float()

    fast = Quick()


def test_a_mapped_network_is_a_network_with_the_card_of_the_answers(linear: Callable[..., TorchClassifier]) -> None:
    model = linear(classes=6)
    mapped = with_label_map(model, PAIRS)
    assert isinstance(mapped, TorchClassifier)
    assert isinstance(mapped, Classifier)
    assert (mapped.card.classes, mapped.card.weights, mapped.card.name) == (3, model.card.weights, model.card.name)
    assert model.card.classes == 6
    assert set(mapped.state_dict()) == {f"net.0.{name.removeprefix('net.')}" for name in model.state_dict()}


def test_an_attack_runs_thfast_the_map(linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]) -> None:
    from holdfast.core.noise import Noise
    from holdfast.core.registry import registry

    mapped = with_label_map(linear(classes=6), PAIRS)
    batch = batch_for(mapped)
    attack = registry.build(registry.bind("attack", "pgd-linf:radius=0.3,steps=20"))
    changed = attack(mapped, batch, Noise.of(0, batch.ids), width=8)
    with torch.no_grad():
        broken = mapped(changed.images).argmax(1) != batch.labels
    assert bool(broken.any())
    assert float((changed.images - batch.images).abs().max()) <= 0.3 + 1e-6


def test_a_mapped_network_can_be_traced_and_folded(linear: Callable[..., TorchClassifier]) -> None:
    net = with_label_map(linear(classes=6), PAIRS).net
    images = torch.rand(4, 1, 6, 6)
    fused = folded(net)
    assert fused is not net, "the map must not stand in the way of the fast version"
    torch.testing.assert_close(fused(images), net(images))


def test_a_plain_classifier_keeps_its_fast_version() -> None:
    plain = Plain()
    mapped = with_label_map(plain, subset(6, [4, 1], words="two"))
    images = torch.rand(5, 1, 6, 6)
    assert torch.equal(mapped(images), plain(images)[:, [4, 1]])
    assert mapped.card.classes == 2
    fast = mapped.fast  # type: ignore[attr-defined]
    assert torch.equal(fast(images), plain.fast(images)[:, [4, 1]])
    assert (fast.records, fast.replays) == (True, None), "recordings are not shared"


def test_a_map_for_another_model_is_a_mistake_of_ours(linear: Callable[..., TorchClassifier]) -> None:
    with pytest.raises(AssertionError, match="another number of classes"):
        with_label_map(linear(classes=5), PAIRS)
