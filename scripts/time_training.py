"""Measures training steps on this device against bare ones, and what a file of recipes will take.

python scripts/time_training.py --speed graph             # images/s of a ResNet-20 and a ResNet-18, and their shares
python scripts/time_training.py --family cifar10-zoo      # seconds that each of its recipes will take

Images are random: nothing is downloaded, and nothing is written.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from holdfast.models.weights import architecture
from holdfast.training.recipes import Recipe, family
from holdfast.training.train import Training
from holdfast.training.training_data import TrainingData

IMAGES, CLASSES = 4096, 10
NORM = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.247, 0.2435, 0.2616)}


def random_data(device: torch.device) -> TrainingData:
    """Random images in the shape of CIFAR-10."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, CLASSES, (IMAGES,), generator=generator)
    everything, nothing = torch.arange(IMAGES), torch.arange(0)
    tensors = (pixels, labels, torch.zeros_like(labels), everything, nothing)
    return TrainingData(*(tensor.to(device) for tensor in tensors), CLASSES, 1)


def pace(run: Callable[[], None], batch: int, device: torch.device, seconds: float = 1.0) -> float:
    """Images per second, after one call to warm up."""
    run()
    _wait(device)
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(5):
            run()
        calls += 5
        _wait(device)
    return calls * batch / (time.perf_counter() - begun)


def our_pace(recipe: Recipe, data: TrainingData, device: torch.device, speed: str, seconds: float) -> tuple[float, str]:
    training = Training(recipe, Path("none"), device, lambda _: None, 1e9, speed, lambda: False, data)  # type: ignore[arg-type]
    index = data.used[: recipe.batch]

    def run() -> None:
        training.one_step(index)

    for _ in range(1 if training.step.kinds == 1 else 12):  # so that every kind is recorded
        run()
    return pace(
        run, recipe.batch, device, seconds
    ), f"{training.runner.words}, prepared in {training.runner.seconds:.1f} s"


def bare_pace(
    recipe: Recipe, data: TrainingData, device: torch.device, speed: str, steps: int, seconds: float
) -> float:
    """The same passes written by hand, on one batch that is there already: no augmentation, no book-keeping."""
    net = architecture(recipe.architecture).net.to(device).train()
    if device.type == "cuda":
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    weights = list(net.parameters())
    velocity = [torch.zeros_like(weight) for weight in weights]
    index = data.used[: recipe.batch]
    images, labels = data.images(index), data.labels[index]

    def forward(given: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False):
            logits: torch.Tensor = net(given.contiguous(memory_format=torch.channels_last))
        return logits.float()

    def attacked(given: torch.Tensor) -> torch.Tensor:
        return forward(given)

    learn, attack = (torch.compile(each, dynamic=False) if speed == "compile" else each for each in (forward, attacked))

    def step() -> None:
        change = torch.zeros_like(images)
        if steps:
            net.eval()
            for weight in weights:
                weight.requires_grad_(False)
            for _ in range(steps):
                here = change.detach().requires_grad_(True)
                (slope,) = torch.autograd.grad(F.cross_entropy(attack(images + here), labels, reduction="sum"), here)
                change = (change + 4 / 255 * slope.sign()).clamp(-8 / 255, 8 / 255).clamp(-images, 1 - images)
            net.train()
            for weight in weights:
                weight.requires_grad_(True)
        gradients = torch.autograd.grad(F.cross_entropy(learn(images + change), labels), weights)
        with torch.no_grad():
            torch._foreach_mul_(velocity, 0.9)
            torch._foreach_add_(velocity, gradients)
            torch._foreach_sub_(weights, torch._foreach_mul(velocity, 1e-4))

    if device.type != "cuda" or speed == "eager":
        return pace(step, recipe.batch, device, seconds)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return pace(graph.replay, recipe.batch, device, seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", default="graph", choices=["eager", "graph", "compile"])
    parser.add_argument("--family")
    parser.add_argument("--networks", nargs="*", default=["resnet20-cifar", "resnet18-cifar"])
    parser.add_argument("--steps", nargs="*", type=int, default=[0, 5], help="of the attack; 0: standard training")
    parser.add_argument("--ours-alone", action="store_true", help="leave the bare step out")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which nothing more is begun")
    parser.add_argument("--images", type=int, default=50_000, help="of the dataset, for the seconds of a family")
    given = parser.parse_args()
    begun = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    data = random_data(device)
    if given.family:
        total = 0.0
        for recipe in family(given.family):
            if time.perf_counter() - begun > given.limit:
                print(f"{recipe.name}: not measured", flush=True)
                continue
            try:
                ours, words = our_pace(recipe, data, device, given.speed, given.seconds)
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                print(f"{recipe.name}: failed, {type(error).__name__}: {error}", flush=True)
                continue
            takes = recipe.epochs * given.images * recipe.share / ours
            total += takes
            print(f"{recipe.name}: {ours:,.0f} images/s, {takes:.1f} s of steps ({words})", flush=True)
        print(f"{total:.0f} s of steps in all", flush=True)
        return
    for network in given.networks:
        for steps in given.steps:
            attack = {"loss": "pgd-at", "threats": (f"pgd-linf:radius=8/255,steps={steps}",)} if steps else {}
            recipe = Recipe("timed", architecture=network, batch=given.batch, **NORM, **attack)  # type: ignore[arg-type]
            what = f"{network} {f'PGD-{steps}' if steps else 'standard'} {given.speed}"
            if time.perf_counter() - begun > given.limit:
                print(f"{what}: not measured", flush=True)
                continue
            ours, words = our_pace(recipe, data, device, given.speed, given.seconds)
            share = ""
            if not given.ours_alone:
                bare = bare_pace(recipe, data, device, given.speed, steps, given.seconds)
                share = f", {ours / bare:.3f} of the bare step's {bare:,.0f}"
            print(f"{what}: {ours:,.0f} images/s{share} ({words}), at {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
