"""The Square attack against AutoAttack's: same model, same images, same radius and number of queries.

    python benchmarks/parity/square.py --peer AUTO_ATTACK [--model fashion-at-linf] [--dataset fashion-mnist-2k]
        [--attacks linf:16/255,l2:1.0,l1:12] [--samples 200] [--queries 1000] [--batch 100] [--seeds 1]
    python benchmarks/parity/square.py --peer AUTO_ATTACK --overhead

AUTO_ATTACK is a checkout of github.com/fra31/auto-attack. Theirs runs in batches, as AutoAttack does, with the settings
of its standard version (margin loss, schedule not rescaled). A sample is kept when the model is right about the changed
image. `--seeds` runs both with several and gives the mean. `--overhead` times both on a model that costs nothing.
Exits with 1 where ours leaves more than one point of accuracy more than theirs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from typing import Any

import torch
from subject import Counted, batch_of, right
from torch import Tensor, nn

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.core.values import parse_value
from holdfast.models import TorchClassifier, load, wrap

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}
POINT = 0.01
WORSE = 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--attacks", default="linf:16/255,l2:1.0,l1:12")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--overhead", action="store_true")
    chosen = parser.parse_args()

    square = peer(chosen.peer)
    if chosen.overhead:
        return overhead(square)
    model = load(chosen.model, device="cpu")
    batch = batch_of(chosen.dataset, chosen.samples)
    clean = right(model, batch.images, batch.labels).float().mean()
    print(f"{chosen.model}, n = {len(batch)}, clean accuracy {clean:.1%}, {chosen.queries} queries", end="")
    print(f", {chosen.seeds} seed(s)\n" + HEAD)
    worse = False
    for name in chosen.attacks.split(","):
        norm, _, text = name.partition(":")
        rows = [compare(square, norm, text, model, batch, chosen, seed) for seed in range(chosen.seeds)]
        theirs, ours, agree, our_time, their_time, our_passes, their_passes = torch.tensor(rows).mean(dim=0).tolist()
        worse |= ours > theirs + POINT
        print(
            f"square-{norm:5} {text:>8}{theirs:9.2%}{ours:8.2%}{agree:8.1%}{their_time:10.1f}{our_time:8.1f}"
            f"{their_passes:11.1f}{our_passes:8.1f}",
            flush=True,
        )
    return WORSE if worse else 0


HEAD = """(processor seconds, passes per sample)
attack         radius   theirs    ours   agree   seconds    ours     passes    ours"""


def peer(folder: Path) -> Any:
    """The published attack."""
    if not (folder / "autoattack" / "square.py").exists():
        raise SystemExit(f"{folder} has no autoattack/square.py: nothing to compare with")
    sys.path.insert(0, str(folder))
    return importlib.import_module("autoattack.square").SquareAttack


def compare(
    square: Any, norm: str, text: str, model: TorchClassifier, batch: Batch, chosen: argparse.Namespace, seed: int
) -> tuple[float, ...]:
    """Accuracy left by theirs and ours, agreement, then seconds and mean passes per sample of ours and theirs."""
    ask = Counted(model)
    theirs = square(
        ask,
        norm=NORMS[norm],
        n_queries=chosen.queries,
        eps=parse_value(text),
        seed=seed,
        resc_schedule=False,
        device=batch.images.device,
    )
    began = time.process_time()
    parts = zip(batch.images.split(chosen.batch), batch.labels.split(chosen.batch), strict=True)
    with torch.no_grad():
        made = torch.cat([theirs.perturb(images, labels) for images, labels in parts])
    their_time = time.process_time() - began
    ours = registry.build(registry.bind("attack", f"square-{norm}:radius={text},queries={chosen.queries}"))
    began = time.process_time()
    changed = ours(model, batch, Noise.of(seed, batch.ids), width=chosen.batch)
    our_time = time.process_time() - began
    kept, left = right(model, made, batch.labels), right(model, changed.images, batch.labels)
    same = (kept == left).float().mean()
    passes = float(changed.forwards.float().mean()), ask.images / len(batch)
    return float(kept.float().mean()), float(left.float().mean()), float(same), our_time, their_time, *passes


class Unmoved(nn.Module):
    """Always the same answer, at no cost."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.tensor([1.0] + 9 * [0.0]))

    def forward(self, images: Tensor) -> Tensor:
        return self.answer.detach().repeat(len(images), 1)


def overhead(square: Any, n: int = 128, queries: int = 300) -> int:
    """Processor time of one query of `n` samples, of which the model takes nothing; best of three."""
    print(f"milliseconds of processor time per query of {n} samples, beside the model\n")
    print("attack          images     theirs     ours")
    for channels, size in ((1, 28), (3, 32)):
        model = wrap(Unmoved(), name="unmoved", classes=10, channels=channels)
        images = torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(0))
        batch = Batch(images, torch.zeros(n, dtype=torch.int64), tuple(str(i) for i in range(n)))
        for norm, radius in {"linf": 8 / 255, "l2": 0.5, "l1": 12.0}.items():
            theirs = square(model, norm=NORMS[norm], n_queries=queries, eps=radius, resc_schedule=False, device="cpu")
            ours = registry.build(registry.bind("attack", f"square-{norm}:radius={radius},queries={queries}"))
            noise = Noise.of(0, batch.ids)
            times: list[list[float]] = [[], []]
            for _ in range(3):
                began = time.process_time()
                with torch.no_grad():
                    theirs.perturb(batch.images, batch.labels)
                times[0].append(time.process_time() - began)
                began = time.process_time()
                ours(model, batch, noise, width=n)
                times[1].append(time.process_time() - began)
            each = [1000 * min(some) / queries for some in times]
            print(f"square-{norm:6} {channels}x{size}x{size} {each[0]:10.2f}{each[1]:9.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
