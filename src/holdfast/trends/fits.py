"""Lines and planes through the scores of models: what one setting says about another.

Every choice that moves a number is an argument: the models fitted on, the space, cuts on accuracy, and what becomes of
an accuracy of exactly 0 or 1, which logit and probit send to infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import z_value
from holdfast.core.table import Table
from holdfast.core.types import Score, without_interval
from holdfast.trends.spaces import LOGIT, Floats, Space, fractions, on_edge, space_of

ZeroPolicy = Literal["piecewise", "clip", "drop"]
FEWEST = 10  # models: through fewer a line is uncertain
WEAK = 0.25  # R² below which x says little about y
CHANCE = 0.05  # how often models without any relation may reach this R²


@dataclass(frozen=True, slots=True)
class Cut:
    """Keeps the models whose scores under `settings` sum to `least` or more, in fractions."""

    settings: tuple[str, ...]
    least: float

    def __str__(self) -> str:
        return f"{' + '.join(self.settings)} ≥ {self.least:g}"


class LeftOut(NamedTuple):
    """A model that was asked for but not fitted on, and why."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class FitPoints:
    """What a fit is made of: fractions (models, k) and (models,), with the counts they rest on, 0 where unknown."""

    models: tuple[str, ...]
    x: Floats
    y: Floats
    x_counts: NDArray[np.int64]
    y_counts: NDArray[np.int64]
    left_out: tuple[LeftOut, ...] = ()
    clipped: tuple[str, ...] = ()

    def where(self, kept: NDArray[np.bool_]) -> FitPoints:
        models = tuple(compress(self.models, kept))
        x, y, x_counts, y_counts = self.x[kept], self.y[kept], self.x_counts[kept], self.y_counts[kept]
        return FitPoints(models, x, y, x_counts, y_counts, self.left_out, self.clipped)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A least-squares line (one `x`) or plane (several) in a space.

    `r2` is in the space of the fit, `r2_accuracy` and `mae` are of accuracies (fractions). `pearson` (in the space) and
    `kendall` relate x and y for a line, expected and observed for a plane. `spread` is the residual standard deviation
    in the space, `precision` the inverse of the normal matrix (intercept last): both for prediction intervals.
    """

    y: str
    x: tuple[str, ...]
    space: Space
    weights: Floats
    intercept: float
    r2: float
    r2_accuracy: float
    mae: float
    pearson: float
    kendall: float
    spread: float
    precision: Floats
    points: FitPoints

    @property
    def n(self) -> int:
        return len(self.points.models)

    @property
    def slope(self) -> float:
        if len(self.weights) != 1:
            raise Misuse(f"a plane over {len(self.weights)} settings has no slope", hint="read `weights`")
        return float(self.weights[0])

    def expected(self, x: Floats) -> Floats:
        """The accuracy the fit expects at accuracies x, (models, k), or (models,) for a line."""
        columns = as_columns(x, len(self.weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.space.inverse(self.space.forward(columns) @ self.weights + self.intercept)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why to read this fit with care, in words; none for a fit of many models that explains much."""
        return cautions(self.n, self.r2, len(self.weights))

    def record(self) -> dict[str, object]:
        """What a program reads."""
        return {
            "y": self.y,
            "x": list(self.x),
            "space": self.space.name,
            "weights": self.weights.tolist(),
            "intercept": self.intercept,
            "n": self.n,
            "r2": self.r2,
            "r2_accuracy": self.r2_accuracy,
            "mae": self.mae,
            "pearson": self.pearson,
            "kendall": self.kendall,
            "spread": self.spread,
            "left_out": [left._asdict() for left in self.points.left_out],
            "clipped": list(self.points.clipped),
            "cautions": list(self.cautions),
        }


def fit(
    table: Table,
    y: str,
    x: str | Sequence[str],
    *,
    space: str | Space = LOGIT,
    models: Iterable[str] | None = None,
    cuts: Sequence[Cut] = (),
    zero: Literal["clip", "drop"] | None = None,
    clip_at: float | None = None,
) -> Fit:
    """The line or plane of `y` on `x` over `models` (all of them where None).

    `zero` says what becomes of a score of exactly 0 or 1 in logit and probit space: `drop` leaves the model out of the
    fit, `clip` moves the score to `clip_at` from the edge, or to half a sample from it where the counts are known.
    Without it such a score is an error.
    """
    space, x = space_of(space), (x,) if isinstance(x, str) else tuple(x)
    points = chosen_points(table, y, x, models=models, cuts=cuts)
    return fit_points(without_edges(points, space, zero=zero, clip_at=clip_at), y=y, x=x, space=space)


