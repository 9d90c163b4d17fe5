"""How far `evaluate` on a clean scenario is from the bare loop `for batch: model(batch)`, in one run.

    python benchmarks/overhead.py [MODEL] [DATASET] [--repeat N]

The bare loop gets every advantage: images decoded, on the device, as floats. `evaluate` decodes, checks the model,
scores, and writes verified rows. Both get a loaded model and the same batch size; times are the best of N.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from holdfast.core.registry import registry
from holdfast.engine.device import Width, device_name, full_precision, pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.engine.shards import on_device
from holdfast.models import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="python:benchmarks.overhead:resnet")
    parser.add_argument("dataset", nargs="?", default="fashion-mnist-2k")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()

    device = pick_device(chosen.device)
    dataset = registry.build(registry.bind("dataset", chosen.dataset))
    model = load(chosen.model, device=device)
    width = Width.for_model(model, dataset.card, device).value
    images = on_device(dataset.images(range(len(dataset.ids))).pixels, device)

    bare, ours = [], []
    for _ in range(chosen.repeat):
        bare.append(_timed(lambda: _bare(model, images, width), device))
        with tempfile.TemporaryDirectory() as folder:
            ours.append(
                _timed(
                    lambda folder=folder: evaluate(
                        model, chosen.dataset, store=folder, device=chosen.device, batch_size=width, pictures=0
                    ),
                    device,
                )
            )
    n = len(images)
    print(f"{chosen.model} on {chosen.dataset}, n = {n:,}, batch {width}, {device_name(device)}")
    print(f"bare loop {min(bare):8.3f} s  {n / min(bare):10,.0f} images/s")
    print(f"evaluate  {min(ours):8.3f} s  {n / min(ours):10,.0f} images/s  (decoding, checking and writing included)")
    print(f"ratio     {min(ours) / min(bare):8.3f}")


def resnet() -> torch.nn.Module:
    """A CIFAR ResNet-18 on grey images, random weights: a model of ordinary size."""
    torch.manual_seed(0)
    net: torch.nn.Module = registry.build(registry.bind("architecture", "resnet18-cifar:channels=1"))
    return net


def _bare(model: torch.nn.Module, images: torch.Tensor, width: int) -> None:
    with full_precision(), torch.no_grad():
        for i in range(0, len(images), width):
            model(images[i : i + width])


def _timed(work: object, device: torch.device) -> float:
    begun = time.perf_counter()
    work()  # type: ignore[operator]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
