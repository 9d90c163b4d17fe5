"""The optimiser of the posterior agreement paper, for comparison with its curves; `agreement` is exact."""

from __future__ import annotations

import math

import numpy as np

from holdfast.metrics.agreement_curve import Array, LogitPair

START, RATE, BATCH = 1.0, 0.1, 16  # the authors' β0, learning rate and batch
DECAY, DECAY_SQUARED, SMALL = 0.9, 0.999, 1e-8  # Adam's own defaults, arXiv:1412.6980


def adam_maximum(pair: LogitPair, *, epochs: int) -> tuple[float, float]:
    """The β ≥ 0 and F of the best epoch; it stops at the first maximum it meets, and short of one far away.

    Differs from the published code: F of an epoch is taken at the β with which the epoch ends, on all samples.
    """
    batches = [_batch(pair, start) for start in range(0, pair.n, BATCH)]
    beta, first, second, steps = START, 0.0, 0.0, 0
    best = (beta, pair.value(beta))
    for _ in range(epochs):
        for one, other in batches:
            steps += 1
            slope = -_slope(one, other, beta)
            first += (1 - DECAY) * (slope - first)
            second += (1 - DECAY_SQUARED) * (slope * slope - second)
            size = math.sqrt(second / (1 - DECAY_SQUARED**steps)) + SMALL
            beta = max(beta - RATE * first / (1 - DECAY**steps) / size, 0.0)
        total = pair.value(beta)
        if total > best[1]:
            best = (beta, total)
    return best


def _batch(pair: LogitPair, start: int) -> tuple[Array, Array]:
    one, other = (np.asarray(side[start : start + BATCH], dtype=np.float64) for side in (pair.one, pair.other))
    return one - one.max(axis=1, keepdims=True), other - other.max(axis=1, keepdims=True)


def _slope(one: Array, other: Array, beta: float) -> float:
    """Mean derivative of g_i over a batch."""
    total = one + other
    top = total.max(axis=1, keepdims=True)
    made = 0.0
    for logits, shift, sign in ((total, top, 1.0), (one, 0.0, -1.0), (other, 0.0, -1.0)):
        weights = np.exp(beta * (logits - shift))
        made += sign * float(((weights * logits).sum(axis=1) / weights.sum(axis=1)).mean())
    return made
