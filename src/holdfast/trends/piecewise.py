"""Two lines that meet nothing: for a set chosen so that one model scores 0 on it, such as ImageNet-A."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.table import Table
from holdfast.trends.fits import Fit, FitPoints, LeftOut, ZeroPolicy, chosen_points, fit, fit_points
from holdfast.trends.spaces import LOGIT, Floats, Space, on_edge, space_of


@dataclass(frozen=True, slots=True, eq=False)
class Piecewise:
    """One line up to the pivot's x, that x included, and another above it; the pivot is in neither."""

    left: Fit
    right: Fit
    pivot: float
    pivot_models: tuple[str, ...]

    @property
    def y(self) -> str:
        return self.left.y

    @property
    def x(self) -> tuple[str, ...]:
        return self.left.x

    @property
    def space(self) -> Space:
        return self.left.space

    @property
    def n(self) -> int:
        return self.left.n + self.right.n

    def expected(self, x: Floats) -> Floats:
        """The accuracy expected at accuracies x."""
        x = np.asarray(x, dtype=np.float64).ravel()
        return np.where(np.isnan(x), np.nan, self.by_side(x, self.left.expected(x), self.right.expected(x)))

    def by_side(self, x: Floats, left: Floats, right: Floats) -> Floats:
        """What either line says, each at the accuracies x on its own side."""
        return np.where(x <= self.pivot, left, right)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why to read either side with care, in words."""
        sides = (("up to the pivot", self.left), ("above the pivot", self.right))
        return tuple(f"{where}: {text}" for where, side in sides for text in side.cautions)

    def record(self) -> dict[str, object]:
        """What a program reads."""
        return {
            "pivot": self.pivot,
            "pivot_models": list(self.pivot_models),
            "left": self.left.record(),
            "right": self.right.record(),
            "cautions": list(self.cautions),
        }


Trend = Fit | Piecewise


def fit_trend(
    table: Table,
    y: str,
    x: str | Sequence[str],
    *,
    space: str | Space = LOGIT,
    models: Iterable[str] | None = None,
    zero: ZeroPolicy | None = None,
) -> Trend:
    """A fit under any zero policy; `piecewise` splits only where a score of 0 makes it necessary."""
    if zero != "piecewise":
        return fit(table, y, x, space=space, models=models, zero=zero)
    names = (x,) if isinstance(x, str) else tuple(x)
    chosen_space = space_of(space)
    points = chosen_points(table, y, names, models=models)
    if not on_edge(points.y, chosen_space).any() and not on_edge(points.x, chosen_space).any():
        return fit_points(points, y=y, x=names, space=chosen_space)
    if len(names) != 1:
        raise Misuse("a plane has no pivot to split at", hint="use the zero policy drop or clip")
    return split_fit(points, y=y, x=names, space=chosen_space)


def split_fit(points: FitPoints, *, y: str, x: tuple[str, ...], space: Space) -> Piecewise:
    """A line on each side of the one x at which a model scores 0."""
    edge = on_edge(points.y, space)
    pivots = np.unique(points.x[edge, 0])
    if len(pivots) != 1 or (points.y[edge] >= 1).any() or on_edge(points.x, space).any():
        raise Misuse(
            f"a piecewise fit splits where one model scores exactly 0; {int(edge.sum())} of {len(edge)} models have an "
            f"extreme score under {y}, and {int(on_edge(points.x, space).sum())} under {x[0]}",
            hint="use the zero policy drop or clip",
        )
    pivot = float(pivots[0])
    names = tuple(points.models[i] for i in np.flatnonzero(edge))
    # a second model at the pivot's x is on neither side: the published fit excludes by x, not by name
    at_pivot = tuple(
        LeftOut(points.models[i], "at the pivot of a piecewise fit") for i in np.flatnonzero(points.x[:, 0] == pivot)
    )
    points = replace(points, left_out=points.left_out + at_pivot)
    sides = (points.x[:, 0] < pivot, points.x[:, 0] > pivot)
    left, right = (fit_points(points.where(side), y=y, x=x, space=space) for side in sides)
    return Piecewise(left, right, pivot, names)
