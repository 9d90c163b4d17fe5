"""What corruptions cost: milliseconds per image, apart and summed.

    python benchmarks/corruptions.py [--size 224] [--images 32] [--severity 3] [--ladder auto] [--device cpu]
    python benchmarks/corruptions.py --cells --size 32 --images 10000 --device cuda

The first prints each corruption and the sum over the fifteen standard ones, on one CPU thread (or a GPU), as the
median of some rounds. With --cells it makes every severity of the fifteen for all images and prints the seconds. Images
are drawn ones: the time depends on the content in jpeg and spatter alone, and little.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.engine.device import pick_device

WIDTH = 256
DRAWN = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--ladder", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", action="store_true")
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    batch = drawn(chosen.images, chosen.size, device)
    names = registry.entries("corruption")
    standard = [name for name, entry in names.items() if "standard" in entry.tags]
    print(f"{len(batch)} images of {chosen.size} pixels on {device}")
    if chosen.cells:
        cells(batch, standard)
        return
    total = 0.0
    for name in [*standard, *(name for name in names if name not in standard)]:
        text = f"{name}:ladder={chosen.ladder}" + ("" if name == "greyscale" else f",severity={chosen.severity}")
        seconds = [timed(batch, text) for _ in range(chosen.rounds + 1)][1:]
        each = 1e3 * statistics.median(seconds) / len(batch)
        total += each if name in standard else 0.0
        print(f"{name:20}{each:8.2f} ms" + ("" if name in standard else "   not in the sum"), flush=True)
    print(f"{'the fifteen, summed':20}{total:8.2f} ms per image")


def drawn(count: int, size: int, device: torch.device) -> Batch:
    """Drawn images, the same ones again beyond DRAWN: the ids, and so the noise, differ."""
    dataset = registry.build(registry.bind("dataset", f"scenes:n={min(count, DRAWN)},size={size}"))
    few = dataset.images(range(len(dataset.ids))).pixels.to(device) / 255
    images = few[torch.arange(count, device=device) % len(few)]
    return Batch(images, torch.zeros(count, dtype=torch.int64, device=device), tuple(map(str, range(count))))


def cells(batch: Batch, standard: list[str]) -> None:
    """Every severity of the fifteen."""
    timed(batch, "gaussian-noise")  # the device wakes up
    total = 0.0
    for name in standard:
        seconds = [timed(batch, f"{name}:severity={severity}") for severity in range(1, 6)]
        total += sum(seconds)
        print(f"{name:20}" + "".join(f"{second:8.2f}" for second in seconds) + " s", flush=True)
    print(f"75 cells of {len(batch)} images: {total:.1f} s")


def timed(batch: Batch, text: str) -> float:
    change = registry.build(registry.bind("corruption", text))
    noise = Noise.of(0, batch.ids, batch.images.device)
    _wait(batch.images)
    began = time.perf_counter()
    change(None, batch, noise, width=WIDTH)
    _wait(batch.images)
    return time.perf_counter() - began


def _wait(images: torch.Tensor) -> None:
    if images.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
