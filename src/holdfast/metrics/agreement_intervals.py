"""Intervals of the posterior agreement and of its inverse temperature, over samples.

A resample has no sample that the set has not, so near full agreement it hides what a few that differ would cost. For
the lower end one that differs is added to every resample, as sure as the median sample and with a random weight of 1 on
average. The maximum over β makes the agreement of few samples too large, and that of their resamples by as much again:
the interval is moved back by both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, stdtrit

from holdfast.core.intervals import CONFIDENCE
from holdfast.core.types import Score
from holdfast.metrics.agreement_curve import Array, LogitPair, Maximum
from holdfast.metrics.bootstrap_draws import resampled_sums

FEWEST_NODES, SPACING = 13, 0.25  # of the grid in ln β on which resamples are maximised
HEAVY = 4.0  # the weight of the added sample that one draw in fifty passes
ROUNDING = 1e-12  # of F, per sample

Maximised = Callable[[LogitPair], tuple[Maximum, ...]]


def intervals(
    pair: LogitPair, best: Maximum, all_maxima: tuple[Maximum, ...], *, resamples: int, seed: int, maximised: Maximised
) -> tuple[Score, Score]:
    """PA and β with their intervals: F of every resample along a grid of β, then a parabola about its largest point."""
    added = differing(pair)
    betas = _grid(pair, best, added, maximised)
    others = [each.beta for each in all_maxima if each is not best and 0 < each.beta < math.inf]
    apart = pair.gaps > 0
    ends = np.stack([np.where(apart, 0.0, pair.limits), apart], axis=1)
    sums = resampled_sums(np.hstack([pair.terms([*betas, *others]), ends]), resamples=resamples, seed=seed)
    # a resample in which every sample has a class that is largest on both sides has a limit at β = ∞
    limits = np.where(sums[:, -1] == 0, sums[:, -2], -math.inf)
    totals, where = _largest(sums[:, :-2], betas, others, pair.floor)
    higher = limits > totals + ROUNDING * pair.n
    totals, where = np.where(higher, limits, totals), np.where(higher, math.inf, where)

    weight = np.random.default_rng(seed).standard_exponential(resamples)
    more = sums[:, :-2] + weight[:, None] * added.terms([*betas, *others])
    size = 1 + weight / pair.n
    lowest, lower_where = _largest(more, betas, others, pair.floor * size)

    value = float(agreement_of_total(np.asarray(best.total), pair))
    moved = 2 * max(0.0, float(agreement_of_total(totals, pair).mean()) - value)
    tail = _tail(pair.n)
    low = max(0.0, float(np.quantile(agreement_of_total(lowest / size, pair), tail)) - moved)
    high = max(0.0, float(np.quantile(agreement_of_total(totals / size, pair), 1 - tail)) - moved)
    score = Score(value, min(low, value), max(high, value), pair.n)
    # a β may be infinite, and inf - inf is no number: no interpolation between order statistics
    small, large = (
        float(np.quantile(each, level, method="inverted_cdf"))
        for each, level in ((lower_where, tail), (where, 1 - tail))
    )
    return score, Score(best.beta, min(small, best.beta), max(large, best.beta), pair.n)


def _tail(n: int) -> float:
    """The share beyond each end: as far out as Student's t, for a resample of n spreads by (n - 1) / n too little."""
    reach = stdtrit(max(n - 1, 1), 0.5 + CONFIDENCE / 2) * math.sqrt(n / max(n - 1, 1))
    return float(ndtr(-reach))


def agreement_of_total(totals: Array, pair: LogitPair) -> Array:
    """F / N + ln K, without the rounding that would leave [0, ln K]."""
    largest = math.log(pair.classes)
    near = np.clip(totals / pair.n + largest, 0.0, largest)
    return np.where(near < ROUNDING, 0.0, near)


