"""Accuracy over several attacks on the same samples: under the worst of them, and on average."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.accuracy import aligned, worst_case
from holdfast.metrics.means import DRAWS, SampledValues, mean_over
from holdfast.metrics.scopes import ModelRuns
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows


def average_accuracy(runs: Sequence[Rows], *, resamples: int = DRAWS) -> Score:
    """Mean accuracy over runs on the same samples; a sample varies with all that was done to it."""
    if not runs:
        raise HoldfastError("the average over no runs is not defined")
    every = np.arange(len(runs[0]))
    return mean_over([SampledValues(every, aligned(rows, runs[0].ids).correct) for rows in runs], draws=resamples)


class _OverAttacks:
    unit = "percent"

    def is_about(self, footer: Footer) -> bool:
        return footer.is_attacked


@register("metric", "union-accuracy", source="arXiv:1904.13000")
class UnionAccuracy(_OverAttacks):
    """Share of samples that stay right under every one of several attacks."""

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:  # noqa: ARG002
        return worst_case([runs.rows(name) for name in scenarios])


@register("metric", "average-accuracy", source="arXiv:1904.13000")
class AverageAccuracy(_OverAttacks):
    """Mean accuracy over several attacks on the same samples."""

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:  # noqa: ARG002
        return average_accuracy([runs.rows(name) for name in scenarios])
