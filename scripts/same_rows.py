"""Evaluates 60 scenarios of every kind and compares run keys and digests of rows with those of another version.

    python scripts/same_rows.py STORE                     # a line of JSON per run: scenario, key, digest
    python scripts/same_rows.py STORE --against FILE      # the same, compared with what another version printed
    python scripts/same_rows.py OLD_STORE --done          # every run of an old store must be answered without work

Uses the command line alone, so that it runs unchanged on both sides of a refactoring.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

GREY, COLOUR = "fashion-mnist-2k", "scenes:n=12,size=32"
MODELS = {GREY: "fashion-at-linf", COLOUR: "python:same_rows:coloured"}

ATTACKS = [
    "pgd-linf:radius=8/255,steps=5",
    "pgd-linf:radius=8/255,steps=4,restarts=2,momentum=0.5",
    "pgd-l2:radius=0.5,steps=5,loss=margin",
    "pgd-l1:radius=4,steps=5,loss=dlr,draws=2",
    "fgsm",
    "cw-linf:steps=8",
    "testbed-pgd-linf:steps=6",
    "apgd-ce-linf:radius=8/255,steps=10",
    "apgd-dlr-l2:radius=0.5,steps=10",
    "apgd-t-linf:radius=8/255,steps=8",
    "apgd-ce-l1:radius=6,steps=12",
    "apgd-fab-t-l2:radius=0.5",
    "fab-linf:steps=6",
    "fab-t-l2:steps=6",
    "fab-t-l1:steps=6",
    "fmn-linf:steps=10",
    "fmn-l2:steps=10",
    "square-linf:radius=16/255,queries=60",
    "square-l2:radius=1,queries=60",
    "square-l1:radius=8,queries=60",
    "mm5-linf:radius=8/255",
    "mm3-l2:radius=0.5",
    "autoattack-linf:radius=2/255",
    "stadv:radius=0.05,steps=5",
    "elastic:radius=0.25,steps=5",
    "affine:radius=0.1",
    "perspective:radius=0.1",
    "jpeg-linf:radius=0.25,steps=5",
    "jpeg-l2:radius=16,steps=5",
    "fog-attack:steps=5",
    "snow-attack:steps=5",
    "gabor-attack:steps=5",
    "brightness-attack:radius=0.2",
    "contrast-attack:radius=0.3",
    "lpips:radius=0.3",
    "fast-lpa:radius=0.3",
    "lpa:radius=0.3,steps=4",
    "ppgd:radius=0.3,steps=4",
    "worst-of:attacks=[(pgd-linf:radius=4/255,steps=4),(pgd-l2:radius=0.3,steps=4)]",
    "sweep:attack=(pgd-linf:steps=4),radii=[1/255,2/255,4/255,8/255,16/255]",
    "sweep:attack=(fgsm),radii=[1/255,4/255],exhaustive=true",
]
CORRUPTIONS = [
    "gaussian-noise:severity=3",
    "shot-noise:severity=5",
    "impulse-noise:severity=2",
    "defocus-blur:severity=3",
    "glass-blur:severity=2",
    "motion-blur:severity=3",
    "zoom-blur:severity=3",
    "snow:severity=3",
    "fog:severity=3",
    "brightness:severity=4",
    "contrast:severity=3",
    "elastic-transform:severity=3",
    "pixelate:severity=3",
    "jpeg:severity=3",
    "frost:severity=3",
    "spatter:severity=3",
    "speckle-noise:severity=3",
    "gaussian-noise:severity=3,ladder=imagenet",
    "fog:severity=2+pgd-linf:radius=4/255,steps=4",
    "contrast:severity=3+mm3-linf:radius=4/255",
]
COLOURS = [
    "",
    "recolor:steps=4",
    "hue-attack:radius=0.2",
    "saturation-attack:radius=0.3",
    "jpeg-l1:steps=4",
    "fog:severity=4",
]
DATASETS = [
    "subsample:(fashion-mnist-2k),count=50",
    "subsample:(fashion-mnist-2k),share=0.1,rest=true,seed=3",
    "mix:[(fashion-mnist-2k),(subsample:(fashion-mnist-2k),count=20)],shares=[0.1,0.9]",
    "subsample:(fashion-mnist-2k),count=50+pgd-linf:radius=4/255,steps=3",
    "arrays:grey.npz",
    "arrays:grey.npz,answers=[5,7,9,0,1,2,3,4,6,8]+pgd-linf:radius=8/255,steps=3",
    "arrays:three.npz,answers=[9,5,7]+fog:severity=2",
]


def coloured(classes: int = 3) -> object:
    """A small model for colour images with weights that are the same everywhere."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(classes)
    )
    net(torch.zeros(1, 3, 32, 32))
    return net.eval()


