"""Posterior agreement: how much two sets of logits of the same samples say the same, at the best common temperature.

No labels are needed, and the logits may be of any modality: clean and attacked, two domains, two models. The maximum
over the inverse temperature is found exactly. The objective is not concave, as the paper's Theorem 3.3 has it: it can
have several maxima, so every bracket of a scan is refined and the largest counts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.types import Score, without_interval
from holdfast.metrics.agreement_curve import STEP, Array, Ladder, LogitPair, Maximum
from holdfast.metrics.agreement_intervals import agreement_of_total, intervals
from holdfast.metrics.bootstrap_draws import RESAMPLES

ONE_SAMPLE = "one sample does not tell how samples differ"
MODES = ("exact", "adam")
EPOCHS = 500  # of the paper's adversarial experiments; 1000 in its domain experiments
PROBES = 50_000  # logits on which the first guess is made: of 64 samples at least, 512 at most
CLOSE = 1e-5  # of β: the error left by a Newton step this small is its square
ITERATIONS = 200
LARGEST = 1e150  # no β beyond: its square would overflow
START, RATE, BATCH = 1.0, 0.1, 16  # the authors' β0, learning rate and batch
DECAY, DECAY_SQUARED, SMALL = 0.9, 0.999, 1e-8  # Adam's own defaults, arXiv:1412.6980


class Side(NamedTuple):
    """One end of a bracket, F and F' there."""

    beta: float
    value: float
    slope: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """The posterior agreement of two sets of logits.

    `score` lies in [0, ln classes], in nats per sample; `beta` is the inverse temperature of the maximum (inf where
    all predictions agree), with its interval; `total` is the unnormalised F ≤ 0 of the paper's plots; `maxima` are all
    local ones, so that more than one tells that a local search may stop at the wrong one.
    """

    score: Score
    beta: Score
    total: float
    classes: int
    same: Score
    maxima: tuple[Maximum, ...]
    mode: str

    @property
    def share(self) -> float:
        """The agreement as a share of the largest possible, ln classes."""
        return self.score.value / math.log(self.classes)

    def record(self) -> dict[str, object]:
        """Flat and plain, for CSV and JSON. An infinite β is the text `inf`: JSON has no such number."""
        flat = self.score.flat("pa") | self.beta.flat("beta") | self.same.flat("afr_p")
        return {
            **{name: None if math.isnan(x) else "inf" if x == math.inf else x for name, x in flat.items()},
            "f": self.total,
            "n": self.score.n,
            "classes": self.classes,
            "share_of_largest": self.share,
            "mode": self.mode,
            "maxima": [{"beta": "inf" if beta == math.inf else beta, "f": total} for beta, total in self.maxima],
        }


