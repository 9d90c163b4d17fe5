"""The posterior agreement of two sets of logits as a function of the inverse temperature, with its derivatives.

Notation of the posterior agreement paper: for sample i with logits S' and S'', and inverse temperature β,
g_i(β) = LSE(β(S' + S'')) - LSE(βS') - LSE(βS''), the logarithm of the overlap of the two softmaxes; F = Σ_i g_i.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP = math.sqrt(2)  # of a ladder; g_i changes on the scale of a factor e in β
_SQUARINGS = 6  # before a chain starts afresh: the rounding error stays below 2⁶ units in the last place
_BLOCK = 65_536  # logits of one side worked on at once: half a megabyte, so that a block stays in the cache
_KEPT = 2_000_000  # logits of one side of which the blocks are kept between passes: 48 MB
_FAR = 300.0  # exp(-300)² is still a normal float64; beyond, the product of two softmaxes would underflow


class Curve(NamedTuple):
    """F and its first two derivatives at some β."""

    value: float
    slope: float
    bend: float


class Maximum(NamedTuple):
    """A maximum of F and where it is."""

    beta: float
    total: float


class Ladder(NamedTuple):
    """F and F' at powers of the step."""

    betas: Array
    values: Array
    slopes: Array


class Outline(NamedTuple):
    """What bounds F.

    `gaps`: max S' + max S'' - max(S' + S'') per sample. `reach`: Σ_i min over both sides of (largest - mean logit), so
    that F(β) ≤ F(0) + β · reach by Jensen's inequality. `spread`: the widest range of logits in any sample. `bend`:
    F''(0), twice the covariance of the two sides over classes, summed over samples.
    """

    gaps: Array
    reach: float
    spread: float
    bend: float


class _Block(NamedTuple):
    """Some samples, classes first: logits below their own largest one, their sum, and the gap between the tops."""

    one: Array
    other: Array
    total: Array
    gap: Array