def chosen_points(
    table: Table, y: str, x: Sequence[str], *, models: Iterable[str] | None = None, cuts: Sequence[Cut] = ()
) -> FitPoints:
    """The models of the fit set that pass every cut and have all values; the others are named with the reason."""
    chosen = table if models is None else table.of(models)
    names = (*x, y)
    values = fractions(
        np.stack([chosen.column(name) for name in names], axis=1), f"the scores under {', '.join(names)}"
    )
    counts = np.stack([chosen.count(name) for name in names], axis=1)
    reasons: dict[str, str] = {}
    for cut in cuts:
        total = np.sum([chosen.column(name) for name in cut.settings], axis=0)
        # NaN fails every comparison: a model without the score a cut is about does not pass it
        reasons |= {chosen.models[i]: f"not {cut}" for i in np.flatnonzero(~(total >= cut.least - 1e-12))}
    absent = np.isnan(values)
    for i in np.flatnonzero(absent.any(axis=1)):
        reasons.setdefault(chosen.models[i], f"no score under {names[int(absent[i].argmax())]}")
    kept = np.array([name not in reasons for name in chosen.models], dtype=bool)
    left_out = tuple(LeftOut(name, reasons[name]) for name in chosen.models if name in reasons)
    points = FitPoints(chosen.models, values[:, :-1], values[:, -1], counts[:, :-1], counts[:, -1], left_out)
    return points.where(kept)


def without_edges(points: FitPoints, space: Space, *, zero: str | None, clip_at: float | None) -> FitPoints:
    """The points with scores of 0 and 1 left out or moved inwards, as the policy says; named either way."""
    edge_x, edge_y = on_edge(points.x, space), on_edge(points.y, space)
    edge = edge_x.any(axis=1) | edge_y
    if not edge.any():
        return points
    names = tuple(points.models[i] for i in np.flatnonzero(edge))
    if zero is None:
        raise Misuse(
            f"{len(names)} of {len(edge)} models have a score of exactly 0 or 1, infinite in {space} space; "
            f"`{names[0]}` first",
            hint="choose a zero policy: drop, clip or piecewise",
        )
    if zero == "drop":
        dropped = tuple(LeftOut(name, "a score of exactly 0 or 1") for name in names)
        return replace(points.where(~edge), left_out=points.left_out + dropped)
    if zero != "clip":
        raise Misuse(f"`{zero}` is no policy for one fit", hint="drop or clip here; `trend` also takes piecewise")
    x = _clipped(points.x, points.x_counts, edge_x, clip_at)
    y = _clipped(points.y, points.y_counts, edge_y, clip_at)
    return replace(points, x=x, y=y, clipped=names)


def fit_points(points: FitPoints, *, y: str, x: tuple[str, ...], space: Space) -> Fit:
    """Ordinary least squares in the space, and how well it does there and in accuracy."""
    n, k = points.x.shape
    if n < k + 1:
        raise HoldfastError(
            f"a {'line' if k == 1 else 'plane'} of {y} on {', '.join(x)} needs {k + 1} models, got {n}",
            hint="; ".join(f"{left.model}: {left.reason}" for left in points.left_out[:3]) or None,
        )
    inputs, target = space.forward(points.x), space.forward(points.y)
    centre = inputs.mean(axis=0)
    centred = inputs - centre
    weights, _, rank, _ = np.linalg.lstsq(centred, target - target.mean(), rcond=None)
    if rank < k or np.ptp(inputs, axis=0).min() < 1e-12:
        raise HoldfastError(f"the scores under {', '.join(x)} do not vary independently over the {n} models")
    intercept = float(target.mean() - centre @ weights)
    fitted = inputs @ weights + intercept
    accuracy = space.inverse(fitted)
    residual = target - fitted
    design = np.column_stack([inputs, np.ones(n)])
    left, right = (points.x[:, 0], points.y) if k == 1 else (accuracy, points.y)
    freedom = n - k - 1
    return Fit(
        y=y,
        x=x,
        space=space,
        weights=np.asarray(weights, dtype=np.float64),
        intercept=intercept,
        r2=_explained(target, residual),
        r2_accuracy=_explained(points.y, points.y - accuracy),
        mae=float(np.abs(points.y - accuracy).mean()),
        pearson=pearson(inputs[:, 0] if k == 1 else fitted, target),
        kendall=kendall(left, right),
        spread=float(np.sqrt((residual**2).sum() / freedom)) if freedom else float("nan"),
        precision=np.linalg.inv(design.T @ design),
        points=points,
    )


