"""An attack that is killed goes on where it stood, and ends with what it would have found undisturbed."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
import torch

from holdfast.attacks import saved_loops
from holdfast.attacks.attack import Attack
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.attacks.saved_loops import SavedLoops, saving
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Changed
from holdfast.models import TorchClassifier, wrap

ATTACKS = (
    "pgd-l2:steps=6,restarts=3,momentum=0.5,radius=0.2",
    "apgd-t-linf:steps=12,targets=3,radius=0.01",
    "apgd-ce-l1:steps=10,radius=2",
    "fab-t-linf:steps=5,targets=2,radius=0.02",
    "fmn-l2:steps=10",
    "square-linf:queries=40,radius=0.01",
    "sweep:attack=(pgd-linf:steps=5),radii=[0.002,0.005,0.01,0.02]",
    "worst-of:attacks=[(pgd-linf:radius=0.005,steps=5),(square-linf:radius=0.01,queries=30),(stadv:steps=6)]",
    "autoattack-linf:radius=0.005",
)
N = 40


class Killed(BaseException):
    pass


def curved() -> TorchClassifier:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    return wrap(net, name="curved", classes=10, channels=3)


def batch_of(model: TorchClassifier) -> Batch:
    images = torch.rand(N, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:3] = (labels[:3] + 1) % 10
    return Batch(images, labels, tuple(str(i) for i in range(N)))


def run(model: TorchClassifier, attack: Attack, *, rounds: int | None, data: bytes | None) -> tuple[Any, bytes | None]:
    """The attack, killed after so many rounds; with what was saved last."""
    kept, told = [data], [0]

    def tick(_: str) -> None:
        told[0] += 1
        if rounds is not None and told[0] > rounds:
            raise Killed

    batch = batch_of(model)
    try:
        with saving(SavedLoops(data, kept.append, tick)):
            return attack(model, batch, Noise.of(0, batch.ids), width=16), kept[-1]
    except Killed:
        return None, kept[-1]


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=[pytest.mark.slow] * text.startswith("autoattack")) for text in ATTACKS]
)
def test_kills_change_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, Attack)
    check_kills(attack, monkeypatch)


def test_kills_change_nothing_where_attacks_are_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    radii = ",".join(repr(0.002 * level) for level in range(1, 9))
    sweep = registry.build(registry.bind("attack", f"sweep:attack=(pgd-linf:steps=5),radii=[{radii}]"))
    assert isinstance(sweep, Sweep)
    check_kills(replace(sweep, filled=60), monkeypatch)


def check_kills(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills it again and again, and compares what it ends with."""
    monkeypatch.setattr(saved_loops, "EVERY", 0.0)
    monkeypatch.setattr(saved_loops, "COST", 0.0)
    model = curved()
    batch = batch_of(model)
    whole: Changed = attack(model, batch, Noise.of(0, batch.ids), width=16)
    data, made, kills = None, None, 0
    # rounds between kills, few at first, then enough to end soon
    while made is None:
        made, data = run(model, attack, rounds=2 * 3**kills, data=data)
        kills += made is None
    assert kills > 1, "nothing was killed, the test says nothing"
    assert torch.equal(made.images, whole.images)
    for name in ("size", "radius", "forwards", "backwards"):
        one, other = getattr(made, name), getattr(whole, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert torch.equal(one, other), name
    assert made.tallies == whole.tallies
    assert made.reasons == whole.reasons


def test_what_was_saved_and_cannot_be_read_is_computed_again() -> None:
    model, attack = curved(), registry.build(registry.bind("attack", "pgd-linf:steps=3,radius=0.01"))
    whole, _ = run(model, attack, rounds=None, data=None)
    for data in (b"", b"PK\x03\x04 cut short", b"x" * 100):
        made, _ = run(model, attack, rounds=None, data=data)
        assert torch.equal(made.images, whole.images)


@pytest.mark.parametrize("text", [ATTACKS[0], ATTACKS[-2]])
def test_what_was_saved_of_other_samples_is_not_taken(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which samples a later loop is about may hang on a rounding, which another start may do otherwise."""
    monkeypatch.setattr(saved_loops, "EVERY", 0.0)
    monkeypatch.setattr(saved_loops, "COST", 0.0)
    model, attack = curved(), registry.build(registry.bind("attack", text))
    _, data = run(model, attack, rounds=6, data=None)
    batch = batch_of(model)
    for rows in (torch.arange(N).roll(1), torch.arange(N - 4)):
        other = batch.take(rows)
        noise = Noise.of(0, other.ids)
        whole: Changed = attack(model, other, noise, width=16)
        with saving(SavedLoops(data, lambda _: None, lambda _: None)):
            made: Changed = attack(model, other, noise, width=16)
        assert torch.equal(made.images, whole.images)


def test_a_state_too_large_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_loops, "EVERY", 0.0)
    monkeypatch.setattr(saved_loops, "MOST", 10)
    _, data = run(
        curved(), registry.build(registry.bind("attack", "pgd-linf:steps=3,radius=0.01")), rounds=2, data=None
    )
    assert data is None


def test_a_state_with_other_fields_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_loops, "EVERY", 0.0)
    monkeypatch.setattr(saved_loops, "COST", 0.0)
    model, attack = curved(), registry.build(registry.bind("attack", ATTACKS[0]))
    whole, _ = run(model, attack, rounds=None, data=None)
    _, data = run(model, attack, rounds=3, data=None)
    assert data is not None
    content = torch.load(io.BytesIO(data), weights_only=True)
    content["running"]["samples/a name of before"] = content["running"].pop("samples/rose")
    content["fields"] = [*content["fields"], "a name of before"]
    buffer = io.BytesIO()
    torch.save(content, buffer)
    made, _ = run(model, attack, rounds=None, data=buffer.getvalue())
    assert torch.equal(made.images, whole.images)
