"""Our corruptions against the published generators: same images, every severity.

    python benchmarks/parity/corruptions.py --package FOLDER --scripts FOLDER --dataset REF [--ladder imagenet]
        [--samples 200] [--draws 2] [--only fog,snow] [--json FILE]

--package holds `corruptions.py` and `frost/` of `imagecorruptions` (release or head; it needs scikit-image, opencv and,
for the head, numba), --scripts the generators of github.com/hendrycks/robustness (ImageNet-C/create_c). The ladder
`imagenet` is compared with the package, but elastic-transform and frost, which the package defines otherwise, with
`make_imagenet_c.py`; the ladder `cifar` with `make_cifar_c.py`. ImageMagick's motion blur is the package's in both.

Both sides truncate to 8 bits, as published (motion blur of the ladder `cifar` rounds, as ImageMagick does). What draws
nothing must give the same images: the mean absolute difference is shown, in units of 1/255. What draws must give the
same changes in distribution. Of the change (after - before) three figures: `mean`, how far the means lie apart, as a
share of the published root mean square; `spread`, the ratio of the standard deviations, less 1; `spectrum`, the ratio
of the power in the worst of eight bands of frequency that hold at least 2 % of it, as an amplitude (square root), less
1. `noise` is the largest of the same three figures between two runs of the published generator: what its own randomness
comes to on so many images. A figure passes within 3 %, or within 1.5 times that noise. Exits with 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from generators import NAMES, Generator, as_bytes, of_package, of_scripts
from numpy.typing import NDArray
from subject import batch_of

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch

PLAIN = ("brightness", "contrast", "saturate", "pixelate", "jpeg", "defocus-blur", "gaussian-blur", "zoom-blur")
SCRIPTED = ("elastic-transform", "frost")
BANDS = 8
SHARE = 0.02
TOLERANCE, OWN_NOISE = 0.03, 1.5


class Change(NamedTuple):
    """What a change of many images comes to."""

    mean: float
    spread: float
    bands: NDArray[Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--ladder", default="imagenet", choices=["imagenet", "cifar"])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    peers = published(chosen)
    batch = batch_of(chosen.dataset, chosen.samples)
    print(f"{chosen.dataset}, {len(batch)} images of {batch.images.shape[2]} pixels, ladder {chosen.ladder}")
    print(
        f"{'corruption':20}{'severity':>9}{'difference':>12}{'mean':>9}{'spread':>9}{'spectrum':>10}{'noise':>8}{'ms':>9}{'ours':>7}"
    )
    failed, records = [], []
    for name in chosen.only.split(","):
        for severity in range(1, 6):
            record = compared(name, severity, peers[name], batch, chosen)
            records.append(record)
            if not record["passes"]:
                failed.append(f"{name} {severity}")
    if chosen.json:
        chosen.json.write_text(json.dumps(records, indent=1))
    if failed:
        raise SystemExit(f"differ: {', '.join(failed)}")


def published(chosen: argparse.Namespace) -> dict[str, Generator]:
    scripts = of_scripts(chosen.scripts / f"make_{chosen.ladder}_c.py", chosen.package)
    if chosen.ladder == "cifar":
        return scripts
    return {**of_package(chosen.package), **{name: scripts[name] for name in SCRIPTED}}


def compared(name: str, severity: int, peer: Generator, batch: Batch, chosen: argparse.Namespace) -> dict[str, Any]:
    """One line of the table."""
    plain = name in PLAIN
    draws = 1 if plain else chosen.draws
    before = (batch.images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    rounds = name == "motion-blur" and chosen.ladder == "cifar"  # ImageMagick does
    quantise = "round" if rounds else "truncate"
    ref = f"{name}:severity={severity},ladder={chosen.ladder},quantise={quantise}"
    change = registry.build(registry.bind("corruption", ref))
    began, mine = time.perf_counter(), []
    for draw in range(draws):
        made = change(None, batch, Noise.of(draw, batch.ids), width=len(batch)).images
        mine.append((made * 255).round().permute(0, 2, 3, 1).numpy())
    middle, theirs = time.perf_counter(), []
    for draw in range(draws if plain else 2 * draws):
        np.random.seed(draw)  # noqa: NPY002 - the generators use the global state
        theirs.append(np.stack([as_bytes(peer, image, severity) for image in before]).astype(np.float32))
    ended = time.perf_counter()
    speeds = [1e3 * seconds / len(before) for seconds in ((ended - middle) / len(theirs), (middle - began) / draws)]
    record: dict[str, Any] = {"corruption": name, "severity": severity, "ms": speeds}
    if plain:
        difference = float(np.abs(mine[0] - theirs[0]).mean())
        record |= {"difference": difference, "passes": difference <= 1.0}
        print(f"{name:20}{severity:9}{difference:12.3f}{'':36}{speeds[0]:9.1f}{speeds[1]:7.1f}", flush=True)
        return record
    ours = figures([image - before for image in mine])
    first, second = (figures([image - before for image in theirs[start::2]]) for start in (0, 1))
    both = figures([image - before for image in theirs])
    apart, noise = gaps(ours, both), gaps(first, second)
    limit = max(TOLERANCE, OWN_NOISE * max(noise))
    record |= dict(zip(("mean", "spread", "spectrum"), apart, strict=True))
    record |= {"noise": max(noise), "passes": max(apart) <= limit}
    mark = "" if record["passes"] else "  <<"
    print(
        f"{name:20}{severity:9}{'':12}{apart[0]:9.3f}{apart[1]:9.3f}{apart[2]:10.3f}{max(noise):8.3f}"
        f"{speeds[0]:9.1f}{speeds[1]:7.1f}{mark}",
        flush=True,
    )
    return record


def figures(changes: list[NDArray[Any]]) -> Change:
    """Mean, standard deviation and power by bands of frequency, over everything."""
    every = np.concatenate(changes)
    total = np.zeros((every.shape[1], every.shape[2] // 2 + 1))
    for part in np.array_split(every, max(1, len(every) // 50)):
        total += (np.abs(np.fft.rfft2(part, axes=(1, 2))) ** 2).sum(axis=(0, 3))
    power = total / len(every)
    radius = np.hypot(np.fft.fftfreq(every.shape[1])[:, None], np.fft.rfftfreq(every.shape[2])[None])
    edges = 0.5 * 2.0 ** -np.arange(BANDS - 1, -1, -1)
    band = np.digitize(radius, edges)
    band[0, 0] = -1  # the mean has a figure of its own
    bands = np.array([power[band == i].sum() for i in range(BANDS + 1)])
    return Change(float(every.mean()), float(every.std()), bands)


def gaps(one: Change, other: Change) -> tuple[float, float, float]:
    """How far one lies from the other, as the three figures of the table."""
    size = float(np.hypot(other.mean, other.spread)) or 1.0
    heavy = other.bands > SHARE * other.bands.sum()
    worst = np.abs(np.sqrt(one.bands[heavy] / other.bands[heavy]) - 1).max() if heavy.any() else 0.0
    return abs(one.mean - other.mean) / size, abs(one.spread / (other.spread or 1.0) - 1), float(worst)


if __name__ == "__main__":
    main()
