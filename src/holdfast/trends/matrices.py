"""How well accuracy and robustness explain themselves and each other under a shift, and what weak models add."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.metrics.resampling import draw_counts
from holdfast.trends.bootstrap import DRAWS, correlations, percentiles
from holdfast.trends.spaces import LINEAR, Floats, Space, fractions, on_edge, space_of

KINDS = ("Acc-Acc", "Rob-Rob", "Acc-Rob", "Rob-Acc")  # arXiv:2310.12793: without the shift first, under it second


class Shift(NamedTuple):
    """A shift by the settings of its clean and its robust accuracy; None where one was not measured."""

    name: str
    accuracy: str | None
    robustness: str | None


class R2Matrix(NamedTuple):
    """R² per kind and shift, (kinds, shifts), with bounds over draws of models and the models in each."""

    kinds: tuple[str, ...]
    shifts: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    def record(self) -> list[dict[str, object]]:
        """One record per cell."""
        return [
            {
                "kind": kind,
                "shift": shift,
                "r2": float(self.values[i, j]),
                "low": float(self.low[i, j]),
                "high": float(self.high[i, j]),
                "n": int(self.n[i, j]),
            }
            for i, kind in enumerate(self.kinds)
            for j, shift in enumerate(self.shifts)
        ]


def r2_matrix(
    table: Table,
    shifts: Sequence[Shift],
    *,
    accuracy: str,
    robustness: str,
    space: str | Space = LINEAR,
    models: Iterable[str] | None = None,
    least: float | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
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
    weights = draw_counts(len(chosen.models), draws, seed=seed) if draws and chosen.models else None
    shape = (len(KINDS), len(shifts))
    values, low, high = (np.full(shape, np.nan) for _ in range(3))
    n = np.zeros(shape, dtype=np.int64)
    for i, kind in enumerate(KINDS):
        one, other = kind.split("-")
        y = np.stack(outputs[other], axis=1)
        x = _in_space(inputs[one][:, None], space, kind)
        y = _in_space(y, space, kind)
        n[i] = (np.isfinite(x) & np.isfinite(y)).sum(axis=0)
        enough = n[i] >= 3
        values[i] = np.where(enough, correlations(x, y)[0] ** 2, np.nan)
        if weights is not None and enough.any():
            low[i, enough], high[i, enough] = percentiles(
                correlations(x, y[:, enough], weights) ** 2, confidence=confidence
            )
    return R2Matrix(KINDS, tuple(shift.name for shift in shifts), values, low, high, n)


def r2_by_threshold(
    table: Table,
    shifts: Sequence[Shift],
    thresholds: Sequence[float | None],
    *,
    accuracy: str,
    robustness: str,
    space: str | Space = LINEAR,
    models: Iterable[str] | None = None,
    draws: int = 0,
) -> dict[float | None, R2Matrix]:
    """The same matrix as more and more weak models are left out; None is everybody."""
    names = None if models is None else list(models)
    return {
        least: r2_matrix(
            table,
            shifts,
            accuracy=accuracy,
            robustness=robustness,
            space=space,
            models=names,
            least=least,
            draws=draws,
        )
        for least in thresholds
    }


def _in_space(values: Floats, space: Space, kind: str) -> Floats:
    edge = on_edge(fractions(values, kind), space)
    if edge.any():
        raise Misuse(
            f"{int(edge.sum())} scores of {kind} are exactly 0 or 1, infinite in {space} space",
            hint="use the linear space, as the published matrices do, or leave those models out",
        )
    return space.forward(values)
