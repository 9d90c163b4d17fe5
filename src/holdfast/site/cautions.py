"""What to know before believing a number: flags, failed samples, parts of datasets, files that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.types import Flag
from holdfast.site.model_results import MeasuredRun, ModelResults

LEVELS = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Raised:
    """One flag over all runs: in how many, in which, and in which words."""

    name: str
    level: str
    explanations: tuple[str, ...]
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """One reason why samples failed."""

    reason: str
    samples: int
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartialRuns:
    """Runs that rest on the same part of one dataset."""

    dataset: str
    n: int
    population: int
    selection: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cautions:
    """All that weakens the numbers of a page."""

    runs: int
    flags: tuple[Raised, ...]
    failures: tuple[Failure, ...]
    unanswered: int
    subsets: tuple[PartialRuns, ...]
    unreadable: tuple[str, ...]
    weights: tuple[str, ...]

    @property
    def partial_runs(self) -> int:
        return sum(len(subset.labels) for subset in self.subsets)

    @property
    def is_clear(self) -> bool:
        return not (self.flags or self.failures or self.subsets or self.unreadable or len(self.weights) > 1)


def cautions_of(results: ModelResults) -> Cautions:
    runs = results.files
    return Cautions(
        runs=len(runs),
        flags=_flags(runs),
        failures=_failures(runs),
        unanswered=sum(run.unanswered for run in runs),
        subsets=_subsets(runs),
        unreadable=results.unreadable,
        weights=tuple(sorted({run.footer.weights for run in runs})),
    )


def _flags(runs: Sequence[MeasuredRun]) -> tuple[Raised, ...]:
    met: dict[tuple[str, str], list[tuple[Flag, str]]] = {}
    for run in runs:
        for flag in dict.fromkeys(run.footer.flags):
            met.setdefault((flag.level, flag.name), []).append((flag, _title(run)))
    raised = [
        Raised(
            name=name,
            level=level,
            explanations=tuple(dict.fromkeys(flag.explanation for flag, _ in some)),
            where=tuple(dict.fromkeys(title for _, title in some)),
        )
        for (level, name), some in met.items()
    ]
    gravity = {level: i for i, level in enumerate(LEVELS)}  # an unknown level is taken seriously
    return tuple(sorted(raised, key=lambda one: (gravity.get(one.level, 0), -len(one.where), one.name)))


def _failures(runs: Sequence[MeasuredRun]) -> tuple[Failure, ...]:
    met: dict[str, list[tuple[int, str]]] = {}
    for run in runs:
        for reason, samples in run.reasons.items():
            met.setdefault(reason, []).append((samples, _title(run)))
    failures = [
        Failure(reason, sum(samples for samples, _ in some), tuple(title for _, title in some))
        for reason, some in met.items()
    ]
    return tuple(sorted(failures, key=lambda one: (-one.samples, one.reason)))


def _subsets(runs: Sequence[MeasuredRun]) -> tuple[PartialRuns, ...]:
    met: dict[tuple[str, int, int, str], list[str]] = {}
    for run in runs:
        footer = run.footer
        if footer.is_partial:
            met.setdefault((footer.dataset, footer.n, footer.population, footer.selection), []).append(run.label)
    return tuple(PartialRuns(*key, tuple(labels)) for key, labels in met.items())


def _title(run: MeasuredRun) -> str:
    return f"{run.footer.dataset}, {run.label}"
