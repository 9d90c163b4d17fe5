"""The union of attacks: broken by any, the later ones on what stands, everything counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holdfast.attacks.recipes.cascade import Cascade
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier


def run(text: str, model: TorchClassifier, batch: Batch) -> tuple[Changed, torch.Tensor]:
    attack = registry.build(registry.bind("attack", text))
    changed = attack(model, batch, Noise.of(0, batch.ids), width=16)
    return changed, model(changed.images).argmax(1) != batch.labels


@pytest.fixture
def case(linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]) -> tuple[TorchClassifier, Batch]:
    model = linear(classes=4)
    return model, batch_for(model, n=60)


def test_a_union_breaks_what_any_of_its_parts_breaks(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    parts = ("pgd-linf:radius=0.01,steps=10", "pgd-l2:radius=0.08,steps=10", "pgd-l1:radius=0.5,steps=10")
    broken = [run(part, model, batch)[1] for part in parts]
    _, union = run(f"worst-of:attacks=[{','.join(f'({part})' for part in parts)}]", model, batch)
    assert torch.equal(union, broken[0] | broken[1] | broken[2])
    assert len({int(part.sum()) for part in broken} | {int(union.sum())}) > 2, "parts that all agree tell nothing"


def test_later_attacks_see_only_what_stands(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    first, broken = run("fgsm:radius=0.01", model, batch)
    both, _ = run("worst-of:attacks=[(fgsm:radius=0.01),(pgd-linf:radius=0.01,steps=5)]", model, batch)
    assert 0 < int(broken.sum()) < 60
    # a success is scored once more; who is broken takes no other pass
    assert torch.equal(both.forwards[broken], first.forwards[broken] + 1)
    assert bool((both.backwards[~broken] >= first.backwards[~broken] + 5).all())
    counted = both.tallies
    assert counted["broken by fgsm:radius=0.01"] == int(broken.sum())


def test_a_shared_radius_goes_to_every_part_and_to_every_sample(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    attack = registry.build(registry.bind("attack", "worst-of:attacks=[(fgsm),(pgd-linf:steps=5)],radius=0.01"))
    assert isinstance(attack, Cascade)
    radius = torch.linspace(0.0, 0.03, 60)
    made = attack.attempt(model, batch, Noise.of(0, batch.ids), radius, width=16)
    assert bool((made.size <= radius * (1 + 1e-4) + 1e-6).all())
    assert not bool(made.broken[0])
    assert bool(made.broken[-20:].float().mean() > 0.5)


def test_what_only_random_search_breaks_is_counted_apart() -> None:
    """Gradients of a rounded input are zero, so only queries can break it."""

    class Rounded(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            gap = ((images * 50).round() / 50).flatten(1).mean(1) - 0.5
            return torch.stack([gap, -gap], dim=1)

    from holdfast.models import wrap

    model = wrap(Rounded(), name="rounded", classes=2, channels=1)
    images = 0.52 + 0.02 * torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, torch.zeros(20, dtype=torch.int64), tuple(str(i) for i in range(20)))
    parts = "(pgd-linf:radius=0.1,steps=5,random_start=false),(square-linf:radius=0.1,queries=50)"
    changed, broken = run(f"worst-of:attacks=[{parts}]", model, batch)
    assert bool(broken.all())
    assert changed.tallies["broken without gradients alone"] == 20
    assert changed.tallies["zero gradients"] == changed.tallies["gradients"]


@pytest.mark.parametrize("text", ["worst-of:attacks=[]", "worst-of:attacks=[(nothing-linf)]"])
def test_a_union_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        registry.build(registry.bind("attack", text))


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_autoattack_runs_what_it_says(norm: str) -> None:
    attack = registry.build(registry.bind("attack", f"autoattack-{norm}"))
    names = [stage.name for stage in attack.stages]
    assert names == [f"{part}-{norm}" for part in ("apgd-ce", "apgd-t", "fab-t", "square")]
    assert attack.cost.forwards > 5000
    rand = registry.build(registry.bind("attack", f"autoattack-rand-{norm}"))
    assert all(stage.attack.draws == 20 for stage in rand.stages)
