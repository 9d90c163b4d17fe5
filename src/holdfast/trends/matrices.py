"""How well scores explain each other over models: Pearson's r and R² of every pair, and what weak models add."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse, unknown
from holdfast.core.table import Table
from holdfast.trends.bootstrap import correlations
from holdfast.trends.fits import cautions, correlation, explained
from holdfast.trends.spaces import LINEAR, Floats, Space, fractions, on_edge, space_of

MEASURES = ("r2", "pearson")
ACCURACY, ROBUSTNESS = "-accuracy", "-robustness"  # how the settings of a shift end
KINDS = ("Acc-Acc", "Rob-Rob", "Acc-Rob", "Rob-Acc")  # arXiv:2310.12793: without the shift first, under it second


class Shift(NamedTuple):
    """A shift by the settings of its clean and its robust accuracy; None where one was not measured."""

    name: str
    accuracy: str | None
    robustness: str | None


class R2Matrix(NamedTuple):
    """R² per kind and shift, (kinds, shifts), with Fisher's interval and the models in each."""

    kinds: tuple[str, ...]
    shifts: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    def record(self) -> list[dict[str, object]]:
        """One record per cell."""
        return [
            {"kind": kind, "shift": shift, **_cell_record(self, "r2", i, j)}
            for i, kind in enumerate(self.kinds)
            for j, shift in enumerate(self.shifts)
        ]


class Matrix(NamedTuple):
    """One measure of every pair of settings, (x, y), with its interval and the models in each."""

    measure: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    def record(self) -> list[dict[str, object]]:
        """One record per cell, with what to know before it is believed."""
        return [
            {"x": x, "y": y, **_cell_record(self, self.measure, i, j), "cautions": list(self.cautions(i, j))}
            for i, x in enumerate(self.x)
            for j, y in enumerate(self.y)
        ]

    def cautions(self, i: int, j: int) -> tuple[str, ...]:
        value = float(self.values[i, j])
        return cautions(int(self.n[i, j]), value if self.measure == "r2" else value**2)


def _cell_record(made: R2Matrix | Matrix, measure: str, i: int, j: int) -> dict[str, object]:
    bounds = {"low": float(made.low[i, j]), "high": float(made.high[i, j])}
    return {measure: float(made.values[i, j]), **bounds, "n": int(made.n[i, j])}


def matrix(
    table: Table,
    x: Sequence[str],
    y: Sequence[str],
    *,
    measure: str = "r2",
    space: str | Space = LINEAR,
    models: Iterable[str] | None = None,
) -> Matrix:
    """Pearson's r, or R², of every y with every x over the models that have both, with Fisher's interval.

    NaN below three models.
    """
    if measure not in MEASURES:
        raise unknown("matrix", measure, MEASURES)
    space = space_of(space)
    chosen = table if models is None else table.of(models)
    across = _in_space(np.stack([chosen.column(name) for name in y], axis=1), space, ", ".join(y))
    made = [_row(_in_space(chosen.column(name)[:, None], space, name), across, measure) for name in x]
    return Matrix(measure, tuple(x), tuple(y), *map(np.stack, zip(*made, strict=True)))


def _row(x: Floats, y: Floats, measure: str) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """One x against every y: values, bounds by Fisher's interval, and models; NaN below three models."""
    n = (np.isfinite(x) & np.isfinite(y)).sum(axis=0)
    values = np.where(n >= 3, correlations(x, y)[0], np.nan)
    scores = [correlation(float(r), int(k)) for r, k in zip(values, n, strict=True)]
    if measure == "r2":
        scores = [explained(score) for score in scores]
    value, low, high = (np.array([getattr(score, part) for score in scores]) for part in ("value", "low", "high"))
    return value, low, high, n


def shifts_of(settings: Iterable[str]) -> list[Shift]:
    """The shifts that settings belong to: `ood-d-accuracy` and `ood-d-robustness` are those of `ood-d`."""
    shifts: dict[str, Shift] = {}
    for name in settings:
        ending = ROBUSTNESS if name.endswith(ROBUSTNESS) else ACCURACY
        shift = name.removesuffix(ending)
        one = shifts.get(shift, Shift(shift, None, None))
        shifts[shift] = one._replace(**{ending[1:]: name})
    return list(shifts.values())


def r2_matrix(
    table: Table,
    shifts: Sequence[Shift],
    *,
    accuracy: str,
    robustness: str,
    space: str | Space = LINEAR,
    models: Iterable[str] | None = None,
    least: float | None = None,
) -> R2Matrix:
    """R² of the lines from accuracy and robustness to accuracy and robustness under each shift.

    `least` keeps the models whose accuracy + robustness reach it (1.10 in the paper). Cells with fewer than three
    models are NaN. A score of exactly 0 or 1 is an error in logit and probit space: no cell is dropped unseen.
    """
    space = space_of(space)
    chosen = table if models is None else table.of(models)
    if least is not None:
        chosen = chosen.where(chosen.column(accuracy) + chosen.column(robustness) >= least - 1e-12)
    inputs = {"Acc": chosen.column(accuracy), "Rob": chosen.column(robustness)}
    blank = np.full(len(chosen.models), np.nan)
    outputs = {
        "Acc": [blank if shift.accuracy is None else chosen.column(shift.accuracy) for shift in shifts],
        "Rob": [blank if shift.robustness is None else chosen.column(shift.robustness) for shift in shifts],
    }
    rows = []
    for kind in KINDS:
        one, other = kind.split("-")
        x = _in_space(inputs[one][:, None], space, kind)
        y = _in_space(np.stack(outputs[other], axis=1), space, kind)
        rows.append(_row(x, y, "r2"))
    return R2Matrix(KINDS, tuple(shift.name for shift in shifts), *map(np.stack, zip(*rows, strict=True)))


def r2_by_threshold(
    table: Table,
    shifts: Sequence[Shift],
    thresholds: Sequence[float | None],
    *,
    accuracy: str,
    robustness: str,
    space: str | Space = LINEAR,
    models: Iterable[str] | None = None,
) -> dict[float | None, R2Matrix]:
    """The same matrix as more and more weak models are left out; None is everybody."""
    names = None if models is None else list(models)
    made = partial(r2_matrix, table, shifts, accuracy=accuracy, robustness=robustness, space=space, models=names)
    return {least: made(least=least) for least in thresholds}


def _in_space(values: Floats, space: Space, kind: str) -> Floats:
    edge = on_edge(fractions(values, kind), space)
    if edge.any():
        raise Misuse(
            f"{int(edge.sum())} scores of {kind} are exactly 0 or 1, infinite in {space} space",
            hint="use the linear space, as the published matrices do, or leave those models out",
        )
    return space.forward(values)
