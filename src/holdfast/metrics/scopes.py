"""What a metric is a score of: one run, several runs of a model, a battery of attacks, or many models.

A metric is a registered class that offers one or more of the methods below; the command line, boards and pages look for
them. A score of one run is `metric(rows, reference)`, as `metrics.accuracy.Metric` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.rounding import figures, percent
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics.multi_attack import Battery
from holdfast.metrics.summary import Line
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows

SHARES = (
    "accuracy",
    "share",
    "pm-k",
    "ece",
    "prediction-agreement",
)  # in the name of a metric of one run that is a share, shown in percent


class ModelRuns(Protocol):
    """The finished runs of one model, by scenario."""

    @property
    def lines(self) -> Mapping[str, Line]: ...
    def rows(self, scenario: str) -> Rows: ...


@runtime_checkable
class OfRuns(Protocol):
    """A score of several runs of one model."""

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:
        """From the runs under these scenarios; `reference` is the undisturbed one where there is such a run."""
        ...

    def is_about(self, footer: Footer) -> bool:
        """Whether a run of the store is one of those that this is a score of."""
        ...


@runtime_checkable
class OfBattery(Protocol):
    """A score over attacks at many strengths, against the best known accuracy under each."""

    def of_battery(self, cells: Battery, trained: Mapping[str, float]) -> Score: ...


@runtime_checkable
class OfTable(Protocol):
    """Scores over many models under a few settings: the first is to be explained, the others explain it.

    Where `per_model` is False all models share one value, which says something about them together.
    """

    per_model: bool

    def of_table(self, table: Table, settings: Sequence[str]) -> Mapping[str, Score]: ...


@runtime_checkable
class OfPredictions(Protocol):
    """Scores of many models from their answers to the same samples."""

    def of_predictions(self, rows: Mapping[str, Rows]) -> Mapping[str, Score]: ...


def metric_of(text: str) -> Any:
    """The metric that a text stands for, such as `per-class-accuracy:label=3`; an unknown name lists near ones."""
    return registry.build(registry.bind("metric", text))


def is_over_models(text: str, reference: str = "") -> bool:
    """Whether a score takes more than one model; with a reference, one that can be of a model alone is."""
    if not text or parse_ref(text).name not in registry.entries("metric"):
        return False
    metric = metric_of(text)
    if reference and callable(metric):
        return False
    return isinstance(metric, OfTable | OfPredictions)


def unit_of(text: str, metric: object) -> str:
    """How a score is written: percent, points, nats or number."""
    if unit := getattr(metric, "unit", ""):
        return str(unit)
    return "percent" if any(word in parse_ref(text).name for word in SHARES) else "number"


def written(score: Score | None, unit: str) -> str:
    """A score as a person reads it; the interval only where there is one."""
    if score is None or score.value != score.value:
        return ""
    end = {"percent": " %", "points": " points"}.get(unit, "")

    def text(value: float) -> str:
        return percent(value) if end else figures(value, 4)

    bounds = "" if score.low != score.low else f" [{text(score.low)}, {text(score.high)}]"
    return f"{text(score.value)}{end}{bounds}"
