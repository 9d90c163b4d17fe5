"""Laws that hold for every registered attack: no empty batches, no false flags, and unions lose nothing."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holdfast import conformance
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed, Classifier
from holdfast.engine.flags import tally_flags
from holdfast.models import TorchClassifier, load

ATTACKS = [
    name for name, entry in registry.entries("attack").items() if not any(part.required for part in entry.parameters)
]
WHOLE = [name for name in ATTACKS if name.startswith(("autoattack", "apgd-fab-t"))]
FEW = {"steps": 6, "queries": 20}


def parameters(name: str) -> dict[str, object]:
    return {parameter.name: parameter.default for parameter in registry.entry("attack", name).parameters}


def quick(name: str, **more: float) -> str:
    """The attack with few steps, where it can have few."""
    known = parameters(name)
    args = {word: count for word, count in FEW.items() if word in known} | more
    return f"{name}:{','.join(f'{word}={value!r}' for word, value in args.items())}" if args else name


def run(text: str, model: Classifier, batch: Batch, *, width: int = 3) -> Changed:
    attack = registry.build(registry.bind("attack", text))
    return attack(model, batch, Noise.of(0, batch.ids), width=width)


def set_up(name: str, n: int = 5) -> tuple[TorchClassifier, Batch]:
    """A classifier that refuses a batch of no images, and images it is right about."""
    colour = "colour" in registry.entry("attack", name).tags
    channels, size = next(pair for pair in conformance.SIZES if not colour or pair[0] == 3)
    model, batch = conformance._set_up(channels, size, n)
    model.net.register_forward_pre_hook(lambda module, given: _not_empty(given[0]))
    return model, batch


def _not_empty(images: Tensor) -> None:
    assert len(images), "the model was called with 0 images"


def around(name: str) -> list[str]:
    """The attack by itself, in a union before another and in a sweep, at radii that break nobody and everybody."""
    known = parameters(name)
    usual = known.get("radius", 1.0)
    large = 10 * float(usual) if isinstance(usual, float) and usual < 1e9 else 1.0  # minimal attacks have none
    found = []
    for radius in (1e-6, large):
        text = quick(name, radius=radius) if "radius" in known else quick(name)
        found += [text, f"worst-of:attacks=[({text}),(fgsm:radius=1e-6)]"]
        if "radius" in known:
            found.append(f"sweep:attack=({quick(name)}),radii=[{radius!r}]")
    return found


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in WHOLE])
def test_no_attack_calls_the_model_with_an_empty_batch(name: str) -> None:
    model, batch = set_up(name)
    wrong = Batch(batch.images, (batch.labels + 1) % 10, batch.ids)  # nobody left to attack
    for text in around(name):
        run(text, model, batch)
    run(around(name)[0], model, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_no_whole_cascade_calls_the_model_with_an_empty_batch(name: str) -> None:
    model, batch = set_up(name, n=2)
    for radius in (1e-6, 10.0):
        run(f"{name}:radius={radius!r}", model, batch)


def test_what_was_seen_is_no_empty_batch() -> None:
    model, batch = set_up("fgsm", n=3)
    parts = "(apgd-ce-linf:steps=3),(apgd-t-linf:steps=3),(fab-t-linf:steps=3),(square-linf:queries=3)"
    run(f"worst-of:attacks=[{parts}],radius=1e-6", model, batch)
    run("sweep:attack=(fgsm),radii=[1e-6]", model, batch)
    run("sweep:attack=(fgsm),radii=[1e-6],exhaustive=true", model, batch)


@functools.cache
def bundled(name: str) -> tuple[TorchClassifier, Batch]:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    images = dataset.images(range(24)).pixels.float() / 255
    return load(name, device="cpu"), Batch(images, torch.from_numpy(dataset.labels[:24]), tuple(map(str, range(24))))


@pytest.mark.parametrize("model", ["fashion-standard", "fashion-at-linf"])
@pytest.mark.parametrize(
    "name", [name for name in ATTACKS if name not in WHOLE and "colour" not in registry.entry("attack", name).tags]
)
def test_an_honest_model_raises_no_flag_under_any_attack(name: str, model: str) -> None:
    honest, batch = bundled(model)
    assert tally_flags(run(quick(name), honest, batch, width=24).tallies) == ()


@pytest.mark.parametrize("model", ["fashion-standard", "fashion-noise", "fashion-at-linf", "fashion-at-l2"])
def test_the_capped_margin_raises_no_flag_where_it_ends(model: str) -> None:
    """Seen: 1.0 % of its gradients were zero, all of them at points that had just broken their sample."""
    honest, batch = bundled(model)
    for radius in (0.05, 0.2):
        assert tally_flags(run(f"cw-linf:radius={radius}", honest, batch, width=24).tallies) == ()


PARTS = [
    "fgsm:radius={r}",
    "pgd-linf:radius={r},steps=3",
    "pgd-l2:radius=0.3,steps=3",
    "pgd-l1:radius=2.0,steps=3",
    "apgd-ce-linf:radius={r},steps=4",
    "square-linf:radius={r},queries=10",
    "square-l2:radius=0.5,queries=10",
    "fab-t-linf:radius={r},steps=4,targets=2",
    "fmn-l2:radius=0.2,steps=4",
    "elastic:steps=2",
    "worst-of:attacks=[(square-linf:radius={r},queries=8),(fgsm:radius={r})]",
]


@settings(max_examples=25)
@given(
    one=st.sampled_from(PARTS),
    other=st.sampled_from(PARTS),
    r=st.sampled_from([0.005, 0.01, 0.02, 0.04]),
    seed=st.integers(0, 3),
    setting=st.sampled_from(["alone", "in a run"]),
)
def test_a_union_leaves_nothing_standing_that_a_part_breaks_alone(
    one: str, other: str, r: float, seed: int, setting: str
) -> None:
    """With the noise that a run gives to each, and with the same noise for all."""
    model, batch = conformance._set_up(1, 16, 12)
    noise = Noise.of(seed, batch.ids)

    def broken(text: str) -> Tensor:
        ref = registry.bind("attack", text)
        own = noise.scope(f"0 {ref.name}") if setting == "in a run" else noise
        changed = registry.build(ref)(model, batch, own, width=12)
        with torch.no_grad():
            return model(changed.images).argmax(1) != batch.labels

    parts = [part.format(r=r) for part in (one, other)]
    union = broken(f"worst-of:attacks=[({parts[0]}),({parts[1]})]")
    for part in parts:
        assert not bool((broken(part) & ~union).any())


def test_a_union_draws_for_each_part_what_it_draws_alone() -> None:
    """Random starts alone decide here: at three steps hardly a sample ends at the same point by chance."""
    model, batch = conformance._set_up(1, 16, 12)
    noise = Noise.of(0, batch.ids)
    text = "square-linf:radius=0.001,queries=5"
    alone = registry.build(registry.bind("attack", text))(model, batch, noise.scope("1 square-linf"), width=12)
    union = registry.build(registry.bind("attack", f"worst-of:attacks=[({text})]"))
    inside = union(model, batch, noise.scope("1 worst-of"), width=12)
    assert torch.equal(alone.images, inside.images)