def cautions(n: int, r2: float, k: int = 1) -> tuple[str, ...]:
    """What to know before a line (k = 1) or plane over n models is believed, in words."""
    what = "line" if k == 1 else "plane"
    texts = []
    if n < FEWEST:
        texts.append(f"fitted on {n} models: fewer than {FEWEST} do not determine a {what}")
    if np.isnan(r2):
        texts.append(f"R² is not defined: the scores to explain do not vary, and the {what} says nothing")
    elif r2 < near_zero(n, k):
        may = ", and may be chance" if r2 < _by_chance(n, k) else ""
        texts.append(f"R² {r2:.2f} is near 0 for {n} models: the {what} explains little{may}")
    return tuple(texts)


def near_zero(n: int, k: int = 1) -> float:
    """The R² below which a fit over n models explains little: `WEAK`, or what chance reaches where that is more."""
    return max(WEAK, _by_chance(n, k))


def _by_chance(n: int, k: int) -> float:
    """The R² that models without any relation reach in 5 % of cases (F test); 0 where every fit is exact."""
    freedom = n - k - 1
    if freedom < 1:
        return 0.0
    ratio = k * float(fdtri(k, freedom, 1 - CHANCE))
    return ratio / (ratio + freedom)


def as_columns(x: Floats, k: int) -> Floats:
    """Accuracies as (models, k)."""
    x = np.asarray(x, dtype=np.float64)
    columns = x[:, None] if x.ndim == 1 and k == 1 else np.atleast_2d(x)
    if columns.shape[-1] != k:
        raise Misuse(f"the fit has {k} inputs, got an array of shape {np.shape(x)}")
    return columns


def pearson(one: Floats, other: Floats) -> float:
    """Pearson's correlation over the pairs that have both values; NaN for fewer than two or a constant."""
    both = np.isfinite(one) & np.isfinite(other)
    a, b = one[both], other[both]
    if len(a) < 2 or not np.ptp(a) or not np.ptp(b):  # a mean may round away from what is constant
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / size, -1, 1)) if size > 0 else float("nan")


def correlation(r: float, n: int) -> Score:
    """Pearson's r over n models with Fisher's interval; none for fewer than four models."""
    if n < 4 or math.isnan(r):
        return without_interval(r, n, "a correlation over fewer than four models")
    if abs(r) >= 1:
        return without_interval(r, n, "the models lie on a line exactly")
    centre, half = math.atanh(r), z_value() / math.sqrt(n - 3)
    return Score(r, math.tanh(centre - half), math.tanh(centre + half), n)


def explained(r: Score) -> Score:
    """R² of a line from Pearson's r and its interval."""
    if not r.has_interval:
        return without_interval(r.value**2, r.n, r.why)
    low, high = sorted((r.low**2, r.high**2))
    return Score(r.value**2, 0.0 if r.low < 0 < r.high else low, high, r.n)


def kendall(one: Floats, other: Floats) -> float:
    """Kendall's τ-b over the pairs that have both values; NaN where nothing can be ranked."""
    from scipy.stats import kendalltau  # takes a second to import

    both = np.isfinite(one) & np.isfinite(other)
    return float(kendalltau(one[both], other[both]).statistic) if both.sum() > 1 else float("nan")


def _clipped(values: Floats, counts: NDArray[np.int64], edge: NDArray[np.bool_], clip_at: float | None) -> Floats:
    if clip_at is None and (counts[edge] == 0).any():
        raise Misuse("a score of exactly 0 or 1 has no count to clip by", hint="give clip_at, such as 1e-4")
    if clip_at is not None and not 0 < clip_at < 0.5:
        raise Misuse(f"`clip_at` lies between 0 and 1/2, got {clip_at}")
    margin = 0.5 / np.maximum(counts, 1) if clip_at is None else np.full(values.shape, clip_at)
    return np.where(edge, np.clip(values, margin, 1 - margin), values)


def _explained(target: Floats, residual: Floats) -> float:
    total = ((target - target.mean()) ** 2).sum()
    return float(1 - (residual**2).sum() / total) if np.ptp(target) else float("nan")
