"""How often a loop asks for values that a GPU has not computed yet: each time the host waits for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast.attacks import gradient, search
from holdfast.attacks.active_set import ActiveSet, Samples
from holdfast.attacks.attack import Attack
from holdfast.attacks.recipes import hyperplane
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import wrap

ASKS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::lift_fresh")
INDEXES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class Asked(TorchDispatchMode):
    """Counts operations whose result or shape the host needs, and numbers that it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name
        masks = name in INDEXES and any(part is not None and part.dtype == torch.bool for part in args[1])
        self.count += name in ASKS or masks
        return function(*args, **(kwargs or {}))


def counted(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], int]:
    """How often parts of the loop ask on a GPU's way through it, and how many rounds it took."""
    monkeypatch.setattr(gradient, "steps_per_round", lambda *_: 5)
    monkeypatch.setattr(hyperplane, "may_stop_early", lambda _: False)
    asked: Counter[str] = Counter()
    rounds = [0]
    init, retire = search._SearchLoop.__init__, ActiveSet.retire

    def begun(self: search._SearchLoop, *args: Any) -> None:
        init(self, *args)
        self.drops_broken = False

    def retired(self: ActiveSet, samples: Samples) -> None:
        rounds[0] += 1
        with Asked() as mode:
            retire(self, samples)
        asked["retire"] += mode.count

    def watched(steps: Any) -> Any:
        def run(self: Any, *args: Any) -> None:
            with Asked() as mode:
                steps(self, *args)
            asked["steps"] += mode.count

        return run

    monkeypatch.setattr(search._SearchLoop, "__init__", begun)
    monkeypatch.setattr(search._SearchLoop, "block", watched(search._SearchLoop.block))
    monkeypatch.setattr(search._SearchLoop, "draw", watched(search._SearchLoop.draw))
    monkeypatch.setattr(gradient._GradientLoop, "_last_steps", watched(gradient._GradientLoop._last_steps))
    monkeypatch.setattr(ActiveSet, "retire", retired)
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, Attack)
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(3 * 64, 4, generator=torch.Generator().manual_seed(1))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 4, bias=False))
    net[1].weight.data = weight.T
    model = wrap(net, name="linear", classes=4, channels=3)
    labels: Tensor = model(images).argmax(dim=1)
    batch = Batch(images, labels, tuple("abcdef"))
    attack(model, batch, Noise.of(0, batch.ids), width=4)  # once, for tables that are kept
    asked.clear()
    rounds[0] = 0
    attack(model, batch, Noise.of(0, batch.ids), width=4)
    return asked, rounds[0]


@pytest.mark.parametrize(
    "text",
    [
        "square-linf:queries=23,radius=0.01",
        "pgd-linf:steps=14,radius=0.01",
        "fab-t-linf:steps=9,radius=0.05,targets=1",
        "fab-l2:steps=9,radius=0.3",
    ],
)
def test_steps_ask_nothing_and_a_round_once_who_is_done(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, rounds = counted(text, monkeypatch)
    assert rounds > 2
    assert asked["steps"] == 0
    assert asked["retire"] == rounds


@pytest.mark.parametrize(("round_steps", "text"), [(6, "pgd-linf:steps=20"), (4, "apgd-t-linf:steps=7,targets=2")])
def test_the_last_round_has_no_step_too_many(round_steps: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are those of steps one by one, and so are the passes: the last point is scored without a gradient."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    model, images = wrap(net, name="curved", classes=4, channels=3), torch.rand(5, 3, 2, 2)
    batch = Batch(images, model(images).argmax(1), tuple("abcde"))
    attack = registry.build(registry.bind("attack", f"{text},radius=0.001"))
    assert isinstance(attack, Attack)
    asked: list[bool] = []
    net.register_forward_pre_hook(lambda _, given: asked.append(given[0].requires_grad))
    made = []
    for steps in (1, round_steps):
        monkeypatch.setattr(gradient, "steps_per_round", lambda *_, steps=steps: steps)
        asked.clear()
        changed = attack(model, batch, Noise.of(0, batch.ids), width=5)
        made.append((Counter(asked), changed))
    (one_by_one, alone), (in_rounds, together) = made
    assert in_rounds == one_by_one
    assert torch.equal(together.images, alone.images)
    assert torch.equal(together.backwards, alone.backwards)
    assert torch.equal(together.forwards, alone.forwards)
