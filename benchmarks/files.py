"""From image files to the model: torch's DataLoader against a clean `evaluate`, the first time and the second.

    python benchmarks/files.py [--source FOLDER] [--images 1500] [--size 224] [--resize 256] [--workers N] [--rounds 3]
        [--device auto] [--write docs/benchmarks.md]

The files are copies of those in --source, or drawn scenes of 500x375 pixels as JPEGs, in a folder that goes afterwards.
The network is a pooling and a linear layer, so that reading decides. In turns, as often as --rounds says:

- DataLoader: a dataset that opens a file with Pillow, resizes, crops and gives float32, in as many workers as cores;
- the first time: `evaluate` with nothing kept, from listing the folder to finished rows, the model's check included;
- the second time: `evaluate` into another store; pixels are read from those that the first time kept on disk.

Medians of images per second of the clock, and where threads decode, of processor time of this process and its children,
which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import holdfast
from holdfast.core.home import ROOT
from holdfast.core.registry import registry
from holdfast.datasets.decoded_cache import UNCHANGED_FOR
from holdfast.datasets.decoder_pool import pool_for
from holdfast.engine.device import device_name, pick_device

BEGIN, END = "<!-- files: made by `benchmarks/files.py` -->", "<!-- end of files -->"
CLASSES = 10
BATCH = 128
DRAWN = 100
WAYS = ("DataLoader", "first time", "second time")


class Taken(NamedTuple):
    """Seconds of the clock and of processors."""

    clock: float
    processors: float


class Files(Dataset[Tensor]):
    """What a user writes for a DataLoader."""

    def __init__(self, paths: list[Path], resize: int, size: int) -> None:
        self.paths, self.resize, self.size = paths, resize, size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> Tensor:
        image = Image.open(self.paths[position]).convert("RGB")
        scale = self.resize / min(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = (image.width - self.size) // 2, (image.height - self.size) // 2
        image = image.crop((left, top, left + self.size, top + self.size))
        return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()).float() / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, help="JPEGs to copy")
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--resize", type=int, default=256)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path, help="a document with the marks of this table")
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    with tempfile.TemporaryDirectory() as folder:
        paths = copied(chosen.source, Path(folder) / "images", chosen.images)
        time.sleep(1 + UNCHANGED_FOR)  # what has just been written is not kept
        taken = [in_turn(Path(folder), number, paths, device, chosen) for number in range(chosen.rounds)]
    table = described([dict(zip(WAYS, each, strict=True)) for each in taken], paths, device, chosen)
    print(table)
    if chosen.write:
        write(chosen.write, table)


def copied(source: Path | None, folder: Path, count: int) -> list[Path]:
    """So many JPEGs in one folder per class."""
    if source is None:
        source = folder.with_name("drawn")
        source.mkdir()
        drawn = registry.build(registry.bind("dataset", f"scenes:n={min(count, DRAWN)},size=500"))
        for i, pixels in enumerate(drawn.images(range(len(drawn.ids))).pixels.numpy()):
            Image.fromarray(pixels[:, :375].transpose(1, 2, 0)).save(source / f"{i}.jpg", quality=90)
    originals = sorted(source.rglob("*.jpg"))
    made = []
    for i in range(count):
        path = folder / f"class {i % CLASSES}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        made.append(Path(shutil.copyfile(originals[i % len(originals)], path)))
    return made


def in_turn(
    folder: Path, number: int, paths: list[Path], device: torch.device, chosen: argparse.Namespace
) -> list[Taken]:
    """The three ways, one after the other."""
    torch.manual_seed(0)
    side = chosen.size // 7
    net = nn.Sequential(nn.AvgPool2d(side), nn.Flatten(), nn.Linear(3 * (chosen.size // side) ** 2, CLASSES)).eval()
    os.environ[ROOT] = str(folder / f"home {number}" / "data")  # nothing is kept there yet

    def loaded() -> None:
        data = Files(paths, chosen.resize, chosen.size)
        pinned, placed = device.type == "cuda", net.to(device)
        with torch.no_grad():
            for images in DataLoader(data, batch_size=BATCH, num_workers=chosen.workers, pin_memory=pinned):
                placed(images.to(device, non_blocking=True)).argmax(1).cpu()

    def evaluated(store: str) -> Callable[[], None]:
        def work() -> None:
            ref = f"folder:{folder / 'images'},size={chosen.size},resize={chosen.resize}"
            (outcome,) = holdfast.evaluate(
                net, ref, store=folder / f"{store} {number}", device=str(device), pictures=0, name="pooled"
            )
            if outcome.rows is None or len(outcome.rows) != len(paths):
                raise SystemExit(f"not evaluated: {outcome.error}")

        return work

    return [timed(work) for work in (loaded, evaluated("first"), evaluated("second"))]


def timed(work: Callable[[], None]) -> Taken:
    clock, processors = time.perf_counter(), processor_seconds()
    work()
    return Taken(time.perf_counter() - clock, processor_seconds() - processors)


def processor_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def described(
    rounds: list[dict[str, Taken]], paths: list[Path], device: torch.device, chosen: argparse.Namespace
) -> str:
    """The table, with ratios to the DataLoader of the same round."""
    threads = pool_for(len(paths)) is None  # what processes take is not seen while they live
    kinds = ("clock", "processors") if threads else ("clock",)
    units = {"clock": "images/s", "processors": "images per processor second"}
    head = " | ".join(f"{units[kind]} | of the DataLoader's" for kind in kinds)
    lines = [f"| | {head} |", "|---" * (1 + 2 * len(kinds)) + "|"]
    for way in WAYS:
        cells = []
        for kind in kinds:
            seconds = statistics.median(getattr(each[way], kind) for each in rounds)
            ratio = statistics.median(getattr(each[WAYS[0]], kind) / getattr(each[way], kind) for each in rounds)
            cells += [f"{len(paths) / seconds:,.0f}", f"{ratio:.2f}"]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    about = (
        f"{device_name(device)}, {os.cpu_count()} cores; {len(paths):,} JPEGs to {chosen.size} pixels; "
        f"{chosen.workers} workers of the DataLoader, ours decoded by {'threads' if threads else 'processes'}; "
        f"medians of {len(rounds)} rounds in turns, "
        f"while the machine's load was {os.getloadavg()[0]:.0f}."
    )
    return "\n".join([about, "", *lines])


def write(document: Path, table: str) -> None:
    """Puts the table between its marks."""
    before, rest = document.read_text().split(BEGIN, 1)
    document.write_text(before + f"{BEGIN}\n{table}\n{END}" + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
