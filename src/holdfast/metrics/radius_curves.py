"""Accuracy against radius, and its mean over radii, from the smallest radius that broke each sample."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.means import DRAWS, mean_of_values
from holdfast.metrics.multi_attack import CLEAN, Strength
from holdfast.store.rows import Rows

RADII = ("radii", "radius")  # parameters of an attack that say how far it searches


class RadiusCurve(NamedTuple):
    """Accuracy at each radius, and the area under the curve up to the last, as a share of the largest possible."""

    radii: tuple[float, ...]
    accuracies: tuple[Score, ...]
    area: Score


def radius_curve(rows: Rows, radii: Sequence[float] | None = None, *, resamples: int = DRAWS) -> RadiusCurve:
    """The share of samples that no radius up to r broke, at each r.

    By default r is every radius that broke some sample, and the largest that was searched. A sample that was wrong
    without the attack has radius 0; one without a usable answer is wrong at any radius.
    """
    smallest = smallest_radii(rows)
    if radii is None:
        largest = common_radius([rows])
        radii = [*(float(radius) for radius in np.unique(smallest) if radius < np.float32(largest)), largest]
    chosen = tuple(sorted(float(radius) for radius in radii))
    if not chosen or chosen[0] < 0:
        raise Misuse("a curve takes radii of 0 or more")
    _check_reach(rows, chosen[-1])
    scores = tuple(wilson(int(_stands(smallest, radius).sum()), len(smallest)) for radius in chosen)
    return RadiusCurve(chosen, scores, _area(smallest, chosen[-1], resamples))


def searched_radius(rows: Rows) -> float | None:
    """The largest radius up to which the run's attack looked; None where its parameters set no limit, as for `fmn`."""
    for change in reversed(rows.footer.changes):
        for name in RADII:
            numbers = [float(number) for number in np.atleast_1d(change.args.get(name) or ()) if _is_number(number)]
            if change.kind == "attack" and numbers:
                return max(numbers) if math.isfinite(max(numbers)) else None
    return None


def common_radius(runs: Sequence[Rows]) -> float:
    """The largest radius up to which every one of the runs was searched: areas up to it can be compared."""
    searched = [searched_radius(rows) for rows in runs]
    for rows, radius in zip(runs, searched, strict=True):
        if radius is None:
            raise HoldfastError(
                f"run {rows.footer.key} names no largest radius that was searched",
                hint="say up to which radius: `area-under-radius-curve:radius=8/255`",
            )
    return min(radius for radius in searched if radius is not None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reaches(rows: Rows, radius: float) -> bool:
    """Whether the run looked that far: a sample unbroken at the largest searched radius may break at the next."""
    searched = searched_radius(rows)
    return searched is None or radius <= searched * (1 + 1e-6)  # a radius may come back from float32


def _check_reach(rows: Rows, radius: float) -> None:
    if not _reaches(rows, radius):
        searched = searched_radius(rows)
        raise HoldfastError(
            f"run {rows.footer.key} was searched up to radius {searched:g}, what happens at {radius:g} is not known",
            hint=f"ask for {searched:g} at most, or evaluate a sweep that goes further",
        )


def accuracies_at(rows: Rows, attack: str, strengths: Sequence[float]) -> dict[Strength, float]:
    """The cells of a battery from one sweep: no attack, and the attack at each strength."""
    smallest = smallest_radii(rows)
    _check_reach(rows, max(strengths, default=0.0))
    cells = {CLEAN: float((smallest > 0).mean())}
    for strength in strengths:
        cells[Strength(attack, float(strength))] = float(_stands(smallest, strength).mean())
    return cells


def stands(rows: Rows, radius: float) -> NDArray[np.bool_]:
    """Which samples of a sweep a radius does not break."""
    return _stands(smallest_radii(rows), radius)


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
    """Area under accuracy against radius, as a share of the largest possible, up to the largest radius searched.

    `radius` sets another end, the same for all runs. None without radii, where a run was not searched up to `radius`,
    and where none is given and the attack looked without a limit (`fmn`, `fab`).
    """

    def __init__(self, *, radius: float | None = None) -> None:
        if radius is not None and not 0 < radius < math.inf:
            raise Misuse(f"`radius` is more than zero and finite, got {radius}")
        self.radius = radius

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        end = self.radius or searched_radius(rows)
        if end is None or not _reaches(rows, end) or np.isnan(rows.floats("radius")).all():
            return None
        return radius_curve(rows, [end]).area

    def remark(self, runs: Sequence[Rows]) -> str:
        """What to know before areas of these runs are compared: nothing where those of one threat end at one radius."""
        ends_by_threat: dict[str, set[float]] = defaultdict(set)
        for rows in () if self.radius is not None else runs:
            end = searched_radius(rows)
            if end is not None and not np.isnan(rows.floats("radius")).all():
                ends_by_threat[_apart_from_radii(rows)].add(end)
        for ends in map(sorted, ends_by_threat.values()):
            if len(ends) > 1:
                listed = ", ".join(f"{end:g}" for end in ends)
                return (
                    f"the runs were searched up to different radii ({listed}): compare them with `radius={ends[0]:g}`"
                )
        return ""


def _apart_from_radii(rows: Rows) -> str:
    """The scenario of a run without its radii: runs that have it in common were searched along one axis."""
    footer = rows.footer
    changes = [(change.name, {k: v for k, v in change.args.items() if k not in RADII}) for change in footer.changes]
    return f"{footer.dataset} {changes}"


def _area(smallest: NDArray[np.float64], largest: float, resamples: int) -> Score:
    # ∫ share(radius > r) dr over [0, R] is the mean of min(radius, R): no quadrature
    shares = np.minimum(smallest, largest) / largest if largest > 0 else (smallest > 0).astype(np.float64)
    return mean_of_values(shares, draws=resamples)
