"""AutoAttack, Auto-PGD and the minimum-margin attack against the published code: same model, same images, one run.

    python benchmarks/parity/autoattack.py --autoattack FOLDER --mm FOLDER [--model fashion-at-linf]
        [--dataset fashion-mnist-2k] [--norm linf] [--radius 16/255] [--samples 500] [--device auto]
        [--what apgd-ce,apgd-t,mm5,autoattack] [--speeds exact] [--width 250] [--rerun]

FOLDERs are checkouts of github.com/fra31/auto-attack and github.com/Sjtubrian/MM-attack. Theirs runs as published, in
batches of --width, with torch's defaults; ours once per speed (on a GPU: exact, eager, graph, compile). The driver of
the minimum-margin attack is a script there, so its order is followed here: target after target, on what stands, with
its own attack class.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import torch
from subject import HEAD, Counted, Result, batch_of, line, ours, peer_module, right, timed
from torch import Tensor

from holdfast.core.types import Batch
from holdfast.core.values import parse_value
from holdfast.engine.device import full_precision, pick_device
from holdfast.models import TorchClassifier, load
from holdfast.models.fast import Speed, fast_version

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}
AUTOATTACK, MM = "github.com/fra31/auto-attack", "github.com/Sjtubrian/MM-attack"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--autoattack", type=Path)
    parser.add_argument("--mm", type=Path)
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--norm", default="linf", choices=list(NORMS))
    parser.add_argument("--radius", default="16/255")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--what", default="apgd-ce,apgd-t,mm5,autoattack")
    parser.add_argument("--speeds", default="exact")
    parser.add_argument("--width", type=int, default=250)
    parser.add_argument("--repeat", type=int, default=1, help="ours again: on a GPU the first time records its graphs")
    parser.add_argument("--our-width", type=int, default=None)
    chosen = parser.parse_args()

    device = pick_device(chosen.device)
    model = load(chosen.model, device=device)
    batch = batch_of(chosen.dataset, chosen.samples, device)
    clean = float(right(model, batch.images, batch.labels).float().mean())
    print(f"{chosen.model} on {chosen.dataset}, {len(batch)} images, clean accuracy {100 * clean:.1f} %\n{HEAD}")
    for name in chosen.what.split(","):
        theirs = published(name, chosen, model, batch)
        for speed in chosen.speeds.split(","):
            attack = f"{name}-{chosen.norm}:radius={chosen.radius}"
            width = chosen.our_width or chosen.width
            with full_precision():
                made, seconds = timed(lambda speed=speed, width=width: fast_version_for(model, batch, speed, width))
                model.fast = made
                mine = [ours(model, batch, attack, width=width) for _ in range(chosen.repeat)]
                model.fast = None
            label = f"{name}-{chosen.norm}" + (f" {speed}" if speed != "exact" else "")
            prepared = f"   set-up {seconds:.1f} s" if made else ""
            for result in mine:
                print(line(label, chosen.radius, theirs, result) + prepared, flush=True)


def fast_version_for(model: TorchClassifier, batch: Batch, speed: str, width: int) -> Any:
    if speed == "exact" or not batch.images.is_cuda:
        return None
    return fast_version(model, batch.images[:16], width=width, speed=cast("Speed", speed), report=print)


def published(name: str, chosen: argparse.Namespace, model: TorchClassifier, batch: Batch) -> Result:
    """The published attack of that name."""
    ask, radius = Counted(model), cast("float", parse_value(chosen.radius))
    width, device = chosen.width, batch.images.device
    if name == "mm5":
        module = peer_module(chosen.mm, "attack_apgd", MM)
        made, seconds = timed(lambda: minimum_margin(module, ask, batch, NORMS[chosen.norm], radius, width))
        return Result(made, seconds, ask.images / len(batch))
    if name == "autoattack":
        module = peer_module(chosen.autoattack, "autoattack.autoattack", AUTOATTACK)
        attack = module.AutoAttack(ask, norm=NORMS[chosen.norm], eps=radius, device=device, verbose=False, seed=0)
        made, seconds = timed(lambda: attack.run_standard_evaluation(batch.images, batch.labels, bs=width))
        return Result(right(model, made, batch.labels), seconds, ask.images / len(batch))
    module = peer_module(chosen.autoattack, "autoattack.autopgd_base", AUTOATTACK)
    common = {"n_iter": 100, "norm": NORMS[chosen.norm], "eps": radius, "seed": 0, "device": device}
    common["use_largereps"] = chosen.norm == "l1"
    if name == "apgd-t":
        attack = module.APGDAttack_targeted(ask, n_target_classes=9, **common)
    else:
        attack = module.APGDAttack(ask, loss=name.removeprefix("apgd-"), **common)
    parts = zip(batch.images.split(width), batch.labels.split(width), strict=True)
    made, seconds = timed(lambda: torch.cat([attack.perturb(images, labels) for images, labels in parts]))
    return Result(right(model, made, batch.labels), seconds, ask.images / len(batch))


def minimum_margin(module: Any, ask: Counted, batch: Batch, norm: str, radius: float, width: int) -> Tensor:
    """Who withstands MM5: target after target, on what stands."""
    device = batch.images.device
    attack = module.APGDAttack_targeted(ask, n_iter=20, norm=norm, eps=radius, seed=1, device=device)
    attack.loss, attack.n_target_classes = "mm", 1
    standing = right(ask.model, batch.images, batch.labels)
    for target in range(5):
        for rows in standing.nonzero().squeeze(1).split(width):
            images, labels = batch.images[rows], batch.labels[rows]
            made = attack.perturb(images, labels, i=target)
            standing[rows] = right(ask.model, made, labels)
    return standing


if __name__ == "__main__":
    main()