def differing(pair: LogitPair) -> LogitPair:
    """One sample on which both sides differ as far as the median sample would, its two largest logits exchanged.

    A sample on which they differ already stays as it is.
    """
    one, other = (np.asarray(side, dtype=np.float64) for side in (pair.one, pair.other))
    every = np.arange(pair.n)
    order = np.argsort(-other, axis=1, kind="stable")[:, :2]
    first, second = (np.where(pair.same, order[:, rank], order[:, 0]) for rank in (0, 1))
    turned = other.copy()
    turned[every, first], turned[every, second] = other[every, second], other[every, first]
    gaps = LogitPair(one, turned).gaps
    chosen = int(np.argsort(gaps, kind="stable")[pair.n // 2])
    return LogitPair(one[chosen : chosen + 1], turned[chosen : chosen + 1])


def _grid(pair: LogitPair, best: Maximum, added: LogitPair, maximised: Maximised) -> Array:
    """β that hold the maximum of nearly every resample, with and without the added sample."""
    centre = best.beta if 0 < best.beta < math.inf else 0.0
    slope, bend, error = _bends(pair, added, centre) if centre else (0.0, 0.0, math.inf)
    if bend < 0 and HEAVY * abs(slope) < -bend:
        lowest = centre * math.exp(HEAVY * slope / -bend)
    else:
        copies = round(HEAVY / 2)
        both = LogitPair(
            *(np.concatenate([a, *[b] * copies]) for a, b in ((pair.one, added.one), (pair.other, added.other)))
        )
        lowest = max(maximised(both), key=lambda each: each.total).beta
    known = [beta for beta in (centre, lowest) if 0 < beta < math.inf] or [1 / (pair.outline.spread or 1)]
    width = min(max(6 * error, 1e-3), math.log(16))
    low, high = math.log(min(known)) - width, math.log(max(known)) + width
    return np.exp(np.linspace(low, high, max(FEWEST_NODES, math.ceil((high - low) / SPACING) + 1)))


def _bends(pair: LogitPair, added: LogitPair, beta: float) -> tuple[float, float, float]:
    """In ln β: the slope of the added sample, the bend of F, and the standard error of the maximum."""
    near = [beta * (1 - 1e-4), beta, beta * (1 + 1e-4)]
    below, at, above = pair.terms(near).T
    slopes = (above - below) / 2e-4
    bend = float((below - 2 * at + above).sum()) / 1e-8
    extra = added.terms(near)[0]
    error = math.sqrt(float((slopes * slopes).sum())) / -bend if bend < 0 else math.inf
    return float(extra[2] - extra[0]) / 2e-4, bend, error


def _largest(values: Array, betas: Array, others: list[float], floor: float | Array) -> tuple[Array, Array]:
    """The largest F of each resample and its β: about the grid, at another maximum, or at β = 0."""
    totals, where = _peaks(np.log(betas), values[:, : len(betas)])
    for j, beta in enumerate(others, start=len(betas)):
        better = values[:, j] > totals
        totals, where = np.where(better, values[:, j], totals), np.where(better, beta, where)
    flat = totals < floor
    return np.where(flat, floor, totals), np.where(flat, 0.0, where)


def _peaks(log_betas: Array, values: Array) -> tuple[Array, Array]:
    """The top of the parabola through the largest point and its neighbours, per row; e to the place where it is."""
    every = np.arange(len(values))
    top = np.clip(values.argmax(axis=1), 1, len(log_betas) - 2)
    left, middle, right = (values[every, top + k] for k in (-1, 0, 1))
    bend = left - 2 * middle + right
    with np.errstate(divide="ignore", invalid="ignore"):
        move = np.where(bend < 0, (left - right) / (2 * bend), 0.0)
    move = np.clip(move, -1, 1)
    height = middle + move * (right - left) / 2 + move * move * bend / 2
    return np.maximum(height, values.max(axis=1)), np.exp(log_betas[top] + move * (log_betas[1] - log_betas[0]))
