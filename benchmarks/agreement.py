"""Posterior agreement: the exact maximum against the authors' Adam procedure, in one run on one thread.

    OMP_NUM_THREADS=1 python benchmarks/agreement.py

Their procedure is timed as we write it (numpy, no automatic differentiation), which is faster than theirs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from holdfast.metrics.agreement import checked, maxima
from holdfast.metrics.agreement_adam import adam_maximum

Logits = NDArray[np.float32]


def logits(n: int, classes: int, *, noise: float, seed: int = 0) -> tuple[Logits, Logits]:
    """A classifier's logits before and after a change that moves each by `noise`."""
    random = np.random.default_rng(seed)
    one = random.normal(size=(n, classes))
    one[np.arange(n), random.integers(0, classes, n)] += 6
    other = one + noise * random.normal(size=one.shape)
    return one.astype(np.float32), other.astype(np.float32)


def best(one: Logits, other: Logits, repeat: int) -> tuple[float, float, float]:
    """Fewest seconds, β and F of the exact maximum, checks of the input included."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        found = max(maxima(checked(one, other)), key=lambda each: each.total)
        seconds.append(time.perf_counter() - start)
    return min(seconds), found.beta, found.total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()

    for n, classes in ((10_000, 10), (10_000, 1_000)):
        one, other = logits(n, classes, noise=1.5)
        seconds, beta, total = best(one, other, chosen.repeat)
        print(f"{n:,} x {classes:,}: {1000 * seconds:8.1f} ms  β {beta:.4f}  F {total:.4f}")

    for noise in (0.75, 1.5, 3.0):
        one, other = logits(10_000, 10, noise=noise)
        seconds, beta, total = best(one, other, chosen.repeat)
        start = time.perf_counter()
        their_beta, their_total = adam_maximum(checked(one, other), epochs=chosen.epochs)
        theirs = time.perf_counter() - start
        print(
            f"10,000 x 10, noise {noise}: exact {1000 * seconds:.1f} ms (β {beta:.4f}, F {total:.4f}), "
            f"{chosen.epochs} epochs {theirs:.1f} s (β {their_beta:.4f}, F {their_total:.4f}): "
            f"{theirs / seconds:,.0f}x, F higher by {total - their_total:.3g}"
        )


if __name__ == "__main__":
    main()
