"""Metrics over many models: upper limit and slope of a line, effective robustness, Pearson's r and R²."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.registry import register
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.difference_tests import printed_difference
from holdfast.trends.bands import conversion_rate_score, effective_robustness_scores, upper_limit_score
from holdfast.trends.fits import Fit, cautions, correlation, explained, fit, pearson
from holdfast.trends.robustness import OVERALL, linear_effective_robustness
from holdfast.trends.spaces import LINEAR, space_of


class _OverLine:
    """A score of a line through raw accuracies: the first setting on the second."""

    per_model = False
    unit = "percent"
    of_line: Callable[[Fit], Score]

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        line = _line(table, settings)
        return dict.fromkeys(line.points.models, self.of_line(line))

    def notes(self, table: Table, settings: Sequence[str]) -> dict[str, str]:
        """The same words for all models: why to read the line with care."""
        line = _line(table, settings)
        return _same_words(line.points.models, line.cautions)


@register("metric", "upper-limit", source="arXiv:2310.12793")
class UpperLimit(_OverLine):
    """The score under a shift of a model that is perfect without it, by the line over all models: one value for all."""

    of_line = staticmethod(upper_limit_score)


@register("metric", "conversion-rate", source="arXiv:2310.12793")
class ConversionRate(_OverLine):
    """Points gained under a shift for each point gained without it, by the line over all models: one value for all."""

    unit = "number"
    of_line = staticmethod(conversion_rate_score)


@register("metric", "effective-robustness", source="arXiv:2007.00644")
class EffectiveRobustness:
    """Score under a shift minus what the line over all models expects of it; with several references, a plane.

    In `logit` space as the ImageNet testbed has it; `linear` is OODRobustBench's, where `least` keeps weak models out
    of the fit: clean and robust accuracy are then the second and third setting.
    """

    per_model = True
    unit = "points"

    def __init__(self, *, space: str = "logit", least: float | None = None) -> None:
        self.space, self.least = space_of(space), least

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        return effective_robustness_scores(self.line(table, settings), table)

    def notes(self, table: Table, settings: Sequence[str]) -> dict[str, str]:
        return _same_words(table.models, self.line(table, settings).cautions)

    def line(self, table: Table, settings: Sequence[str]) -> Fit:
        """The line or plane that models are placed against."""
        y, *x = settings
        if self.least is None:
            return fit(table, y, x, space=self.space, zero="drop" if self.space.has_edges else None)
        if self.space is not LINEAR or len(x) != 2:
            raise Misuse(
                "`least` is a sum of clean and robust accuracy on a linear scale",
                hint=f"effective-robustness:space=linear,least={OVERALL:g} of [shifted, robust, clean]",
            )
        return linear_effective_robustness(table, y=y, x=x[0], overall=x, least=self.least)[0]


@register("metric", "relative-robustness", source="arXiv:2007.00644, Appendix C")
class RelativeRobustness:
    """Score under a shift minus that of the model an intervention starts from: `baseline`; without one, of the best.

    The interval takes the samples of both as independent, which is wide where they are the same.
    """

    per_model = True
    unit = "points"

    def __init__(self, *, baseline: str | None = None) -> None:
        self.baseline = baseline

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        setting = settings[0]
        values, counts = table.column(setting), table.count(setting)
        if not np.isfinite(values).any():
            return {}
        baseline = self.baseline or table.models[int(np.nanargmax(values))]
        if baseline not in table.models:
            raise unknown("model", baseline, table.models, otherwise="relative robustness is against this model")
        at = table.models.index(baseline)
        return {
            model: printed_difference(values[i], int(counts[i]), values[at], int(counts[at])).difference
            for i, model in enumerate(table.models)
            if np.isfinite(values[i] - values[at])
        }


class _OverPairs:
    """A measure of how closely two scores go together over models."""

    per_model = False
    unit = "number"

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]:
        one, other = (table.column(name) for name in _two(settings))
        both = np.isfinite(one) & np.isfinite(other)
        n = int(both.sum())
        if n < 3:
            raise HoldfastError(f"a correlation takes three models with both scores, got {n}")
        score = self.of_correlation(correlation(pearson(one, other), n))
        return dict.fromkeys(compress(table.models, both), score)

    def of_correlation(self, r: Score) -> Score:
        return r

    def notes(self, table: Table, settings: Sequence[str]) -> dict[str, str]:
        """The same words for all models: why to read the value with care."""
        one, other = (table.column(name) for name in _two(settings))
        n = int((np.isfinite(one) & np.isfinite(other)).sum())
        return _same_words(table.models, cautions(n, pearson(one, other) ** 2))


@register("metric", "pearson")
class Pearson(_OverPairs):
    """Pearson's r of two scores over all models, with Fisher's interval: one value for all."""


@register("metric", "r2")
class ShareExplained(_OverPairs):
    """R² of the line of one score on another over all models: one value for all."""

    def of_correlation(self, r: Score) -> Score:
        return explained(r)


def _same_words(models: Iterable[str], cautions: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(models, "; ".join(cautions)) if cautions else {}


def _line(table: Table, settings: Sequence[str]) -> Fit:
    y, x = _two(settings)
    return fit(table, y, x, space=LINEAR)


def _two(settings: Sequence[str]) -> tuple[str, str]:
    if len(settings) != 2:
        raise Misuse(f"this score is of two settings, got {len(settings)}", hint='of = ["shifted", "standard"]')
    return settings[0], settings[1]
