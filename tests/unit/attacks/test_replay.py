"""Samples in fixed tensors, as CUDA graphs need them, give what samples without give; here without a recording."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holdfast.attacks.attack import Attack
from holdfast.attacks.replay import Replays
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, FastVersion
from holdfast.models import TorchClassifier, wrap

ATTACKS = (
    "apgd-ce-linf:steps=12",
    "apgd-t-l2:steps=7,targets=3,radius=0.2",
    "apgd-ce-l1:steps=10,radius=2",
    "pgd-l2:steps=6,restarts=3,momentum=0.5,radius=0.2",
    "fab-t-linf:steps=5,targets=2,radius=0.02",
    "square-linf:queries=30,radius=0.02",
    "square-l2:queries=20,radius=0.4",
)


class Twin(FastVersion):
    """The model itself as its own fast version, which wants its passes in fixed tensors."""

    records = True

    def __init__(self, model: TorchClassifier) -> None:
        self.model, self.replays = model, Replays(recorded=False)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(images)


def curved() -> TorchClassifier:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    return wrap(net, name="curved", classes=10, channels=3)


@pytest.mark.parametrize("text", ATTACKS)
def test_fixed_tensors_change_nothing(text: str) -> None:
    model = curved()
    images = torch.rand(90, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:5] = (labels[:5] + 1) % 10
    batch = Batch(images, labels, tuple(str(i) for i in range(90)))
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, Attack)
    plain = attack(model, batch, Noise.of(0, batch.ids), width=64)
    model.fast = Twin(model)
    fixed = attack(model, batch, Noise.of(0, batch.ids), width=64)
    assert model.fast.replays.recordings, "nothing went thfast fixed tensors, the test says nothing"
    assert not model.fast.replays.refused
    torch.testing.assert_close(fixed.images, plain.images, rtol=0, atol=2e-5)
    assert torch.equal(model(fixed.images).argmax(1) != labels, model(plain.images).argmax(1) != labels)
    # a success is confirmed, and so is the last word on who was not broken; who ends close is attacked again
    assert bool((fixed.backwards >= plain.backwards).all())
    assert bool((fixed.forwards >= plain.forwards).all())


@pytest.mark.parametrize("text", ATTACKS)
def test_a_recording_knows_nothing_of_the_shard_it_was_made_on(text: str) -> None:
    model = curved()
    attack = registry.build(registry.bind("attack", text))
    fast = Twin(model)
    for shard in range(2):
        images = torch.rand(70, 3, 8, 8, generator=torch.Generator().manual_seed(shard))
        model.fast = None
        with torch.no_grad():
            labels = model(images).argmax(1)
        batch = Batch(images, labels, tuple(f"{shard} {i}" for i in range(70)))
        plain = attack(model, batch, Noise.of(0, batch.ids), width=64)
        model.fast = fast
        fixed = attack(model, batch, Noise.of(0, batch.ids), width=64)
        torch.testing.assert_close(fixed.images, plain.images, rtol=0, atol=2e-5)
    assert fast.replays.recordings


def test_a_fast_model_that_cries_wolf_breaks_nothing(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    """A fast version that calls everything broken: the model itself is asked, and says no."""
    model = linear(classes=3)
    batch = batch_for(model, n=40)

    class Wolf(Twin):
        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            return self.model(images).roll(1, dims=1)

    model.fast = Wolf(model)
    for text in ("pgd-linf:radius=1e-6,steps=4", "square-linf:radius=1e-6,queries=16"):
        attack = registry.build(registry.bind("attack", text))
        made = attack.attempt(model, batch, Noise.of(0, batch.ids), torch.full((40,), 1e-6), width=16)
        assert not bool(made.broken.any())


def test_a_fast_model_that_sleeps_misses_nothing_the_model_sees_at_the_end(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    """A fast version that never sees a success still gives gradients; the model is asked about the best point."""
    model = linear(classes=2)
    batch = batch_for(model, n=40)

    class Asleep(Twin):
        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            logits, own = self.model(images), batch_labels(images)[:, None]
            lead = (logits.amax(1, keepdim=True) - logits.gather(1, own)).detach() + 1e-3
            return logits.scatter_add(1, own, lead.clamp_min(0.0))

    clean = batch.images.clone()

    def batch_labels(images: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(images.detach().flatten(1), clean.flatten(1)).argmin(dim=1)
        return batch.labels[near]

    model.fast = Asleep(model)
    attack = registry.build(registry.bind("attack", "pgd-linf:radius=0.05,steps=10,loss=margin"))
    made = attack.attempt(model, batch, Noise.of(0, batch.ids), torch.full((40,), 0.05), width=64)
    assert bool(made.broken.all())


def test_a_threat_that_looks_at_values_is_not_recorded() -> None:
    """What its projection does next depends on what it measured: a recording would repeat the first sample's way."""
    model = curved()
    images = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = model(images).argmax(1)
    batch = Batch(images, labels, tuple("abcdefgh"))
    model.fast = Twin(model)
    attack = registry.build(registry.bind("attack", "ppgd:radius=0.05,steps=4,network=self"))
    attack(model, batch, Noise.of(0, batch.ids), width=64)
    assert not model.fast.replays.rounds


def test_samples_close_to_the_border_are_attacked_again_by_the_model_itself() -> None:
    """A fast version whose logits are off by little breaks all that float32 breaks."""
    model = curved()
    images = torch.rand(200, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        labels = model(images).argmax(1)
    batch = Batch(images, labels, tuple(str(i) for i in range(200)))
    attack = registry.build(registry.bind("attack", "apgd-ce-linf:radius=0.004,steps=30"))
    radius = torch.full((200,), 0.004)
    exact = attack.attempt(model, batch, Noise.of(0, batch.ids), radius, width=64)

    class Off(Twin):
        """Logits in steps, so that what is nearly broken looks unbroken."""

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            logits = self.model(images)
            return logits + ((logits * 400).round() / 400 - logits).detach()

    model.fast = Off(model)
    fast = attack.attempt(model, batch, Noise.of(0, batch.ids), radius, width=64)
    assert 20 < int(exact.broken.sum()) < 180
    missed = exact.broken & ~fast.broken
    assert int(missed.sum()) == 0
    with torch.no_grad():
        assert bool((model(fast.images[fast.broken]).argmax(1) != labels[fast.broken]).all())
