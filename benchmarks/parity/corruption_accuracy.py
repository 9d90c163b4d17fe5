"""Accuracy under our corruptions and under the published ones, cell by cell, on the same images and model.

    python benchmarks/parity/corruption_accuracy.py --model REF --dataset REF --package FOLDER --scripts FOLDER
        --out FILE.jsonl [--ladder imagenet] [--samples 1000] [--only fog,snow]

The generators are those of `corruptions.py`. Each cell is one line of FILE.jsonl, and a cell that is there is not
measured again. The interval is the paired one of the difference (Wald, from the samples on which only one of the two is
right); the largest difference is said at the end. Both sides truncate to 8 bits. Exits with 1 where a difference is
above 3 points.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from corruptions import published
from generators import NAMES, as_bytes
from subject import batch_of, right

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.engine.device import pick_device
from holdfast.models import TorchClassifier, load

CHUNK, WIDTH = 96, 8
MOST = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--model", "--dataset"):
        parser.add_argument(name, required=True)
    for name in ("--package", "--scripts", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--ladder", default="imagenet", choices=["imagenet", "cifar"])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--only", default=",".join(NAMES))
    chosen = parser.parse_args()
    device = pick_device("cpu")
    model, batch = load(chosen.model, device=device), batch_of(chosen.dataset, chosen.samples)
    peers = published(chosen)
    cells = [json.loads(line) for line in chosen.out.read_text().splitlines()] if chosen.out.exists() else []
    done = {(cell["corruption"], cell["severity"]) for cell in cells}
    with chosen.out.open("a") as out:
        for severity in (3, 1, 5, 2, 4):
            for name in chosen.only.split(","):
                if (name, severity) in done:
                    continue
                cells.append(cell_of(name, severity, peers[name], model, batch, chosen.ladder))
                print(json.dumps(cells[-1]), file=out, flush=True)
    worst = max(cells, key=lambda cell: abs(cell["difference"]))
    where = f"{worst['corruption']} {worst['severity']}"
    print(f"{len(cells)} cells, largest difference {100 * worst['difference']:+.1f} points: {where}")
    if abs(worst["difference"]) > MOST:
        raise SystemExit(1)


def cell_of(
    name: str, severity: int, peer: object, model: TorchClassifier, batch: Batch, ladder: str
) -> dict[str, object]:
    """One cell: accuracies, their difference and its interval."""
    ref = f"{name}:severity={severity},ladder={ladder},quantise=truncate"
    change = registry.build(registry.bind("corruption", ref))
    np.random.seed(severity)  # noqa: NPY002 - the generators use the global state
    mine, theirs = [], []
    for start in range(0, len(batch), CHUNK):
        part = slice(start, start + CHUNK)
        images, labels, ids = batch.images[part], batch.labels[part], batch.ids[part]
        changed = change(None, Batch(images, labels, ids), Noise.of(0, ids), width=CHUNK).images
        mine.append(right(model, changed, labels, width=WIDTH))
        pixels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        made = np.stack([as_bytes(peer, image, severity) for image in pixels])  # type: ignore[arg-type]
        theirs.append(right(model, torch.from_numpy(made).permute(0, 3, 1, 2).float() / 255, labels, width=WIDTH))
    ours, published_right = torch.cat(mine), torch.cat(theirs)
    n = len(ours)
    only_ours, only_theirs = int((ours & ~published_right).sum()), int((published_right & ~ours).sum())
    difference = (only_ours - only_theirs) / n
    error = math.sqrt(max(0.0, (only_ours + only_theirs) / n - difference**2) / n)
    return {
        "corruption": name,
        "severity": severity,
        "n": n,
        "ours": float(ours.float().mean()),
        "theirs": float(published_right.float().mean()),
        "difference": difference,
        "low": difference - 1.96 * error,
        "high": difference + 1.96 * error,
    }


if __name__ == "__main__":
    main()
