"""Quick scores of a model decide what is clear; whatever they leave open the model itself decides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast.attacks import asked_model
from holdfast.attacks.active_set import ActiveSet
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threats.balls import Linf
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


class Fixed(FastVersion):
    """A fast version with an error of 0.1, whose quick scores see the label 0.4 further ahead than it is."""

    error = 0.1
    score_error = 0.5

    def __init__(self, net: torch.nn.Module) -> None:
        self.scores = lambda images: net(images) + torch.tensor([0.4, 0.0])

    def __call__(self, images: Tensor) -> Tensor:
        raise AssertionError(f"nobody asks about {len(images)} images")


def two_numbers(*leads: float) -> tuple[AskedModel, ActiveSet]:
    """A model whose logits are the two numbers of an image, and samples that the label, class 0, leads by so much."""
    model = wrap(torch.nn.Flatten(), name="numbers", classes=2, channels=1)
    model.fast = Fixed(model.net)
    images = torch.tensor([[0.5 + lead / 2, 0.5 - lead / 2] for lead in leads]).view(-1, 1, 1, 2)
    batch = Batch(images, torch.zeros(len(leads), dtype=torch.int64), tuple(map(str, range(len(leads)))))
    attack = GradientAttack(Linf(), margin, Steepest(0.3), 3, radius=0.1)
    active = ActiveSet(
        AskedModel(model, attack), batch, Noise.of(0, batch.ids), torch.full((len(leads),), 0.1), 9, None, 1
    )
    return active.model, active


@pytest.fixture
def _one_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_model, "MANY", 1)


@pytest.mark.usefixtures("_one_is_many")
def test_who_is_attacked_again_allows_for_the_error_of_the_scores_too() -> None:
    """Leads of 0.2, 0.35 and 0.6 show as 0.6, 0.75 and 1.0, and up to 3 x 0.1 + 0.5 may be close to the boundary."""
    asked, active = two_numbers(0.2, 0.35, 0.6)
    close = asked.close_to_boundary(active.result, active.batch, active.radius, 9)
    assert close.tolist() == [0, 1]


@pytest.mark.usefixtures("_one_is_many")
def test_a_sample_that_came_near_is_confirmed_within_the_error_of_the_scores() -> None:
    """Leads of -0.05 and 0.3 show as 0.35 and 0.7: the first may be wrong, the second is right for certain."""
    asked, active = two_numbers(-0.05, 0.3)
    index = torch.arange(2)
    samples = active.new_samples(index, torch.zeros_like(index), active.scene(index, index), torch.zeros(2, 1, 1, 2))
    samples.done, samples.near, samples.taken = torch.ones(2).bool(), torch.ones(2).bool(), torch.full((2,), 4)
    asked.confirm(samples)
    assert samples.broken.tolist() == [True, False]
    assert samples.forwards.tolist() == [2, 1]
