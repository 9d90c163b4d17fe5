"""What `evaluate` on a clean scenario costs beside the bare loop `for batch: model(batch)`, in one run.

    python benchmarks/overhead.py [MODEL] [DATASET] [--images N] [--repeat N]

The bare loop gets every advantage: images decoded, on the device, as floats. `evaluate` decodes, checks the model,
scores, and writes verified rows. Both get a loaded model and the same batch size. `evaluate` runs on half of the
images and on all of them: the difference is what an image costs, the rest is what a run costs once, above all the
check of the model, some 300 passes however many images there are. Times are the least of N: of the clock on a GPU, of
the processor on a CPU, where other processes then change little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import torch

from holdfast.core.registry import registry
from holdfast.engine.device import Width, device_name, full_precision, pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.engine.shards import on_device
from holdfast.models import load

CPU_IMAGES = 512  # a ResNet-18 takes some 10 ms for one on a core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="python:benchmarks.overhead:resnet")
    parser.add_argument("dataset", nargs="?", default="fashion-mnist-2k")
    parser.add_argument("--images", type=int, help=f"all of the dataset unless said, {CPU_IMAGES} on a CPU")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()

    device = pick_device(chosen.device)
    dataset = registry.build(registry.bind("dataset", chosen.dataset))
    model = load(chosen.model, device=device)
    n = min(chosen.images or (CPU_IMAGES if device.type == "cpu" else len(dataset.ids)), len(dataset.ids))
    width = min(Width.for_model(model, dataset.card, device).value, n // 2)
    images = on_device(dataset.images(range(n)).pixels, device)

    def ours(count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"store": folder, "device": chosen.device, "batch_size": width, "pictures": 0}
            evaluate(model, chosen.dataset, samples=count, **settings)

    _bare(model, images, width)  # first passes and first runs import modules and set memory up
    ours(n // 2)
    bare = _least(lambda: _bare(model, images, width), device, chosen.repeat)
    half, whole = (_least(lambda count=count: ours(count), device, chosen.repeat) for count in (n // 2, n))
    each = (whole - half) / (n - n // 2)
    print(f"{chosen.model} on {chosen.dataset}, n = {n:,}, batch {width}, {device_name(device)}")
    print(f"bare loop        {1000 * bare / n:8.3f} ms an image")
    print(f"evaluate         {1000 * each:8.3f} ms an image (decoding, scoring and writing included)")
    print(f"ratio            {each * n / bare:8.3f}")
    print(f"once per run     {whole - each * n:8.3f} s (the check of the model, opening and finishing the store)")


def resnet() -> torch.nn.Module:
    """A CIFAR ResNet-18 on grey images, random weights: a model of ordinary size."""
    torch.manual_seed(0)
    net: torch.nn.Module = registry.build(registry.bind("architecture", "resnet18-cifar:channels=1"))
    return net


def _bare(model: torch.nn.Module, images: torch.Tensor, width: int) -> None:
    with full_precision(), torch.no_grad():
        for i in range(0, len(images), width):
            model(images[i : i + width])


def _least(work: Callable[[], None], device: torch.device, repeat: int) -> float:
    """Seconds of the fastest of some repetitions."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    taken = []
    for _ in range(repeat):
        begun = clock()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(clock() - begun)
    return min(taken)


if __name__ == "__main__":
    main()
