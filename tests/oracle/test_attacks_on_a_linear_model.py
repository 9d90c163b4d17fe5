"""Attacks against the closed-form optimum of a linear model.

For two classes the margin along a perturbation d is m + w·d, w the difference of the weight rows. Inside a ball that
does not touch the box the smallest margin is m - r·|w| in the dual norm, so both the reachable margin and the smallest
radius that breaks a sample are known.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holdfast.attacks.gradient import GradientAttack
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier

NORMS = {"linf": lambda w: w.abs().sum(dim=1), "l2": lambda w: w.norm(dim=1)}  # the dual norms


def breaking_radius(model: TorchClassifier, batch: Batch, norm: str) -> torch.Tensor:
    weight = model.net.weight.detach()
    logits = model(batch.images)
    own = weight[batch.labels]
    other = weight[1 - batch.labels]
    margin = logits.gather(1, batch.labels[:, None]).squeeze(1) - logits.gather(1, (1 - batch.labels)[:, None]).squeeze(
        1
    )
    return margin / NORMS[norm](own - other)


def firm(model: TorchClassifier, batch: Batch, norm: str) -> tuple[Batch, torch.Tensor]:
    """The half of the samples that is hardest to break: radii there are far above the rounding of pixels."""
    limit = breaking_radius(model, batch, norm)
    kept = (limit > limit.median()).nonzero().squeeze(1)
    return Batch(batch.images[kept], batch.labels[kept], tuple(batch.ids[i] for i in kept)), limit[kept]


def attack(norm: str, radius: float, *, recipe: str = "pgd", **more: object) -> GradientAttack:
    extra = "".join(f",{name}={str(value).lower()}" for name, value in more.items())
    made = registry.build(registry.bind("attack", f"{recipe}-{norm}:radius={radius}{extra}"))
    assert isinstance(made, GradientAttack)
    return made


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_breaks_exactly_what_can_be_broken(
    norm: str, random_start: bool, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch = batch_for(model, n=200)
    limit = breaking_radius(model, batch, norm)
    radius = float(limit.median())
    changed = attack(norm, radius, steps=40, random_start=random_start)(model, batch, Noise.of(0, batch.ids), width=64)
    broken = model(changed.images).argmax(1) != batch.labels
    assert bool(broken[limit < 0.95 * radius].all()), "5 % above the limit a sample must break"
    assert not bool(broken[limit > 1.0001 * radius].any()), "below its limit no sample can break"
    assert 0.2 < float(broken.float().mean()) < 0.8, "the radius divides the samples, else the test says nothing"


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_pgd_reaches_the_attainable_margin_within_five_percent(
    norm: str, loss: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch, limit = firm(model, batch_for(model, n=100), norm)
    radius = 0.5 * float(limit.min())  # none can break, so all take every step
    changed = attack(norm, radius, steps=40, loss=loss)(model, batch, Noise.of(0, batch.ids), width=16)
    after = breaking_radius(model, Batch(changed.images, batch.labels, batch.ids), norm)
    assert float(((limit - after) / radius).min()) >= 0.95
    assert bool((changed.size <= radius * (1 + 1e-4)).all())


@pytest.mark.parametrize("norm", NORMS)
def test_the_box_limits_an_attack_as_it_should(norm: str, linear: Callable[..., TorchClassifier]) -> None:
    """With images on the border and a huge radius, the optimum is the best corner of the box."""
    model = linear()
    images = (torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    labels = model(images).argmax(1)
    weight = model.net.weight.detach()
    gain = weight[1 - labels] - weight[labels]
    corner = (gain > 0).float().view_as(images)
    reachable = model(corner).argmax(1) != labels
    batch = Batch(images, labels, tuple(str(i) for i in range(20)))
    changed = attack(norm, 100.0, steps=60)(model, batch, Noise.of(0, batch.ids), width=20)
    assert float(changed.images.min()) >= 0
    assert float(changed.images.max()) <= 1
    assert torch.equal(model(changed.images).argmax(1) != labels, reachable)


def test_a_wrong_sample_is_left_alone(linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]) -> None:
    model = linear()
    batch = batch_for(model, n=10)
    wrong = Batch(batch.images, 1 - batch.labels, batch.ids)
    changed = attack("linf", 0.1)(model, wrong, Noise.of(0, batch.ids), width=4)
    assert torch.equal(changed.images, batch.images)
    assert changed.size.tolist() == [0.0] * 10
    assert changed.forwards.tolist() == [1] * 10
    assert changed.backwards.tolist() == [0] * 10


@pytest.mark.parametrize("norm", NORMS)
def test_passes_never_exceed_the_stated_cost(
    norm: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch = batch_for(model, n=40)
    made = attack(norm, 0.3 * float(breaking_radius(model, batch, norm).min()), steps=5, restarts=3)
    changed = made(model, batch, Noise.of(0, batch.ids), width=7)
    assert changed.forwards.tolist() == [made.cost.forwards] * 40, "nothing breaks, so every sample takes every pass"
    assert int(changed.backwards.min()) >= made.cost.backwards


def test_results_do_not_depend_on_the_width(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear(classes=5)
    batch = batch_for(model, n=33)
    made = attack("linf", 0.02, steps=7, restarts=2)
    one = made(model, batch, Noise.of(0, batch.ids), width=1)
    for width in (2, 7, 33, 100):
        other = made(model, batch, Noise.of(0, batch.ids), width=width)
        torch.testing.assert_close(other.images, one.images, rtol=0, atol=1e-6)
        assert torch.equal(other.forwards, one.forwards)


def test_restarts_find_what_one_start_misses() -> None:
    """A function with a wall: only starts on the near side reach the break."""

    class Wall(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            x = images.flatten(1)[:, 0] - 0.5
            # the loss falls towards the break at the right, unless the start is already beyond 0.04
            break_ = torch.where(x > 0.04, 10 * (x - 0.07), -x - 0.5)
            return torch.stack([torch.zeros_like(break_), break_], dim=1)

    from holdfast.models import wrap

    model = wrap(Wall(), name="wall", classes=2, channels=1)
    n = 60
    batch = Batch(torch.full((n, 1, 1, 1), 0.5), torch.zeros(n, dtype=torch.int64), tuple(str(i) for i in range(n)))
    shares = []
    for restarts in (1, 4):
        changed = attack("linf", 0.1, steps=10, restarts=restarts)(model, batch, Noise.of(0, batch.ids), width=16)
        shares.append(float((model(changed.images).argmax(1) == 1).float().mean()))
    assert shares[0] < 0.5
    # a start lies beyond the wall with probability 0.3: 1 - 0.7⁴ = 0.76 of the samples after four
    assert shares[1] > shares[0] + 0.25


def test_a_model_without_gradients_is_refused(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    from dataclasses import replace

    from holdfast.core.errors import HoldfastError

    model = linear()
    batch = batch_for(model)
    model.card = replace(model.card, differentiable=False)
    with pytest.raises(HoldfastError, match="gives no gradients"):
        attack("linf", 0.1)(model, batch, Noise.of(0, batch.ids), width=4)


def test_zero_gradients_are_counted(batch_for: Callable[..., Batch]) -> None:
    class Flat(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rounded = (images.flatten(1).mean(1, keepdim=True) * 0).round()
            return torch.cat([rounded + 1, rounded], dim=1)

    from holdfast.models import wrap

    model = wrap(Flat(), name="flat", classes=2, channels=1)
    batch = batch_for(model, n=6)
    changed = attack("linf", 0.1, steps=3)(model, batch, Noise.of(0, batch.ids), width=6)
    assert changed.tallies == {"gradients": 18, "zero gradients": 18, "climbs": 6, "flat climbs": 6}


def test_momentum_still_reaches_the_optimum(
    linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch, limit = firm(model, batch_for(model, n=40), "linf")
    radius = 0.5 * float(limit.min())
    changed = attack("linf", radius, steps=20, momentum=0.9)(model, batch, Noise.of(0, batch.ids), width=20)
    after = breaking_radius(model, Batch(changed.images, batch.labels, batch.ids), "linf")
    assert float(((limit - after) / radius).min()) >= 0.95


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("goal", ["ce", "dlr"])
def test_apgd_reaches_the_attainable_margin_within_one_percent(
    norm: str, goal: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch, limit = firm(model, batch_for(model, n=100), norm)
    radius = 0.5 * float(limit.min())
    made = attack(norm, radius, recipe=f"apgd-{goal}", steps=100)
    changed = made(model, batch, Noise.of(0, batch.ids), width=16)
    after = breaking_radius(model, Batch(changed.images, batch.labels, batch.ids), norm)
    assert float(((limit - after) / radius).min()) >= 0.99
    assert changed.facts == ({} if goal == "ce" else {"objective": "the margin: this one needs 3 classes, there are 2"})


@pytest.mark.parametrize("norm", NORMS)
def test_apgd_breaks_exactly_what_can_be_broken(
    norm: str, linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]
) -> None:
    model = linear()
    batch = batch_for(model, n=200)
    limit = breaking_radius(model, batch, norm)
    radius = float(limit.median())
    changed = attack(norm, radius, recipe="apgd-ce")(model, batch, Noise.of(0, batch.ids), width=64)
    broken = model(changed.images).argmax(1) != batch.labels
    assert bool(broken[limit < 0.99 * radius].all()), "1 % above the limit a sample must break"
    assert not bool(broken[limit > 1.0001 * radius].any()), "below its limit no sample can break"


def test_dlr_is_blind_to_the_scale_of_the_logits() -> None:
    from holdfast.attacks.objectives import dlr, margin

    logits = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 10
    torch.testing.assert_close(
        dlr(logits, labels, labels), dlr(1000 * logits + 3, labels, labels), rtol=1e-4, atol=1e-5
    )
    assert torch.equal(dlr(logits, labels, labels) > 0, margin(logits, labels, labels) > 0)