def write_arrays(folder: Path) -> None:
    """Arrays of known content: noise with ten labels, and with three that a label map gives their classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (24, 28, 28), dtype=np.uint8)
    np.savez(folder / "grey.npz", images=images, labels=np.arange(24) % 10)
    np.savez(folder / "three.npz", images=images, labels=np.arange(24) % 3)


def scenarios() -> list[tuple[str, str]]:
    """Model and scenario of every run."""
    grey = [""] + [f"+{change}" for change in ATTACKS + CORRUPTIONS]
    colour = [f"+{change}" if change else "" for change in COLOURS]
    return [(MODELS[GREY], text) for text in [GREY + c for c in grey] + DATASETS] + [
        (MODELS[COLOUR], COLOUR + c) for c in colour
    ]


def evaluated(store: str, only: str | None) -> list[dict[str, str]]:
    """One line per run, as the command line tells it and as its file has it."""
    lines = []
    work, store = tempfile.mkdtemp(), str(Path(store).absolute())
    write_arrays(Path(work))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    }
    for model in MODELS.values():
        chosen = [text for name, text in scenarios() if name == model and (only is None or only in text)]
        if not chosen:
            continue
        words = [sys.executable, "-m", "holdfast", "evaluate", model, "--samples", "12", "--store", store, "--json"]
        words += ["--pictures", "0", "--device", "cpu"]
        for text in chosen:
            words += ["--scenario", text]
        done = subprocess.run(words, capture_output=True, text=True, cwd=work, env=environment, check=False)
        sys.stderr.write(done.stderr)
        for record in json.loads(done.stdout or "[]"):
            path = Path(store) / "rows" / f"{record['run']}.parquet"
            footer = json.loads(pq.read_schema(path).metadata[b"holdfast"])
            lines.append({"scenario": record["scenario"], "run": record["run"], "digest": footer["digest"]})
        print(f"{len(lines)} runs; exit {done.returncode}", file=sys.stderr)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--done", action="store_true")
    parser.add_argument("--only", help="scenarios that contain this text")
    given = parser.parse_args()
    before = set((Path(given.store) / "rows").glob("*.parquet")) if given.done else set()
    made = evaluated(given.store, given.only)
    if given.done:
        new = set((Path(given.store) / "rows").glob("*.parquet")) - before
        print(f"{len(made)} runs, {len(new)} of them measured anew")
        return int(bool(new))
    if given.against is None:
        print("\n".join(json.dumps(line) for line in made))
        return 0
    other = {line["scenario"]: line for line in map(json.loads, given.against.read_text().splitlines())}
    wrong = [line for line in made if line != other.get(line["scenario"])]
    missing = [] if given.only else sorted(set(other) - {line["scenario"] for line in made})
    for line in wrong:
        print("differs:", line, other.get(line["scenario"]))
    for text in missing:
        print("missing:", text)
    print(f"{len(made)} runs compared, {len(wrong)} differ, {len(missing)} missing")
    return int(bool(wrong or missing))


if __name__ == "__main__":
    sys.exit(main())
