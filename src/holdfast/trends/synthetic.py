"""Whether robustness to made-up shifts says anything about robustness to natural ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.intervals import CONFIDENCE
from holdfast.core.table import Table
from holdfast.metrics.bootstrap_draws import draw_counts, percentiles
from holdfast.trends.bootstrap import DRAWS, correlations
from holdfast.trends.fits import ZeroPolicy, pearson
from holdfast.trends.piecewise import Trend, fit_trend
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.spaces import LOGIT, Floats, Space


class SettingPair(NamedTuple):
    """A setting and the one it is explained by: each shift has its own reference."""

    y: str
    x: str


class RobustnessCorrelations(NamedTuple):
    """Pearson's r of effective robustness, (synthetic, natural), with bounds over draws of models."""

    synthetic: tuple[str, ...]
    natural: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]
    trends: Mapping[str, Trend]


def robustness_correlations(
    table: Table,
    synthetic: Mapping[str, SettingPair],
    natural: Mapping[str, SettingPair],
    *,
    fitted_on: Iterable[str],
    compared: Callable[[str], bool],
    space: str | Space = LOGIT,
    zero: ZeroPolicy | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> RobustnessCorrelations:
    """Effective robustness to every synthetic shift against that to every natural one (arXiv:2007.00644, Table 2).

    Lines are fitted on `fitted_on`; the correlation is over the models for which `compared` holds and that have both
    values. A model that the lines were fitted on has little effective robustness by construction, so leave those out.
    """
    names = list(fitted_on)
    lines = {
        name: fit_trend(table, pair.y, pair.x, models=names, space=space, zero=zero)
        for name, pair in (*synthetic.items(), *natural.items())
    }
    kept = np.array([compared(name) for name in table.models], dtype=bool)
    beyond = {name: effective_robustness(line, table)[kept] for name, line in lines.items()}
    made, wild = ([beyond[name] for name in group] for group in (synthetic, natural))
    values = np.array([[pearson(one, other) for other in wild] for one in made])
    n = np.array([[int((np.isfinite(one) & np.isfinite(other)).sum()) for other in wild] for one in made])
    low, high = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    if draws:
        weights = draw_counts(int(kept.sum()), draws, seed=seed)
        every = np.stack(made, axis=1)
        for j, other in enumerate(wild):
            low[:, j], high[:, j] = percentiles(correlations(every, other[:, None], weights), confidence=confidence)
    return RobustnessCorrelations(tuple(synthetic), tuple(natural), values, low, high, n, lines)
