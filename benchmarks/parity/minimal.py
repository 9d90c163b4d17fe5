"""FAB and FMN against their published code: same model, same images, same number of steps and targets.

    python benchmarks/parity/minimal.py fab-t --peer AUTO_ATTACK [--model fashion-at-linf] [--dataset fashion-mnist-2k]
        [--norms linf,l2,l1] [--samples 200] [--steps 100] [--targets 9] [--batch 100]
    python benchmarks/parity/minimal.py fmn --peer FOOLBOX [--steps 1000] …
    python benchmarks/parity/minimal.py planes --peer AUTO_ATTACK

AUTO_ATTACK is a checkout of github.com/fra31/auto-attack, FOOLBOX a folder with foolbox 3.3.4 and eagerpy unpacked
(`pip download --no-deps foolbox==3.3.4 eagerpy`). Both sides look for the smallest change; accuracy at the usual radius
follows from what they found. `paired` is the median of ours over theirs, sample by sample; `5 % less` counts who found
a change at least that much smaller: the searches are local, and the last bit may decide between two valleys. `planes`
times the projections onto hyperplane ∩ box alone. Exits with 1 where ours leaves more than half a point of accuracy
more than theirs, or finds changes whose median is more than one percent larger.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from subject import batch_of, right
from torch import Tensor

from holdfast.attacks.recipes.hyperplane import onto_plane
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier, load

POWERS = {"linf": float("inf"), "l2": 2.0, "l1": 1.0}
RADII = {1: {"linf": 16 / 255, "l2": 1.0, "l1": 12.0}, 3: {"linf": 8 / 255, "l2": 0.5, "l1": 12.0}}  # by channels
HALF_A_POINT, ONE_PERCENT = 0.005, 1.01
WORSE, ABSENT = 1, 2
HEAD = (
    "attack       radius   n   robust: theirs   ours  agree   median: theirs    ours  ratio  paired"
    "   5 % less: theirs  ours   seconds: theirs  ours   passes: theirs  ours"
)

Attacked = Callable[[Tensor, Tensor], Tensor]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fab", "fab-t", "fmn", "planes"])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--norms", default="linf,l2,l1")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--targets", type=int, default=9)
    parser.add_argument("--batch", type=int, default=100)
    chosen = parser.parse_args()
    chosen.steps = chosen.steps or (1000 if chosen.what == "fmn" else 100)

    sys.path.insert(0, str(chosen.peer))
    for stub in ("git", "requests"):  # foolbox imports them to fetch models, which nothing here does
        sys.modules.setdefault(stub, MagicMock())
    expected = "foolbox" if chosen.what == "fmn" else "autoattack.fab_pt"
    try:
        peer = importlib.import_module(expected)
    except ImportError as error:
        print(f"no `{expected}` in {chosen.peer}: {error}", file=sys.stderr)
        return ABSENT
    if chosen.what == "planes":
        return planes()
    model = load(chosen.model, device="cpu")
    batch = right_ones(model, batch_of(chosen.dataset, 3 * chosen.samples), chosen.samples)
    print(f"{chosen.model}, n = {len(batch)}, {len(batch)} right before the attack, {chosen.steps} steps\n{HEAD}")
    worse = [norm for norm in chosen.norms.split(",") if compared(peer, norm, model, batch, chosen)]
    return WORSE if worse else 0


def compared(peer: Any, norm: str, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace) -> bool:
    """Prints one row; whether ours is worse."""
    radius = RADII[model.card.channels][norm]
    asked = Counted(model)
    their_attack = (their_fmn if chosen.what == "fmn" else their_fab)(peer, norm, asked, chosen)
    began = time.perf_counter()
    parts = zip(batch.images.split(chosen.batch), batch.labels.split(chosen.batch), strict=True)
    their_sizes = torch.cat([their_attack(images, labels) for images, labels in parts])
    their_time = time.perf_counter() - began

    targets = f",targets={chosen.targets}" if chosen.what == "fab-t" else ""
    ours = registry.build(registry.bind("attack", f"{chosen.what}-{norm}:steps={chosen.steps}{targets}"))
    began = time.perf_counter()
    changed = ours(model, batch, Noise.of(0, batch.ids), width=chosen.batch)
    our_time = time.perf_counter() - began
    sizes = sizes_of(model, batch, changed.images, norm)
    assert torch.equal(sizes.isinf(), changed.radius.isinf()), "what ours calls broken is not what is broken"

    theirs, left = their_sizes > radius, sizes > radius
    paired = float((sizes / their_sizes).nan_to_num(nan=1.0).median())
    ratio = float(sizes.median() / their_sizes.median())
    passes = float((changed.forwards + changed.backwards).float().mean())
    less = [int((one < 0.95 * other).sum()) for one, other in ((their_sizes, sizes), (sizes, their_sizes))]
    accuracy, agree = [kept.float().mean() for kept in (theirs, left)], (theirs == left).float().mean()
    print(
        f"{chosen.what + '-' + norm:10}{radius:9.4f}{len(batch):4}{accuracy[0]:17.2%}{accuracy[1]:7.2%}"
        f"{agree:7.1%}{their_sizes.median():17.5g}{sizes.median():8.5g}{ratio:7.4f}"
        f"{paired:8.4f}{less[0]:19}{less[1]:6}{their_time:18.1f}{our_time:6.1f}"
        f"{asked.passes / len(batch):17.0f}{passes:6.0f}",
        flush=True,
    )
    return bool(accuracy[1] > accuracy[0] + HALF_A_POINT or ratio > ONE_PERCENT)


def their_fab(peer: Any, norm: str, asked: Counted, chosen: argparse.Namespace) -> Attacked:
    """Without random starts their targets do not depend on each other: the smallest of all is what they would find."""
    attack = peer.FABAttack_PT(
        asked, norm=norm.replace("l", "L"), n_iter=chosen.steps, targeted=chosen.what == "fab-t", device="cpu"
    )

    def sizes(images: Tensor, labels: Tensor) -> Tensor:
        found = []
        for target in range(2, chosen.targets + 2) if attack.targeted else [0]:
            attack.target_class = target
            made = attack.attack_single_run(images, labels, is_targeted=attack.targeted)
            found.append(sizes_of(asked.model, Batch(images, labels, ("",) * len(images)), made, norm))
        return torch.stack(found).amin(dim=0)

    return sizes


def their_fmn(peer: Any, norm: str, asked: Counted, chosen: argparse.Namespace) -> Attacked:
    name = {"linf": "LInfFMNAttack", "l2": "L2FMNAttack", "l1": "L1FMNAttack"}[norm]
    attack = getattr(peer.attacks, name)(steps=chosen.steps)
    wrapped = peer.PyTorchModel(asked.eval(), bounds=(0, 1), device="cpu")

    def sizes(images: Tensor, labels: Tensor) -> Tensor:
        made = attack.run(wrapped, images, peer.Misclassification(labels))
        return sizes_of(asked.model, Batch(images, labels, ("",) * len(images)), made, norm)

    return sizes


class Counted(torch.nn.Module):
    """A model that counts the images it is asked about, twice where gradients are asked for too."""

    def __init__(self, model: TorchClassifier) -> None:
        super().__init__()
        self.model, self.passes = model, 0

    def forward(self, images: Tensor) -> Tensor:
        logits = self.model(images)
        if images.requires_grad:
            logits.register_hook(lambda gradient: self._count(len(gradient)))
        self._count(len(images))
        return logits

    def _count(self, images: int) -> None:
        self.passes += images


def sizes_of(model: TorchClassifier, batch: Batch, changed: Tensor, norm: str) -> Tensor:
    """How large a change is in its norm; infinite where the model is still right."""
    still = right(model, changed, batch.labels)
    return (changed - batch.images).flatten(1).norm(p=POWERS[norm], dim=1).masked_fill(still, torch.inf)


def right_ones(model: TorchClassifier, batch: Batch, samples: int) -> Batch:
    """The first samples that the model is right about."""
    kept = right(model, batch.images, batch.labels).nonzero().squeeze(1)[:samples]
    return Batch(batch.images[kept], batch.labels[kept], tuple(batch.ids[i] for i in kept.tolist()))


def planes(n: int = 512, entries: int = 3072) -> int:
    """Milliseconds of one projection onto hyperplane ∩ box, best of three."""
    peer = importlib.import_module("autoattack.fab_projections")
    random = torch.Generator().manual_seed(0)
    weight, points = torch.randn(n, entries, generator=random), torch.rand(n, entries, generator=random)
    print(f"milliseconds per projection of {n} x {entries}, {torch.get_num_threads()} thread(s)\n")
    print("points    norm   gap    theirs     ours")
    for name, at in {"inside": 0.25 + 0.5 * points, "border": (1.6 * points - 0.3).clamp(0, 1)}.items():
        for gap in (-5.0, -200.0):
            gaps = torch.full((n,), gap)
            level = (weight * at).sum(dim=1) + gaps
            for norm in POWERS:
                theirs = timed(getattr(peer, f"projection_{norm}"), at, weight, level)
                ours = timed(onto_plane, norm, weight, gaps, -at, 1 - at)
                print(f"{name:9} {norm:5}{gap:6.0f}{theirs:10.0f}{ours:9.0f}")
    return 0


def timed(work: Callable[..., object], *given: object) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work(*given)
        times.append(time.perf_counter() - began)
    return 1000 * min(times)


if __name__ == "__main__":
    sys.exit(main())