def posterior_agreement(
    one: ArrayLike,
    other: ArrayLike,
    *,
    mode: str = "exact",
    resamples: int = RESAMPLES,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> Agreement:
    """PA = max over β ≥ 0 of F(β) / N + ln K, with a bootstrap interval over samples.

    `mode="adam"` repeats the authors' optimiser instead (β from 1, learning rate 0.1, batches of 16, best epoch), for
    comparison with their curves. `resamples=0` leaves the intervals out.
    """
    pair = checked(one, other)
    if mode not in MODES:
        raise Misuse(f"a mode is {' or '.join(MODES)}, got `{mode}`")
    if mode == "adam":
        all_maxima: tuple[Maximum, ...] = (adam_maximum(pair, epochs=epochs),)
    else:
        all_maxima = maxima(pair)
    best = max(all_maxima, key=lambda each: each.total)
    value = float(agreement_of_total(np.asarray(best.total), pair))
    same = wilson(int(pair.same.sum()), pair.n)
    if not resamples:
        score, beta = (Score(number, math.nan, math.nan, pair.n) for number in (value, best.beta))
    elif pair.n == 1:
        score, beta = (without_interval(number, 1, ONE_SAMPLE) for number in (value, best.beta))
    else:
        score, beta = intervals(pair, best, all_maxima, resamples=resamples, seed=seed, maximised=maxima)
    return Agreement(score, beta, best.total, pair.classes, same, all_maxima, mode)


def checked(one: ArrayLike, other: ArrayLike) -> LogitPair:
    """Two sets of logits that can be compared, or an error that says why not."""
    sides = [_floats(side) for side in (one, other)]
    for which, side in zip(("first", "second"), sides, strict=True):
        if side.ndim != 2:
            raise Misuse(f"logits are samples x classes, the {which} set has {side.ndim} dimensions: {side.shape}")
        if side.shape[1] < 2:
            raise Misuse(
                f"the {which} set of logits has one column, it takes two classes at least",
                hint="give one logit per class; for a single score s of two classes, use the columns 0 and s",
            )
        if not len(side):
            raise Misuse(f"the {which} set of logits has no samples")
        bad = ~np.isfinite(side).all(axis=1)
        if bad.any():
            raise HoldfastError(
                f"{int(bad.sum())} of {len(side)} samples of the {which} set have logits that are NaN or infinite, "
                f"row {int(bad.argmax())} first",
                hint="drop these samples from both sets, and say how many",
            )
    if sides[0].shape != sides[1].shape:
        shapes = " and ".join(f"{n} x {k}" for n, k in (side.shape for side in sides))
        raise Misuse(
            f"the two sets of logits differ in shape: {shapes} (samples x classes)",
            hint="both must be of the same samples, in the same order, over the same classes",
        )
    return LogitPair(*sides)


def maxima(pair: LogitPair) -> tuple[Maximum, ...]:
    """Every local maximum of F over β ≥ 0 that could be the global one, in order of β."""
    if pair.limit == 0:
        return (Maximum(math.inf, 0.0),)
    probe = _probe(pair)
    best = max(pair.floor, pair.limit, pair.value(probe))
    local = [_refined(pair, *bracket) for bracket in _brackets(pair, pair.ladder(*_rungs(*_range(pair, best))))]
    if pair.limit > -math.inf:
        local.append(Maximum(math.inf, pair.limit))
    if pair.outline.bend <= 0 or not local:
        local.insert(0, Maximum(0.0, pair.floor))
    return tuple(local)


def _probe(pair: LogitPair) -> float:
    """Where F is largest for a part of the samples, roughly: only to narrow the range of the scan."""
    part = pair.part(min(max(64, PROBES // pair.classes), 512))
    ladder = part.ladder(*_rungs(*_range(part, part.floor)))
    top = int(ladder.values.argmax())
    return float(ladder.betas[top]) if ladder.values[top] > part.floor else 0.0


def _range(pair: LogitPair, best: float) -> tuple[float, float]:
    """The β outside of which F is surely below `best`.

    Below: F(β) ≤ F(0) + β · reach. Above: g_i ≤ 0 where the predictions agree, g_i ≤ ln K - β · gap_i where not.
    """
    gaps, reach, spread, _ = pair.outline
    if spread == 0:
        return 0.5, 1.0
    smallest = 1e-3 / spread  # below it F is a parabola, whose sign is checked apart
    low = max(smallest, (best - pair.floor) / reach if reach > 0 else smallest)
    apart = gaps[gaps > 0]
    # with ties only F is flat by 1e6 / spread, unless logits differ by less than a millionth of their range
    high = (len(apart) * math.log(pair.classes) - best) / float(apart.sum()) if len(apart) else 1e6 / spread
    return low, min(max(high, 2 * low), LARGEST)


def _rungs(low: float, high: float) -> tuple[int, int]:
    """Whole powers of the step that enclose the range: the same points for any order of the samples."""
    first = math.floor(math.log(low, STEP))
    return first, max(math.ceil(math.log(high, STEP)), first + 1)


def _brackets(pair: LogitPair, ladder: Ladder) -> list[tuple[Side, Side]]:
    """Neighbouring β between which F' turns from positive to negative."""
    sides = [Side(*map(float, side)) for side in zip(*ladder, strict=True)]
    if pair.outline.bend > 0:
        sides.insert(0, Side(0.0, pair.floor, math.inf))  # F' is 0 at 0 itself, and positive just above
    return [(low, high) for low, high in itertools.pairwise(sides) if low.slope > 0 >= high.slope]


def _refined(pair: LogitPair, left: Side, right: Side) -> Maximum:
    """Newton on F' = 0 inside a bracket; a step that leaves it, or would go to a minimum, halves it instead."""
    low, high = left.beta, right.beta
    beta = high / 2 if math.isinf(left.slope) else _cubic_top(left, right)
    for _ in range(ITERATIONS):
        value, slope, bend = pair.curve(beta)
        low, high = (beta, high) if slope > 0 else (low, beta)
        step = -slope / bend if bend < 0 else math.inf
        if abs(step) <= CLOSE * beta:
            return Maximum(beta + step, value + slope * step / 2)
        beta = beta + step if low < beta + step < high else (low + high) / 2
    return Maximum(beta, pair.value(beta))


def _cubic_top(left: Side, right: Side) -> float:
    """Where the cubic in ln β with these values and slopes is largest: a start for Newton within a thousandth."""
    width = math.log(right.beta / left.beta)
    rise = (right.value - left.value) / width
    first, last = left.slope * left.beta, right.slope * right.beta
    # the derivative along the bracket, from 0 to 1, is first + 2·b·x + 3·c·x²
    b, c = 3 * rise - 2 * first - last, first + last - 2 * rise
    root = math.sqrt(max(b * b - 3 * c * first, 0.0))
    top = first / (root - b) if root > b else 0.5
    return left.beta * math.exp(width * min(max(top, 0.01), 0.99))


def _floats(side: ArrayLike) -> NDArray[np.floating]:
    array = np.asarray(side)
    if array.dtype.kind not in "fiub":
        raise Misuse(f"logits are numbers, got {array.dtype}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def adam_maximum(pair: LogitPair, *, epochs: int) -> Maximum:
    """The best epoch of the optimiser of the posterior agreement paper, for comparison with its curves.

    It stops at the first maximum it meets, and short of one far away.

    Differs from the published code: F of an epoch is taken at the β with which the epoch ends, on all samples.
    """
    batches = [_batch(pair, start) for start in range(0, pair.n, BATCH)]
    beta, first, second, steps = START, 0.0, 0.0, 0
    best = Maximum(beta, pair.value(beta))
    for _ in range(epochs):
        for one, other in batches:
            steps += 1
            slope = -_slope(one, other, beta)
            first += (1 - DECAY) * (slope - first)
            second += (1 - DECAY_SQUARED) * (slope * slope - second)
            size = math.sqrt(second / (1 - DECAY_SQUARED**steps)) + SMALL
            beta = max(beta - RATE * first / (1 - DECAY**steps) / size, 0.0)
        total = pair.value(beta)
        if total > best.total:
            best = Maximum(beta, total)
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
