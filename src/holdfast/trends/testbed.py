"""The two tables of the ImageNet testbed (arXiv:2007.00644): which columns, which models, which references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast.core.table import Table
from holdfast.trends.bootstrap import DRAWS
from holdfast.trends.fits import Fit, fit
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.spaces import Floats
from holdfast.trends.synthetic import RobustnessCorrelations, SettingPair, robustness_correlations

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
    return tuple(name for name in table.models if table.fact(name, "type") == "STANDARD" and _is_typical(name))


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
    columns = {name: values for name, values in columns.items() if name not in table.settings}
    return replace(
        table,
        settings=table.settings + tuple(columns),
        values=np.column_stack([table.values, *columns.values()]),
        # an average of cells has no one count
        counts=np.column_stack([table.counts, np.zeros((len(table.models), len(columns)), dtype=np.int64)]),
    )


def line_of_table_1(table: Table) -> Fit:
    """ImageNetV2 on ImageNet in logit space over the standard models, no accuracy cut."""
    return fit(table, V2, VAL, models=standard_models(table))


def table_1(table: Table) -> tuple[Row, ...]:
    """Accuracy, effective robustness, average corruption and average PGD of every model."""
    full = with_averages(table)
    columns = (
        full.column(VAL),
        effective_robustness(line_of_table_1(table), table),
        full.column(AVERAGE_CORRUPTION),
        full.column(AVERAGE_PGD),
    )
    rows = zip(full.models, *(column.tolist() for column in columns), strict=True)
    return tuple(Row(*each) for each in rows)


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


def _is_typical(name: str) -> bool:
    return not any(word in name.lower() for word in UNTYPICAL)


def _mean(table: Table, settings: Sequence[str]) -> Floats:
    return np.asarray(np.mean([table.column(name) for name in settings], axis=0))
