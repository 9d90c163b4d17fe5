"""The two tables of the ImageNet testbed (arXiv:2007.00644): which columns, which models, which references.

The second asks whether robustness to made-up shifts says anything about robustness to natural ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.table import Table
from holdfast.metrics.bootstrap_draws import draw_counts, percentiles
from holdfast.trends.bootstrap import DRAWS, correlations
from holdfast.trends.fits import Fit, ZeroPolicy, fit, pearson
from holdfast.trends.piecewise import Trend, fit_trend
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.spaces import LOGIT, Floats, Space


class SettingPair(NamedTuple):
    """A setting and the one it is explained by: each shift has its own reference."""

    y: str
    x: str


VAL = "val"
V2 = "imagenetv2-matched-frequency-format-val"
PGD = ("pgd.l2.eps0.1", "pgd.l2.eps0.5", "pgd.linf.eps0.5", "pgd.linf.eps2")
RENDERED = ("greyscale", "stylized_imagenet")
UNTYPICAL = ("aws", "batch64", "subsample")  # standard training on less data or of a baseline's own run
AVERAGE_CORRUPTION, AVERAGE_PGD = "avg_corruptions", "avg_pgd"
NATURAL = {
    "ImageNetV2": SettingPair(V2, VAL),
    "ObjectNet": SettingPair("objectnet-1.0-beta", "val-on-objectnet-classes"),
    "ImageNetVid (pm-0)": SettingPair("imagenet-vid-robust_pm0", "val-on-vid-robust-classes"),
    "YTBB (pm-0)": SettingPair("ytbb-robust_pm0", "val-on-ytbb-robust-classes"),
    "ImageNetVid (pm-10)": SettingPair("imagenet-vid-robust_pm10", "imagenet-vid-robust_pm0"),
    "YTBB (pm-10)": SettingPair("ytbb-robust_pm10", "ytbb-robust_pm0"),
    "ImageNet-A": SettingPair("imagenet-a", "val-on-imagenet-a-classes"),
}
RENDITIONS = {
    "ImageNet-R": SettingPair("imagenet-r", "val-on-imagenet-r-classes"),
    "ImageNet-Sketch": SettingPair("imagenet-sketch", VAL),
}


class Row(NamedTuple):
    """A row of Table 1, in fractions; NaN where something is missing."""

    model: str
    accuracy: float
    effective_robustness: float
    corruption: float
    pgd: float


def standard_models(table: Table) -> tuple[str, ...]:
    """The models every line is fitted on: of type STANDARD, trained on the whole set in the usual way."""
    standard = [name for name in table.models if table.fact(name, "type") == "STANDARD"]
    return tuple(name for name in standard if not any(word in name.lower() for word in UNTYPICAL))


def corruption_groups(settings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The settings of one corruption, in memory or on disk, over its severities: `fog_on-disk` → five settings."""
    groups: dict[str, list[str]] = {}
    for name in settings:
        if name.startswith("imagenet-c."):
            _, corruption, rest = name.split(".", 2)
            groups.setdefault(f"{corruption}_{rest.split('_', 1)[1]}", []).append(name)
    return {name: tuple(members) for name, members in groups.items()}


def with_averages(table: Table) -> Table:
    """The table with a column per corruption, the average of all of them and that of the attacks.

    The average corruption has a term for each corruption (in memory and on disk apart), one for greyscale and one for
    stylized images. One missing cell makes an average missing.
    """
    groups = corruption_groups(table.settings)
    made = {name: _mean(table, members) for name, members in groups.items()}
    terms = [*made.values(), *(table.column(name) for name in RENDERED)]
    columns = made | {AVERAGE_CORRUPTION: np.mean(terms, axis=0), AVERAGE_PGD: _mean(table, PGD)}
    return table.with_columns({name: values for name, values in columns.items() if name not in table.settings})


def line_of_table_1(table: Table) -> Fit:
    """ImageNetV2 on ImageNet in logit space over the standard models, no accuracy cut."""
    return fit(table, V2, VAL, models=standard_models(table))


def table_1(table: Table) -> tuple[Row, ...]:
    """Accuracy, effective robustness, average corruption and average PGD of every model."""
    full = with_averages(table)
    accuracy, corruption, pgd = (full.column(name) for name in (VAL, AVERAGE_CORRUPTION, AVERAGE_PGD))
    columns = (accuracy, effective_robustness(line_of_table_1(table), table), corruption, pgd)
    return tuple(map(Row, full.models, *(column.tolist() for column in columns)))


def table_2(table: Table, *, draws: int = DRAWS) -> RobustnessCorrelations:
    """Correlation of effective robustness to each synthetic shift with that to each natural one.

    Over the models that are neither standard nor trained on a subsample. ImageNet-A was chosen so that one standard
    model scores 0 on it: its line is piecewise.
    """
    full = with_averages(table)
    averages = [AVERAGE_CORRUPTION, AVERAGE_PGD]
    names = sorted([*averages, *corruption_groups(table.settings), *PGD, *RENDERED])
    return robustness_correlations(
        full,
        {name: SettingPair(name, VAL) for name in names},
        NATURAL,
        fitted_on=standard_models(table),
        compared=lambda name: full.fact(name, "type") != "STANDARD" and "subsample" not in name.lower(),
        zero="piecewise",
        draws=draws,
    )


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
        weights = draw_counts(int(kept.sum()), draws)
        every = np.stack(made, axis=1)
        for j, other in enumerate(wild):
            low[:, j], high[:, j] = percentiles(correlations(every, other[:, None], weights))
    return RobustnessCorrelations(tuple(synthetic), tuple(natural), values, low, high, n, lines)


def _mean(table: Table, settings: Sequence[str]) -> Floats:
    return np.asarray(np.mean([table.column(name) for name in settings], axis=0))
