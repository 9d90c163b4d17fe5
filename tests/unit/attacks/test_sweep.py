"""A sweep finds each sample's smallest radius; on a linear model that radius is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holdfast.attacks.recipes.level_search import depth, splits
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier

RADII = [0.002 * i for i in range(1, 21)]


def grid(radii: list[float]) -> str:
    return "[" + ",".join(repr(radius) for radius in radii) + "]"


def swept(text: str, model: TorchClassifier, batch: Batch, width: int = 16) -> Changed:
    sweep = registry.build(registry.bind("attack", text))
    assert isinstance(sweep, Sweep)
    changed = sweep(model, batch, Noise.of(0, batch.ids), width=width)
    assert int(changed.forwards.max()) <= sweep.cost.forwards
    return changed


def known(model: TorchClassifier, batch: Batch) -> torch.Tensor:
    """The smallest linf radius that breaks each sample, which the box does not touch here."""
    weight, logits = model.net.weight.detach(), model(batch.images).detach()
    gap = logits.gather(1, batch.labels[:, None]) - logits.gather(1, 1 - batch.labels[:, None])
    return gap.squeeze(1) / (weight[0] - weight[1]).abs().sum()


@pytest.fixture
def case(linear: Callable[..., TorchClassifier], batch_for: Callable[..., Batch]) -> tuple[TorchClassifier, Batch]:
    model = linear()
    return model, batch_for(model, n=80)


@pytest.mark.parametrize(
    "attack", ["fgsm", "pgd-linf:steps=10", "apgd-ce-linf:steps=20", "fab-t-linf", "fmn-linf:steps=200"]
)
def test_a_threshold_is_the_smallest_radius_of_the_grid_above_the_known_one(
    attack: str, case: tuple[TorchClassifier, Batch]
) -> None:
    model, batch = case
    limit = known(model, batch)
    changed = swept(f"sweep:attack=({attack}),radii={grid(RADII)}", model, batch)
    expected = torch.tensor([next((r for r in RADII if r > value), torch.inf) for value in limit.tolist()])
    near = torch.tensor([min(abs(value - r) / r for r in RADII) < 0.01 for value in limit.tolist()])
    assert float(near.float().mean()) < 0.3, "samples on the grid itself tell nothing, most must lie between"
    torch.testing.assert_close(changed.radius[~near], expected[~near])
    broken = model(changed.images).argmax(1) != batch.labels
    assert torch.equal(broken, changed.radius.isfinite()), "what is scored is the image at the threshold"


def test_a_sample_that_is_wrong_already_has_threshold_zero(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    labels = batch.labels.clone()
    labels[:7] = 1 - labels[:7]
    changed = swept(f"sweep:attack=(fgsm),radii={grid(RADII)}", model, Batch(batch.images, labels, batch.ids))
    assert changed.radius[:7].tolist() == [0.0] * 7
    assert bool((changed.radius[7:] > 0).all())
    everyone = swept(
        f"sweep:attack=(fgsm),radii={grid(RADII)}", model, Batch(batch.images, 1 - batch.labels, batch.ids)
    )
    assert everyone.radius.tolist() == [0.0] * 80
    assert everyone.forwards.tolist() == [1] * 80


def test_an_exhaustive_sweep_agrees_and_reports_where_it_would_not(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    text = f"sweep:attack=(pgd-linf:steps=10),radii={grid(RADII)}"
    quick, whole = swept(text, model, batch), swept(text + ",exhaustive=true", model, batch)
    torch.testing.assert_close(quick.radius, whole.radius)
    assert whole.tallies["samples swept"] == 80
    assert whole.tallies["samples that broke below a radius they withstood"] == 0
    assert whole.tallies["samples whose search ends elsewhere"] == 0
    alone = whole.backwards - quick.backwards  # an exhaustive sweep also searches, to compare
    # few steps and a model that breaks in two or three of them: on real ones a sweep saves more (docs/benchmarks.md)
    assert int(quick.backwards.sum()) < 0.4 * int(alone.sum())


def test_an_exhaustive_sweep_counts_what_is_not_monotone() -> None:
    """A model that is wrong in a band only: a small radius breaks, the whole of a larger one leads past it."""

    class Band(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            x = images.flatten(1).mean(1) - 0.5
            other = torch.where((x > 0.05) & (x < 0.15), 1.0, -1.0) + x
            return torch.stack([torch.zeros_like(x), other], dim=1)

    from holdfast.models import wrap

    model = wrap(Band(), name="band", classes=2, channels=1)
    batch = Batch(torch.full((3, 1, 2, 2), 0.5), torch.zeros(3, dtype=torch.int64), tuple("abc"))
    changed = swept("sweep:attack=(fgsm),radii=[0.1,0.3],exhaustive=true", model, batch)
    torch.testing.assert_close(changed.radius, torch.full((3,), 0.1))
    assert changed.tallies["samples that broke below a radius they withstood"] == 3
    # the search comes from above, finds 0.3 withstood, and concludes that nothing breaks the sample
    assert changed.tallies["samples whose search ends elsewhere"] == 3


def test_results_do_not_depend_on_the_width(case: tuple[TorchClassifier, Batch]) -> None:
    model, batch = case
    text = f"sweep:attack=(apgd-ce-linf:steps=10),radii={grid(RADII)}"
    torch.testing.assert_close(swept(text, model, batch, 3).radius, swept(text, model, batch, 80).radius)


@pytest.mark.parametrize("most", [2, 3, 8, 21])
def test_a_search_always_ends_and_costs_less_than_halving(most: int) -> None:
    tree = splits(most)
    assert all(0 < tree[n] < n for n in range(2, most + 1))
    assert depth(most) < most

    def mean_cost(split: Callable[[int], int], n: int) -> float:
        if n < 2:
            return 0.0
        j = split(n)
        return j / n * (0.2 + mean_cost(split, j)) + (n - j) / n * (1 + mean_cost(split, n - j))

    assert mean_cost(lambda n: tree[n], most) <= mean_cost(lambda n: n // 2, most)
    # nor does another first attack cost less
    for n in range(2, min(most, 8) + 1):
        for first in range(1, n):
            other = mean_cost(lambda m, n=n, first=first: first if m == n else tree[m], n)
            assert other >= mean_cost(lambda m: tree[m], n) - 1e-12


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("sweep:attack=(fgsm),radii=[]", "radii are more than zero"),
        ("sweep:attack=(fgsm),radii=[0.0,0.1]", "radii are more than zero"),
        ("sweep:attack=(sweep:attack=(fgsm),radii=[0.1]),radii=[0.1]", "no radius to sweep"),
        ("sweep:attack=(nothing),radii=[0.1]", "no attack named"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(Misuse, match=wrong):
        registry.build(registry.bind("attack", text))
