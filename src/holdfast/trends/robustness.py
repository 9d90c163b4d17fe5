"""Effective robustness (beyond what accuracy explains), conversion rate and upper limit of a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.table import Table
from holdfast.trends.fits import Cut, Fit, fit, kendall
from holdfast.trends.piecewise import Trend
from holdfast.trends.spaces import LINEAR, Floats

OVERALL = 1.10  # OODRobustBench, arXiv:2310.12793, drops models with accuracy + robustness below 110


def score_columns(table: Table, settings: Sequence[str]) -> Floats:
    """The scores under several settings, (models, settings)."""
    return np.stack([table.column(name) for name in settings], axis=1)


def effective_robustness(line: Trend, table: Table) -> Floats:
    """Accuracy minus the accuracy the line expects, as a fraction per model of the table; NaN without a score.

    In logit space as arXiv:2007.00644 defines it, with several inputs as arXiv:2302.01381; the models need not be those
    the line was fitted on.
    """
    return np.asarray(table.column(line.y) - line.expected(score_columns(table, line.x)))


def linear_effective_robustness(
    table: Table, *, y: str, x: str, overall: Sequence[str] = (), least: float = OVERALL
) -> tuple[Fit, Floats]:
    """Effective robustness against a line through raw accuracies, as OODRobustBench has it.

    With two accuracies it is their ER, with two robust accuracies the adversarial effective robustness (AER). `overall`
    names clean and robust accuracy: models below `least` in their sum are placed, but not fitted on.
    """
    cuts = (Cut(tuple(overall), least),) if overall else ()
    line = fit(table, y, x, space=LINEAR, cuts=cuts)
    return line, effective_robustness(line, table)


def printed_line(table: Table, *, y: str, x: str, beyond: str) -> Fit:
    """The line behind a printed table that gives scores and effective robustness but not its line.

    Score minus effective robustness is what the published line expects, so a fit gives that line back, up to the
    rounding of the print; `r2` well below 1 says that the table was not made by one straight line. Models of the reader
    can then be placed where the authors would have placed them. Its `spread` is rounding, not the scatter of models:
    it carries no prediction interval.
    """
    expected = table.column(y) - table.column(beyond)
    at = table.settings.index(y)
    values = np.column_stack([table.values[:, :at], expected, table.values[:, at + 1 :]])
    return fit(replace(table, values=values), y, x, space=LINEAR)


def relative_robustness(table: Table, setting: str, baselines: Mapping[str, str]) -> dict[str, float]:
    """Accuracy under a shift minus that of the model an intervention started from, by model; a fraction."""
    chosen = table.of(baselines).column(setting)
    started = table.of(dict.fromkeys(baselines.values()))
    before = dict(zip(started.models, started.column(setting), strict=True))
    return {name: float(value - before[base]) for (name, base), value in zip(baselines.items(), chosen, strict=True)}


def conversion_rate(line: Fit) -> float:
    """Points gained under the shift for each point gained without it: the slope of a linear fit."""
    _needs_a_straight_line(line, "conversion rate")
    return line.slope


def upper_limit(line: Fit) -> float:
    """The accuracy under the shift of a model that is perfect without it, at most 1 and at least 0."""
    _needs_a_straight_line(line, "upper limit")
    return min(1.0, max(0.0, line.slope + line.intercept))


class Group(NamedTuple):
    """Mean and standard deviation (of the sample) of effective robustness over the models of one kind."""

    name: str
    mean: float
    deviation: float
    n: int


def by_group(values: Floats, groups: Iterable[str]) -> tuple[Group, ...]:
    """Mean ± deviation per group, in order of first appearance; models without a value are not counted."""
    labels = np.array(list(groups), dtype=object)
    assert labels.shape == values.shape, "one group per value"
    made = []
    for name in dict.fromkeys(labels):
        known = values[(labels == name) & np.isfinite(values)]
        mean = float(known.mean()) if len(known) else float("nan")
        made.append(Group(str(name), mean, float(known.std(ddof=1)) if len(known) > 1 else float("nan"), len(known)))
    return tuple(made)


def same_ranking(one: Floats, other: Floats) -> float:
    """Kendall's τ of two ways to score the same models, such as single-ID and multi-ID effective robustness."""
    return kendall(one, other)


def _needs_a_straight_line(line: Fit, what: str) -> None:
    if line.space is not LINEAR or len(line.weights) != 1:
        raise Misuse(
            f"the {what} belongs to a line through raw accuracies, this fit is in {line.space} space over "
            f"{len(line.weights)} settings",
            hint="fit with space=linear and one x",
        )
