"""Expected calibration error without the bias of finite samples, with an interval, and the bins it is made of.

The plain value (arXiv:1706.04599) sums absolute gaps, so that chance in the bins adds to it: 1,000 samples of a
calibrated model show 4 points. Here the observed value is compared with those that models of a known calibration error
show on the same confidences: the debiased value is the error at which the observed one is the median, and the interval
holds the errors at which it lies between the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE, wilson, z_value
from holdfast.core.types import Score
from holdfast.metrics.bootstrap_draws import RESAMPLES

Array = NDArray[np.float64]
Path = Callable[[float], Array]  # gaps between accuracy and confidence by bin, 0 at 0 and growing

BINS = 15  # arXiv:1706.04599
HALVINGS = 12
FURTHEST = 64.0  # along a path: by then every bin has reached an accuracy of 0 or 1, or needs no more
ROUNDING = 1e-9


class ReliabilityBin(NamedTuple):
    """A bar of a reliability diagram: mean confidence of the samples in (`low`, `high`], and how many are right."""

    low: float
    high: float
    confidence: float
    accuracy: Score


class CalibrationError(NamedTuple):
    """The debiased error with its interval, the plain one, and the bins of both; bins without samples are left out."""

    debiased: Score
    plain: float
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True)
class _Binned:
    """Samples by bin of confidence: how many, how many of them right, and their mean confidence."""

    counts: NDArray[np.int64]
    right: NDArray[np.int64]
    confidence: Array
    draws: int

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def shares(self) -> Array:
        return self.counts / self.n

    @property
    def plain(self) -> float:
        return float(np.abs(self.right - self.counts * self.confidence).sum() / self.n)

    @cached_property
    def gaps(self) -> Array:
        """Accuracy minus confidence; one sample of the stated accuracy is added, so that no bin is sure of 0 or 1."""
        return (self.right + self.confidence) / (self.counts + 1) - self.confidence

    @cached_property
    def errors(self) -> Array:
        """The standard error of each gap, at the stated or the observed accuracy, whichever is more."""
        share = self.confidence + self.gaps
        return np.sqrt(np.maximum(share * (1 - share), self.confidence * (1 - self.confidence)) / self.counts)

    def error_of(self, gaps: Array) -> float:
        return float(self.shares @ np.abs(self._possible(gaps)))

    def drawn(self, gaps: Array) -> Array:
        """Plain errors that a model with these gaps shows on the same confidences."""
        accuracy = np.clip(self.confidence + gaps, 0, 1)
        right = np.random.default_rng(0).binomial(self.counts, accuracy, (self.draws, len(accuracy)))
        return np.asarray(np.abs(right - self.counts * self.confidence).sum(axis=1) / self.n)

    def _possible(self, gaps: Array) -> Array:
        return np.clip(self.confidence + gaps, 0, 1) - self.confidence


def calibration_error(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_], *, bins: int = BINS, resamples: int = RESAMPLES
) -> CalibrationError:
    """Of confidences in [0, 1], by bins of equal width; `resamples=0` leaves the interval out."""
    if bins < 1:
        raise Misuse(f"`bins` is 1 or more, got {bins}")
    if not len(confidence):
        return CalibrationError(Score(math.nan, math.nan, math.nan, 0), math.nan, ())
    index = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    used = np.flatnonzero(counts)
    right, sums = (np.bincount(index, weights=values, minlength=bins)[used] for values in (correct, confidence))
    binned = _Binned(counts[used], right.astype(np.int64), sums / counts[used], resamples or RESAMPLES)
    bars = tuple(
        ReliabilityBin(i / bins, (i + 1) / bins, float(mean), wilson(int(hits), int(counts[i])))
        for i, mean, hits in zip(used, binned.confidence, binned.right, strict=True)
    )
    return CalibrationError(_debiased(binned, with_interval=resamples > 0), binned.plain, bars)


def _debiased(binned: _Binned, *, with_interval: bool) -> Score:
    """The error whose models show the observed value in the median, and those that show it within the tails."""
    tail = (1 - CONFIDENCE) / 2
    near, evenly, few = _shrunk(binned), _spread(binned), _few_bins(binned)
    value = _first(binned, near, lambda drawn, seen: _share_above(drawn, seen) >= 0.5)
    if not with_interval:
        return Score(binned.error_of(near(value)), math.nan, math.nan, binned.n)
    low = _first(binned, few, lambda drawn, seen: float((drawn >= seen - ROUNDING).mean()) > tail)
    high = _first(binned, evenly, lambda drawn, seen: float((drawn <= seen + ROUNDING).mean()) <= tail)
    return _with_weights(binned, near(value), binned.error_of(few(low)), binned.error_of(evenly(high)))


def _with_weights(binned: _Binned, gaps: Array, low: float, high: float) -> Score:
    """The interval for these confidences, widened by the chance in which of them came (Zou & Donner 2008, "MOVER")."""
    value = binned.error_of(gaps)
    sizes = np.abs(binned._possible(gaps))
    spread = z_value() * math.sqrt(max(0.0, float(binned.shares @ sizes**2) - value**2) / binned.n)
    below, above = math.hypot(max(0.0, value - low), spread), math.hypot(max(0.0, high - value), spread)
    return Score(value, max(0.0, value - below), min(1.0, max(value + above, binned.plain)), binned.n)


def _share_above(drawn: Array, seen: float) -> float:
    """Share of draws above the observed value; a draw equal to it counts half."""
    return float((drawn > seen + ROUNDING).mean() + (drawn >= seen - ROUNDING).mean()) / 2


def _first(binned: _Binned, path: Path, is_reached: Callable[[Array, float], bool]) -> float:
    """Where along a path a condition begins to hold that holds from there on; the path's end where it never does."""
    low, high = 0.0, 1.0
    if is_reached(binned.drawn(path(0.0)), binned.plain):
        return 0.0
    while not is_reached(binned.drawn(path(high)), binned.plain):
        low, high = high, 2 * high
        if low >= FURTHEST:
            return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = is_reached(binned.drawn(path(middle)), binned.plain)
        low, high = (low, middle) if reached else (middle, high)
    return (low + high) / 2


