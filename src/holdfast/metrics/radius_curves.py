"""Accuracy against radius, from the smallest radius that broke each sample; and accuracy under several attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.accuracy import worst_case
from holdfast.metrics.averages import average_accuracy
from holdfast.metrics.multi_attack import CLEAN, Strength
from holdfast.metrics.resampling import RESAMPLES, percentiles, resampled_sums
from holdfast.store.rows import Rows


class RadiusCurve(NamedTuple):
    """Accuracy at each radius, and the area under the curve up to the last, as a share of the largest possible."""

    radii: tuple[float, ...]
    accuracies: tuple[Score, ...]
    area: Score


def radius_curve(rows: Rows, radii: Sequence[float] | None = None, *, resamples: int = RESAMPLES) -> RadiusCurve:
    """The share of samples that no radius up to r broke, at each r (default: every radius that broke some sample).

    A sample that was wrong without the attack has radius 0; one without a usable answer is wrong at any radius.
    """
    smallest = smallest_radii(rows)
    if radii is None:
        found = np.unique(smallest[np.isfinite(smallest)])
        radii = [float(radius) for radius in found] or [0.0]
    chosen = tuple(sorted(float(radius) for radius in radii))
    if not chosen or chosen[0] < 0:
        raise Misuse("a curve takes radii of 0 or more")
    scores = tuple(wilson(int(_stands(smallest, radius).sum()), len(smallest)) for radius in chosen)
    return RadiusCurve(chosen, scores, _area(smallest, chosen[-1], resamples))


def accuracies_at(rows: Rows, attack: str, strengths: Sequence[float]) -> dict[Strength, float]:
    """The cells of a battery from one sweep: no attack, and the attack at each strength."""
    smallest = smallest_radii(rows)
    cells = {CLEAN: float((smallest > 0).mean())}
    for strength in strengths:
        cells[Strength(attack, float(strength))] = float(_stands(smallest, strength).mean())
    return cells


def _stands(smallest: NDArray[np.float64], radius: float) -> NDArray[np.bool_]:
    """Which samples a radius does not break. Rows hold float32, where 0.1 is a little more than 0.1."""
    return smallest > float(np.float32(radius))


def smallest_radii(rows: Rows) -> NDArray[np.float64]:
    """Smallest radius that broke each sample, inf where none did, 0 where it never was right."""
    radii = rows.floats("radius")
    if np.isnan(radii).all():
        raise HoldfastError(
            f"run {rows.footer.key} has no radii", hint="evaluate a sweep or a minimal attack: they look for the radius"
        )
    return np.where(np.isnan(radii), 0.0, radii)


@register("metric", "area-under-radius-curve")
class AreaUnderRadiusCurve:
    """Area under accuracy against radius, up to the largest radius that broke a sample; None without radii."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        return None if np.isnan(rows.floats("radius")).all() else radius_curve(rows).area


class UnionAverage(NamedTuple):
    """Accuracy under the worst of several attacks for each sample, and the mean accuracy over them."""

    union: Score
    average: Score


def union_and_average(runs: Sequence[Rows], *, resamples: int = RESAMPLES) -> UnionAverage:
    """Of several runs on the same samples; the average is resampled over samples, with all attacks on one together."""
    return UnionAverage(worst_case(runs), average_accuracy(runs, resamples=resamples))


def _area(smallest: NDArray[np.float64], largest: float, resamples: int) -> Score:
    # ∫ share(radius > r) dr over [0, R] is the mean of min(radius, R): no quadrature
    shares = np.minimum(smallest, largest) / largest if largest > 0 else (smallest > 0).astype(np.float64)
    sums = resampled_sums(shares[:, None], resamples=resamples)[:, 0]
    return percentiles(float(shares.mean()), sums / len(shares), len(shares))
