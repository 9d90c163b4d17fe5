"""Posterior agreement: the exact maximum against the authors' Adam procedure, in one run on one thread.

    OMP_NUM_THREADS=1 python benchmarks/agreement.py
    git clone https://github.com/viictorjimenezzz/pa-metric
    OMP_NUM_THREADS=1 python benchmarks/agreement.py --authors pa-metric

Without --authors their procedure is timed as we write it (numpy, no automatic differentiation), which is faster than
theirs. With it their own kernel runs, as their metric runs it (β from 1, Adam at 0.1, batches of 16 in order, best
epoch); batches are cut beforehand, so that their loading of data is not timed. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.metrics.agreement import BATCH, RATE, START, adam_maximum, checked, maxima

Logits = NDArray[np.float32]


class Optimum(NamedTuple):
    """A maximum, and how long it took to find."""

    beta: float
    total: float
    seconds: float


def logits(n: int, classes: int, *, noise: float, seed: int = 0) -> tuple[Logits, Logits]:
    """A classifier's logits before and after a change that moves each by `noise`."""
    random = np.random.default_rng(seed)
    one = random.normal(size=(n, classes))
    one[np.arange(n), random.integers(0, classes, n)] += 6
    other = one + noise * random.normal(size=one.shape)
    return one.astype(np.float32), other.astype(np.float32)


def two_maxima() -> tuple[Logits, Logits]:
    """Logits whose F has two maxima: three samples agree with ±10, one disagrees with ±3, 200 agree with ±0.1."""
    size = np.array([10.0] * 3 + [3.0] + [0.1] * 200, dtype=np.float32)
    sign = np.where(np.arange(len(size)) == 3, -1, 1).astype(np.float32)
    return np.stack([size, -size], axis=1), np.stack([sign * size, -sign * size], axis=1)


def exact(one: Logits, other: Logits, repeat: int) -> Optimum:
    """The exact maximum in the fewest seconds of a few runs, checks of the input included."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        found = max(maxima(checked(one, other)), key=lambda each: each.total)
        seconds.append(time.process_time() - start)
    return Optimum(found.beta, found.total, min(seconds))


def timed(job: Callable[[], tuple[float, float]]) -> Optimum:
    start = time.process_time()
    beta, total = job()
    return Optimum(beta, total, time.process_time() - start)


def authors_kernel(folder: Path) -> Callable[..., Any]:
    """The kernel of a checkout of the authors' code; the rest of their package is not loaded."""
    spec = importlib.util.spec_from_file_location("authors_kernel", folder / "pametric" / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel: Callable[..., Any] = module.PosteriorAgreementKernel
    return kernel


def authors_maximum(folder: Path, one: Logits, other: Logits, *, epochs: int) -> tuple[float, float]:
    """The β and F of the best epoch by the authors' kernel; F as it reports it, summed in single precision."""
    import torch

    kernel = authors_kernel(folder)(beta0=START)
    optimizer = torch.optim.Adam([kernel.beta], lr=RATE)
    batches = list(zip(*(torch.from_numpy(side).split(BATCH) for side in (one, other)), strict=True))
    best = (START, -math.inf)
    for _ in range(epochs):
        for batch in batches:
            loss = kernel(*batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        beta = max(kernel.beta.item(), 0.0)
        kernel.reset()
        for batch in batches:
            kernel.evaluate(*batch, beta)
        total = kernel.log_posterior().item()
        if total > best[1]:
            best = (beta, total)
    return best


def compared(what: str, one: Logits, other: Logits, chosen: argparse.Namespace) -> None:
    """Both maxima of the same logits, the ratio of their times, and how much higher the exact F is."""
    ours, pair = exact(one, other, chosen.repeat), checked(one, other)
    if chosen.authors is None:
        whose = "as we write theirs"
        theirs = timed(lambda: adam_maximum(pair, epochs=chosen.epochs))
    else:
        whose = "theirs"
        theirs = timed(lambda: authors_maximum(chosen.authors, one, other, epochs=chosen.epochs))
    higher = ours.total - pair.value(theirs.beta)
    print(
        f"{what}: exact {1000 * ours.seconds:.1f} ms (β {ours.beta:.4f}, F {ours.total:.4f}), {chosen.epochs} epochs "
        f"{whose} {theirs.seconds:.1f} s (β {theirs.beta:.4f}, F {theirs.total:.4f}): "
        f"{theirs.seconds / ours.seconds:,.0f}x, F higher by {higher:.3g} than at their β",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--authors", type=Path, help="a checkout of the authors' pa-metric")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.75, 1.5, 3.0])
    chosen = parser.parse_args()

    for n, classes in ((10_000, 10), (10_000, 1_000)):
        found = exact(*logits(n, classes, noise=1.5), chosen.repeat)
        print(f"{n:,} x {classes:,}: {1000 * found.seconds:8.1f} ms  β {found.beta:.4f}  F {found.total:.4f}")
    if chosen.authors is not None:  # what torch loads at first use is not theirs
        authors_maximum(chosen.authors, *two_maxima(), epochs=1)
    compared("two maxima", *two_maxima(), chosen)
    for noise in chosen.noise:
        compared(f"10,000 x 10, noise {noise}", *logits(10_000, 10, noise=noise), chosen)


if __name__ == "__main__":
    main()