# Which gaps make up an error of a given size is not known. The value takes those observed, less what chance explains;
# the lower end takes the fewest bins, where chance adds most, the upper one spreads it over all, where chance hides it.


def _shrunk(binned: _Binned) -> Path:
    """Gaps beyond a number of standard errors that falls to 0 at 1; beyond 1 the observed gaps grow."""
    steps = np.abs(binned.gaps) / np.maximum(binned.errors, ROUNDING)

    def path(t: float) -> Array:
        left = np.maximum(steps - max(0.0, 1 - t) * steps.max(), 0.0) / np.maximum(steps, ROUNDING)
        return np.asarray(max(1.0, t) * left * binned.gaps)

    return path


def _few_bins(binned: _Binned) -> Path:
    """The observed gaps one after the other, those furthest beyond chance first; all at 1, growing from there on."""
    order = np.argsort(-np.abs(binned.gaps) / np.maximum(binned.errors, ROUNDING), kind="stable")
    rank = np.argsort(order, kind="stable")
    return lambda t: np.asarray(max(1.0, t) * np.clip(t * len(rank) - rank, 0, 1) * binned.gaps)


def _spread(binned: _Binned) -> Path:
    """Gaps as large as observed and a standard error more; where their sign is chance, to the side with more room."""
    size = np.hypot(binned.gaps, binned.errors)
    is_chance = np.abs(binned.gaps) < z_value() * binned.errors
    side = np.where(is_chance, np.where(binned.confidence >= 0.5, -1.0, 1.0), np.sign(binned.gaps))
    return lambda t: np.asarray(t * side * size)
