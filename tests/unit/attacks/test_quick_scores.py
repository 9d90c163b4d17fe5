"""Quick scores of a model settle what is clear; whatever they leave open the model itself decides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.attacks import asked_model
from holdfast.attacks.attack import Attack
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import AttackResult, Batch, FastVersion
from holdfast.models import TorchClassifier, wrap

N = 60


class Rounding(FastVersion):
    """The model with its logits rounded, and perhaps with scores that are rounded less."""

    def __init__(self, model: TorchClassifier, step: float) -> None:
        self.model, self.step, self.error = model, step, step

    def __call__(self, images: Tensor) -> Tensor:
        logits = self.model(images)
        return logits + (rounded(logits.detach(), self.step) - logits.detach())


def rounded(logits: Tensor, step: float) -> Tensor:
    return (logits / step).round() * step


def curved() -> TorchClassifier:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 5))
    return wrap(net, name="curved", classes=5, channels=3)


def attacked(model: TorchClassifier, text: str, seed: int) -> tuple[AttackResult, int]:
    """What the attack made, and how many images the model itself was asked about."""
    images = torch.rand(N, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        labels = model(images).argmax(1)
    batch = Batch(images, labels, tuple(map(str, range(N))))
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, Attack)
    counted: list[int] = []
    exact = Counted(model, counted)
    model.exact = exact
    radius = torch.full((N,), attack.radius)
    made = attack.attempt(model, batch, Noise.of(0, batch.ids), radius, width=32)
    model.exact = None
    return made, sum(counted)


class Counted:
    """The model itself, which counts what it is asked."""

    lengths = None

    def __init__(self, model: TorchClassifier, counted: list[int]) -> None:
        self.model, self.counted = model, counted

    def __call__(self, images: Tensor) -> Tensor:
        self.counted.append(len(images))
        logits: Tensor = self.model(images)
        return logits


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_model, "MANY", 8)


@settings(max_examples=15, deadline=None)
@given(step=st.floats(1e-3, 0.05), seed=st.integers(0, 50), text=st.sampled_from(["pgd-linf", "apgd-ce-l2"]))
def test_what_the_model_would_have_found_is_found(step: float, seed: int, text: str) -> None:
    model = curved()
    model.fast = fast = Rounding(model, 4 * step)
    text = f"{text}:radius={0.02 if 'linf' in text else 0.1},steps=5"
    plain, _ = attacked(model, text, seed)
    fast.scores, fast.score_error = lambda images: rounded(model(images), step), 2 * step
    quick, _ = attacked(model, text, seed)
    assert bool((quick.broken | ~plain.broken).all()), "more is attacked again, never less"
    labels = model(torch.rand(N, 3, 4, 4, generator=torch.Generator().manual_seed(seed))).argmax(1)
    assert bool((model(quick.images).argmax(1) != labels)[quick.broken].all()), "no success is taken on trust"


def test_the_model_itself_is_not_asked_about_what_is_clear() -> None:
    model = curved()
    model.fast = fast = Rounding(model, 1e-4)
    _, asked = attacked(model, "pgd-linf:radius=1e-4,steps=3", 3)
    fast.scores, fast.score_error = model, 1e-4
    made, asked_less = attacked(model, "pgd-linf:radius=1e-4,steps=3", 3)
    assert not bool(made.broken.any())
    assert asked >= N
    assert asked_less < N / 4
    assert bool((made.forwards >= 4).all()), "passes of the quick scores count"


def test_few_are_asked_about_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_model, "MANY", N + 1)
    model = curved()
    model.fast = fast = Rounding(model, 1e-4)

    def never(images: Tensor) -> Tensor:
        raise AssertionError(f"{len(images)} are few")

    fast.scores, fast.score_error = never, 1e-4
    _, asked = attacked(model, "pgd-linf:radius=1e-4,steps=3", 3)
    assert asked >= N
