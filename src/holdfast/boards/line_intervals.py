"""How far a share lies above a known line through another share: all distances that a score test does not reject.

The test of Miettinen and Nurminen (1985) for a difference of two shares, with a curve in place of the other share. For
every distance there is a most likely pair of shares. These pairs lie on a curve with one parameter, the other share;
each end of the interval is where the test statistic along the curve reaches 1.96. Two shares on the same samples vary
together: the pairs stay, the variance has their correlation (Boos 1992, "generalized score tests").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import z_value
from holdfast.trends.spaces import Space

HALVINGS = 40
FURTHEST = 30.0  # in logits or normal quantiles: 1e-13 and less from 0 or 1
STEP = 1e-4  # of the slope by differences
SURE = 1e18  # the count of a share without an interval of its own

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats, Floats]  # values, low, high


class StatedLine(NamedTuple):
    """A line in a space with edges, `weight` not 0: what a standard accuracy makes expect of a shifted one."""

    weight: float
    intercept: float
    space: Space

    def expected(self, at: Floats) -> Floats:
        return np.asarray(self.space.inverse(self._moved(at)))

    def slope(self, at: Floats) -> Floats:
        """How fast the expected share grows with the standard share, at a place in the space."""
        return np.asarray(self.weight * _growth(self._moved(at), self.space) / _growth(at, self.space))

    def _moved(self, at: Floats) -> Floats:
        return np.clip(self.weight * at + self.intercept, -FURTHEST, FURTHEST)


def interval_above(
    line: StatedLine, shifted: Bounds, standard: Bounds, correlation: float | Floats
) -> tuple[Floats, Floats]:
    """Low and high of shifted shares minus what the line expects; NaN where the standard share is 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        start = line.space.forward(standard[0])
        counts = counts_of(shifted), counts_of(standard)
        ends = [np.sign(line.weight) * side * FURTHEST * np.ones_like(start) for side in (1, -1)]
        low, high = (_end(line, shifted[0], standard[0], counts, start, end, correlation) for end in ends)
    known = np.isfinite(start) & np.isfinite(shifted[0])
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def counts_of(bounds: Bounds) -> Floats:
    """How many samples Wilson's interval with continuity correction has these bounds for; the fewer of its two ends."""
    value, z = bounds[0], z_value()
    counts = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for end in bounds[1:]:
            reach, variance = np.abs(end - value), z * z * end * (1 - end)
            both = reach + variance
            count = (both + np.sqrt(both * both - reach * reach)) / (2 * reach * reach)
            counts.append(np.where((reach > 0) & (variance > 0), count, SURE))
    return np.where(np.isnan(bounds[1] + bounds[2]), np.nan, np.minimum(*counts))


def _end(
    line: StatedLine,
    value: Floats,
    other: Floats,
    counts: tuple[Floats, Floats],
    inner: Floats,
    outer: Floats,
    correlation: float | Floats,
) -> Floats:
    """The distance at which the test begins to reject, from `inner`, where nothing is rejected, to `outer`."""
    n, m = counts
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        share, rest, slope = line.space.inverse(middle), line.space.inverse(-middle), line.slope(middle)
        likely = _most_likely(value, n, (share - other) * m / (share * rest * slope))
        own, its = np.sqrt(likely * (1 - likely) / n), slope * np.sqrt(share * rest / m)
        gap = value - likely - slope * (other - share)
        is_held = gap * gap <= z_value() ** 2 * (own * own - 2 * correlation * own * its + its * its)
        inner, outer = np.where(is_held, middle, inner), np.where(is_held, outer, middle)
    share, slope = line.space.inverse(inner), line.slope(inner)
    likely = _most_likely(value, n, (share - other) * m / (share * line.space.inverse(-inner) * slope))
    return np.where(np.isnan(n + m), np.nan, likely - line.expected(inner))


def _most_likely(value: Floats, n: Floats, pull: Floats) -> Floats:
    """The share at which the likelihood of `value` of `n` falls by `pull`: n (value - p) = pull p (1 - p)."""
    middle = pull + n
    root = np.sqrt(np.maximum(middle * middle - 4 * pull * n * value, 0.0))
    return np.clip(np.where(middle > 0, 2 * n * value / (middle + root), (middle - root) / (2 * pull)), 0.0, 1.0)


def _growth(at: Floats, space: Space) -> Floats:
    """The slope of the map back to shares, which is as steep on either side of a half."""
    near = -np.abs(at)
    return np.asarray((space.inverse(near + STEP) - space.inverse(near - STEP)) / (2 * STEP))