@dataclass(frozen=True, eq=False)
class LogitPair:
    """Two sets of logits of the same samples, (samples, classes) each."""

    one: NDArray[np.floating]
    other: NDArray[np.floating]

    @property
    def n(self) -> int:
        return len(self.one)

    @property
    def classes(self) -> int:
        return int(self.one.shape[1])

    @property
    def floor(self) -> float:
        """F at β = 0, where both posteriors are uniform."""
        return -self.n * math.log(self.classes)

    def part(self, size: int) -> LogitPair:
        """About `size` of the samples, spread evenly."""
        step = max(1, self.n // size)
        return LogitPair(self.one[::step], self.other[::step])

    @property
    def gaps(self) -> Array:
        """max S' + max S'' - max(S' + S'') per sample: 0 where a class is largest in both, else how far off."""
        return self.outline.gaps

    @cached_property
    def same(self) -> NDArray[np.bool_]:
        """Whether both sides predict the same class, which of equal logits is the first."""
        return np.asarray(self.one.argmax(axis=1) == self.other.argmax(axis=1))

    @cached_property
    def outline(self) -> Outline:
        """What bounds F, from one pass over the logits."""
        gaps: list[Array] = []
        reach, spread, bend = 0.0, 0.0, 0.0
        for block in self._blocks():
            one, other = (side.mean(axis=0) for side in (block.one, block.other))
            gaps.append(block.gap)
            reach -= float(np.maximum(one, other).sum())
            spread = max(spread, -float(block.one.min()), -float(block.other.min()))
            product = np.einsum("kn,kn->n", block.one, block.other) / self.classes
            bend += 2 * float((product - one * other).sum())
        return Outline(np.concatenate(gaps), reach, spread, bend)

    @cached_property
    def limits(self) -> Array:
        """g_i at β = ∞: -∞ where no class is largest in both, 0 where one alone is, below 0 where several tie."""
        tied = np.concatenate([_tied_limits(block) for block in self._blocks()])
        return np.where(self.gaps > 0, -math.inf, tied)

    @property
    def limit(self) -> float:
        """F at β = ∞."""
        return float(self.limits.sum())

    def curve(self, beta: float) -> Curve:
        """F, F' and F'' at β > 0."""
        made = np.zeros(3)
        for block in self._blocks():
            mine, theirs = np.exp(beta * block.one), np.exp(beta * block.other)
            made += [part.sum() for part in _terms(block, beta, mine, theirs, bend=True)]
        return Curve(*map(float, made))

    def value(self, beta: float) -> float:
        """F at β ≥ 0."""
        return float(self.terms([beta]).sum())

    def ladder(self, first: int, last: int) -> Ladder:
        """F and F' at the powers `first` to `last` of the step."""
        powers = np.arange(first, last + 1)
        betas = STEP ** powers.astype(np.float64)
        made = np.zeros((2, len(betas)))
        for block in self._blocks():
            for j, (mine, theirs) in _exponentials(block, betas):
                value, slope, _ = _terms(block, float(betas[j]), mine, theirs, bend=False)
                made[:, j] += value.sum(), slope.sum()
        return Ladder(betas, made[0], made[1])

    def terms(self, betas: Sequence[float] | Array) -> Array:
        """g_i at each β ≥ 0, (samples, betas)."""
        made = np.empty((self.n, len(betas)))
        start = 0
        for block in self._blocks():
            stop = start + len(block.gap)
            for j, beta in enumerate(betas):
                mine, theirs = np.exp(beta * block.one), np.exp(beta * block.other)
                made[start:stop, j] = _terms(block, float(beta), mine, theirs, bend=False)[0]
            start = stop
        return made

    @cached_property
    def _kept(self) -> list[_Block]:
        return list(self._made())

    def _blocks(self) -> Iterable[_Block]:
        return self._kept if self.one.size <= _KEPT else self._made()

    def _made(self) -> Iterator[_Block]:
        step = max(1, _BLOCK // self.classes)
        for start in range(0, self.n, step):
            one, other = (
                np.array(side[start : start + step].T, dtype=np.float64, order="C") for side in (self.one, self.other)
            )
            one -= one.max(axis=0)
            other -= other.max(axis=0)
            # equal predictions have a gap of exactly 0: the sum at the shared top is 0 + 0
            total = one + other
            yield _Block(one, other, total, -total.max(axis=0))


def _exponentials(block: _Block, betas: Array) -> Iterator[tuple[int, tuple[Array, Array]]]:
    """exp(β · logits) of both sides, rung by rung in an order of its own.

    Two steps double β, and exp(2x) is the square of exp(x): a product costs a twentieth of an exponential. A chain
    starts afresh every few squarings, as each doubles the relative rounding error.
    """
    for odd in range(min(2, len(betas))):
        for count, j in enumerate(range(odd, len(betas), 2)):
            if count % _SQUARINGS == 0:
                mine, theirs = (np.exp(betas[j] * side) for side in (block.one, block.other))
            else:
                np.multiply(mine, mine, out=mine)
                np.multiply(theirs, theirs, out=theirs)
            yield j, (mine, theirs)


def _terms(block: _Block, beta: float, mine: Array, theirs: Array, *, bend: bool) -> tuple[Array, Array, Array]:
    """g_i, g_i' and g_i'' of every sample in a block, from exp(β · logits) of both sides."""
    one, other, total, gap = block
    both = mine * theirs
    value = np.zeros_like(gap)
    far = beta * gap > _FAR
    if far.any():
        both[:, far] = np.exp(beta * (total[:, far] + gap[far]))
        value[far] = -beta * gap[far]
    slope, curvature = np.zeros_like(gap), np.zeros_like(gap)
    ones = np.ones(len(one))
    weighted = np.empty_like(both)
    for weights, logits, sign in ((both, total, 1.0), (mine, one, -1.0), (theirs, other, -1.0)):
        mass = ones @ weights
        np.multiply(weights, logits, out=weighted)
        mean = (ones @ weighted) / mass
        value += sign * np.log(mass)
        slope += sign * mean
        if bend:
            np.multiply(weighted, logits, out=weighted)
            curvature += sign * ((ones @ weighted) / mass - mean * mean)
    return value, slope, curvature


def _tied_limits(block: _Block) -> Array:
    """Of the classes that are largest on either side, the share that both have: ln of the overlap at β = ∞."""
    both, mine, theirs = ((side == 0).sum(axis=0) for side in (block.total, block.one, block.other))
    return np.asarray(np.log(np.maximum(both, 1)) - np.log(mine) - np.log(theirs))
