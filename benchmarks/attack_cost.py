"""What an attack costs beside its passes, and what the active set and a sweep save.

    python benchmarks/attack_cost.py [--model fashion-at-linf] [--dataset fashion-mnist-2k] [--radius 16/255]
        [--samples 128] [--steps 10] [--width 128] [--rounds 25] [--device cpu] [--parts cost,active,sweep,ahead]

1. apgd-ce with the active set off against the bare loop of as many forward and backward passes: the median of the
   ratios of many short rounds, in turns. 2. The same attack with the active set on: passes, and whether the flags are
   the same. 3. A sweep of 20 radii against 20 runs: passes, and thresholds that are equal. 4. The same sweep with
   attacks made ahead: batches one after the other, passes, and whether results are equal. Nothing else should run
   meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from typing import cast

import torch
from parity.subject import batch_of, timed
from scipy.stats import binom

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.core.values import parse_value
from holdfast.engine.device import pick_device
from holdfast.models import TorchClassifier, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--radius", default="16/255")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", default="cost,active,sweep")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--filled", default="0,64,128,256,512", help="attacks made at once, at least (part ahead)")
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    model = load(chosen.model, device=device)
    batch = batch_of(chosen.dataset, chosen.samples, device)
    radius = cast("float", parse_value(chosen.radius))
    print(f"{chosen.model}, {len(batch)} images, {chosen.steps} steps, radius {chosen.radius}, width {chosen.width}")
    if "cost" in chosen.parts:
        cost(model, batch, radius, chosen)
    if "active" in chosen.parts:
        active(model, batch, radius, chosen)
    if "sweep" in chosen.parts:
        sweep(model, batch, radius, chosen)
    if "ahead" in chosen.parts:
        ahead(model, batch, radius, chosen)


def cost(model: TorchClassifier, batch: Batch, radius: float, chosen: argparse.Namespace) -> None:
    """The attack on everyone to the end against as many passes without an attack, in turns."""
    whole = replace(recipe(radius, chosen.steps), stop_when_broken=False)
    noise = Noise.of(0, batch.ids, batch.images.device)
    ratios = []
    for _ in range(chosen.rounds):
        changed, attack = timed(lambda: whole(model, batch, noise, width=chosen.width))
        _, bare = timed(lambda: passes(model, batch, chosen.steps, chosen.width))
        ratios.append(attack / bare)
    forwards, backwards = (int(count.sum()) // len(batch) for count in (changed.forwards, changed.backwards))
    ratios.sort()
    low, high = (ratios[int(index)] for index in binom.ppf((0.025, 0.975), len(ratios), 0.5))
    print(
        f"apgd-ce, active set off, against a bare loop of {forwards} forward, {backwards} backward passes: "
        f"{statistics.median(ratios):.3f} (median of {len(ratios)} rounds in turns; 95 % {low:.3f} to {high:.3f})",
        flush=True,
    )


def passes(model: TorchClassifier, batch: Batch, steps: int, width: int) -> None:
    """The bare loop: forward and backward to the images, nothing else; the last time forward alone."""
    for images, labels in zip(batch.images.split(width), batch.labels.split(width), strict=True):
        for _ in range(steps):
            moved = images.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(model(moved), labels, reduction="sum")
            torch.autograd.grad(loss, moved)
        with torch.no_grad():
            model(images)


def active(model: TorchClassifier, batch: Batch, radius: float, chosen: argparse.Namespace) -> None:
    """The attack on those still standing against the attack on everyone."""
    with torch.no_grad():
        right = (model(batch.images).argmax(1) == batch.labels).nonzero().squeeze(1)
    batch = Batch(batch.images[right], batch.labels[right], tuple(batch.ids[i] for i in right.tolist()))
    made, noise = recipe(radius, chosen.steps), Noise.of(0, batch.ids, batch.images.device)
    reach = torch.full((len(batch),), radius, device=batch.images.device)
    whole = replace(made, stop_when_broken=False)
    on, on_seconds = timed(lambda: made.attempt(model, batch, noise, reach, width=chosen.width))
    off, off_seconds = timed(lambda: whole.attempt(model, batch, noise, reach, width=chosen.width))
    share = int(on.backwards.sum()) / (len(batch) * chosen.steps)
    same = float((on.broken == off.broken).float().mean())
    print(
        f"active set on: {100 * float(on.broken.float().mean()):.1f} % broken, backward passes {share:.3f} of N·T, "
        f"{on_seconds:.2f} s against {off_seconds:.2f} s; flags that are the same: {100 * same:.2f} %",
        flush=True,
    )


def sweep(model: TorchClassifier, batch: Batch, radius: float, chosen: argparse.Namespace) -> None:
    """One sweep of 20 radii against 20 runs of the same attack."""
    radii = tuple(radius * i / 10 for i in range(1, 21))
    made = Sweep(recipe(radius, chosen.steps), radii, warm=chosen.warm)
    noise = Noise.of(0, batch.ids, batch.images.device)
    swept, seconds = timed(lambda: made(model, batch, noise, width=chosen.width))
    threshold = torch.full((len(batch),), torch.inf, device=batch.images.device)
    total, separate = 0, 0.0
    for reach in reversed(radii):
        run = recipe(reach, chosen.steps)
        changed, spent = timed(lambda run=run: run(model, batch, noise, width=chosen.width))
        with torch.no_grad():
            broken = model(changed.images).argmax(1) != batch.labels
        threshold = torch.where(broken, reach, threshold)
        total, separate = total + int((changed.forwards + changed.backwards).sum()), separate + spent
    with torch.no_grad():
        threshold[model(batch.images).argmax(1) != batch.labels] = 0.0
    own = int((swept.forwards + swept.backwards).sum())
    same = torch.isclose(swept.radius, threshold) | (swept.radius == threshold)
    lower = float((swept.radius < threshold * (1 - 1e-6)).float().mean())
    print(
        f"sweep of 20 radii: {own / len(batch):.0f} passes a sample against {total / len(batch):.0f} "
        f"({100 * own / total:.1f} %), {seconds:.1f} s against {separate:.1f} s; thresholds equal "
        f"{100 * float(same.float().mean()):.1f} %, lower {100 * lower:.1f} %",
        flush=True,
    )


def ahead(model: TorchClassifier, batch: Batch, radius: float, chosen: argparse.Namespace) -> None:
    """The sweep with attacks that its searches may ask for later, against the sweep without: counts alone."""
    made = Sweep(recipe(radius, chosen.steps), tuple(radius * i / 10 for i in range(1, 21)))
    noise = Noise.of(0, batch.ids, batch.images.device)
    alone = None
    for filled in map(int, chosen.filled.split(",")):
        lengths: list[int] = []
        hook = model.net.register_forward_pre_hook(lambda _, args, lengths=lengths: lengths.append(len(args[0])))
        swept = replace(made, filled=filled)(model, batch, noise, width=chosen.width)
        hook.remove()
        alone = swept if alone is None else alone
        same = [bool((getattr(swept, name) == getattr(alone, name)).all()) for name in ("radius", "size", "images")]
        padded = {least: sum(max(least, length) for length in lengths) for least in (64, 128, 256, 512)}
        print(
            f"at least {filled} attacks at once: {len(lengths)} batches, {int(swept.forwards.sum())} forward and "
            f"{int(swept.backwards.sum())} backward passes; equal thresholds, sizes, images: {same}; "
            f"with every batch at least so long: {padded}",
            flush=True,
        )


def recipe(radius: float, steps: int) -> GradientAttack:
    made = registry.build(registry.bind("attack", f"apgd-ce-linf:radius={radius!r},steps={steps}"))
    assert isinstance(made, GradientAttack)
    return made


if __name__ == "__main__":
    main()
