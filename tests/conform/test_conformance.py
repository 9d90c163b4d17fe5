"""Every registered component keeps to what all must keep to; a new file is covered without an edit here."""

from __future__ import annotations

import pytest
import torch

from holdfast import conformance
from holdfast.core.noise import Noise
from holdfast.core.registry import HOMES, registry
from holdfast.core.types import Batch, Changed, Cost
from holdfast.corruptions.ladder import Corruption, Level

EVERYTHING = [(kind, name) for kind in HOMES for name in registry.entries(kind)]
FREE = {
    kind: [name for name, e in registry.entries(kind).items() if not any(p.required for p in e.parameters)]
    for kind in HOMES
}


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_an_entry_can_be_shown(kind: str, name: str) -> None:
    conformance.check_entry(kind, name)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FREE.items() for name in names])
def test_defaults_round_trip(kind: str, name: str) -> None:
    conformance.check_round_trip(kind, name)


def rungs(name: str) -> range:
    """The severities a corruption has."""
    return range(1, 1 + len(registry.build(registry.bind("corruption", name)).ladders["cifar"]))


@pytest.mark.parametrize(
    ("name", "severity"), [(name, severity) for name in FREE["corruption"] for severity in list(rungs(name))[::2]]
)
def test_a_corruption_conforms(name: str, severity: int) -> None:
    conformance.check_corruption(f"{name}:severity={severity}")


FEW = {"steps": 6, "queries": 20}


@pytest.mark.parametrize("name", FREE["attack"])
def test_an_attack_conforms(name: str) -> None:
    """With few steps, or a radius at which all is soon over: the laws do not depend on them, the time does."""
    defaults = {parameter.name: parameter.default for parameter in registry.entry("attack", name).parameters}
    few = [f"{word}={count}" for word, count in FEW.items() if word in defaults]
    if not few and "radius" in defaults:
        few = [f"radius={10 * defaults['radius']}"]
    conformance.check_attack(f"{name}:{','.join(few)}" if few else name)


@pytest.mark.parametrize("name", FREE["corruption"])
def test_severities_grow_harder_or_at_least_differ(name: str) -> None:
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0)).mul(255).round().div(255)
    batch = Batch(images, torch.zeros(8, dtype=torch.int64), tuple("abcdefgh"))
    made = []
    for severity in rungs(name):  # not of the smaller ladder: there motion blur 3 and 4 round to the same
        change = registry.build(registry.bind("corruption", f"{name}:severity={severity},ladder=imagenet"))
        made.append(change(None, batch, Noise.of(0, batch.ids), width=8).images)
    assert all(not torch.equal(one, other) for i, one in enumerate(made) for other in made[:i])


def refused(check, *args: object) -> str:
    with pytest.raises(AssertionError) as caught:
        check(*args)
    return str(caught.value)


@pytest.fixture
def rogue(monkeypatch: pytest.MonkeyPatch):
    """Registers a component for one test."""
    from holdfast.core import registry as module

    def make(kind: str, change: object) -> str:
        registry.entries(kind)
        entry = module.Component(kind, "rogue", lambda: change, 1, "", (), ())
        monkeypatch.setitem(registry.components[kind], "rogue", entry)
        return "rogue"

    return make


class Rogue:
    cost = Cost(5, 5)

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, model: object, batch: Batch, noise: Noise, *, width: int) -> Changed:
        n = len(batch)
        images = batch.images.clone()
        size, forwards = torch.zeros(n), torch.zeros(n, dtype=torch.int64)
        if self.how == "batch":
            images = images * 0 + images.mean()
        elif self.how == "range":
            images = images + 2
        elif self.how == "writes":
            batch.images.zero_()
        elif self.how == "random":
            images = torch.rand_like(images)
        elif self.how == "cost":
            forwards = forwards + 9
        return Changed(images, size=size, forwards=forwards, backwards=forwards)


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("batch", "depends on its batch"),
        ("range", "lie in"),
        ("writes", "must not write"),
        ("random", "depends on its batch"),
    ],
)
def test_the_checks_catch_a_corruption_that_breaks_a_law(rogue, how: str, law: str) -> None:
    assert law in refused(conformance.check_corruption, rogue("corruption", Rogue(how)))


class Leaky:
    """A corruption that depends on the images around a sample, but little; `how` says on what of them."""

    def __init__(self, how: str) -> None:
        self.how = how

    def draw(self, images: torch.Tensor, level: Level, noise: Noise) -> torch.Tensor:
        around = {"mean": images.mean(), "darkest": images.amin(), "length": images.new_tensor(1 / len(images))}
        return around[self.how]

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        return images + 1e-4 * drawn


@pytest.mark.parametrize("how", ["mean", "darkest", "length"])
def test_the_checks_catch_a_dependence_on_the_batch_that_rounding_hides(rogue, how: str) -> None:
    weak = Corruption("rogue", Leaky(how), {"cifar": (1.0,), "imagenet": (1.0,)}, 1, "auto", "round")
    assert "depends on its batch" in refused(conformance.check_corruption, rogue("corruption", weak))


@pytest.mark.parametrize(("how", "law"), [("range", "lie in"), ("writes", "must not write"), ("cost", "stated cost")])
def test_the_checks_catch_an_attack_that_breaks_a_law(rogue, how: str, law: str) -> None:
    assert law in refused(conformance.check_attack, rogue("attack", Rogue(how)))
