"""Scores by name that take more than one run: of a model's runs, over a battery of attacks, or of many models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from holdfast.boards.column_scores import StoredRuns
from holdfast.boards.over_models import rows_by_model
from holdfast.boards.suite_board import suite_board
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.json_text import attributes
from holdfast.core.registry import registry
from holdfast.core.suites import Suite
from holdfast.core.table import Table, score_table
from holdfast.core.types import Score
from holdfast.metrics.scopes import OfBattery, OfPredictions, OfRuns, OfTable, metric_of, unit_of, written
from holdfast.metrics.summary import lines
from holdfast.store.files import Unusable
from holdfast.store.scores import Scores
from holdfast.store.store import Store

BATTERY_SCORE = "cr-ind-avg"  # the column that says what a suite's battery of attacks is
ALL_MODELS = ""  # instead of a model: the score is of all of them together


@dataclass(frozen=True, slots=True)
class MultiRunScore:
    """A score of more than one run. Without a score, `note` says why; `of` says what it is made of."""

    metric: str
    unit: str
    model: str
    of: str
    reference: str
    score: Score | None
    note: str = ""
    details: object = None

    def record(self) -> dict[str, object]:
        """Flat and plain, for CSV and JSON; shares are fractions."""
        score = self.score
        bounded = score if score is not None and score.has_interval else None
        return {
            **attributes(self, "metric", "unit"),
            "model": self.model or None,
            "of": self.of,
            "reference": self.reference or None,
            "value": None if score is None else score.value,
            **{part: getattr(bounded, part, None) for part in ("low", "high")},
            "n": None if score is None else score.n or None,
            "note": self.explanation,
        } | ({} if self.details is None else {"details": self.details})

    def texts(self) -> list[str]:
        n = "" if self.score is None or not self.score.n else f"{self.score.n:,}"
        return [self.metric, self.model or "all models", self.of, written(self.score, self.unit), n, self.explanation]

    @property
    def explanation(self) -> str:
        """The note, and why a score has no interval."""
        why = f"no interval: {self.score.why}" if self.score is not None and self.score.why else ""
        return "; ".join(filter(None, (self.note, why)))


class _Scope(NamedTuple):
    """What counts: the runs of a store, or a part of them; or settings of a table."""

    store: Store
    models: Sequence[str]
    scenarios: Sequence[str]
    reference: str | None


def is_of_one_run(text: str) -> bool:
    """Whether a metric is a function of one run's rows, so that it stands beside the run's accuracy."""
    metric = metric_of(text)
    return callable(metric) and not isinstance(metric, OfRuns | OfBattery | OfTable | OfPredictions)


def multi_run_scores(
    store: Store,
    text: str,
    *,
    models: Sequence[str] = (),
    scenarios: Sequence[str] = (),
    reference: str | None = None,
    table: Scores | None = None,
    suite: Suite | None = None,
) -> list[MultiRunScore]:
    """One metric over all that the store has for it, or over a published or imported table.

    `suite` is that of a battery of attacks; `scenarios` and `reference` narrow what counts, or name settings.
    """
    ref = str(registry.bind("metric", text))
    metric = metric_of(ref)
    blank = MultiRunScore(ref, unit_of(ref, metric), ALL_MODELS, "", reference or "", None)
    scope = _Scope(store, models, scenarios, reference)
    if isinstance(metric, OfBattery):
        if suite is None or not any(column.score == BATTERY_SCORE for column in suite.board):
            raise Misuse(
                f"`{ref}` is a score over attacks of many strengths, and `{table and table.benchmark}` has none",
                hint="--benchmark multirobustbench",
            )
        return _of_battery(blank, suite, scope)
    if table is not None and not isinstance(metric, OfTable):
        raise Misuse(f"`{ref}` is made of rows, and a table has none", hint="leave --benchmark out")
    if isinstance(metric, OfRuns):
        return _of_runs(blank, metric, scope)
    if table is not None:
        assert isinstance(metric, OfTable), "looked at above"
        return _of_table(blank, metric, table.table, scope)
    if isinstance(metric, OfPredictions):
        return _of_predictions(blank, metric, scope)
    return _of_store(blank, metric, scope)


def _of_battery(blank: MultiRunScore, suite: Suite, scope: _Scope) -> list[MultiRunScore]:
    """A board of one column over the attacks that the suite ranks by."""
    first = next(column for column in suite.board if column.score == BATTERY_SCORE)
    column = replace(first, name=blank.metric, title=blank.metric, score=blank.metric, detail=False)
    made = suite_board(replace(suite, board=(column,), sort=column.name), scope.store)
    results = []
    for entry in made.entries:
        cell = entry.cells[column.name]
        if (scope.models and entry.model not in scope.models) or (cell.score is None and not cell.have):
            continue
        missing = f"{cell.have} of {cell.of} results are there" if cell.score is None and not cell.note else cell.note
        results.append(replace(blank, model=entry.model, of=suite.name, score=cell.score, note=missing))
    return results


def _of_runs(blank: MultiRunScore, metric: OfRuns, scope: _Scope) -> list[MultiRunScore]:
    """One score per model and dataset."""
    store, models, scenarios, reference = scope
    by_model: dict[tuple[str, str], StoredRuns] = {}
    for line in lines(store, models=models):
        key = (line.footer.model, "" if getattr(metric, "over_datasets", False) else line.footer.dataset)
        by_model.setdefault(key, StoredRuns(store)).lines[line.footer.scenario] = line
    results = []
    for (model, dataset), runs in by_model.items():
        named = [name for name in runs.lines if not scenarios or name in scenarios]
        names = [name for name in named if metric.is_about(runs.lines[name].footer)]
        if not names:
            continue
        clean = reference or (dataset if dataset in runs.lines else None)
        of = f"{len(names)} {'run' if len(names) == 1 else 'runs'} of {dataset or 'several datasets'}"
        result = replace(blank, model=model, of=of, reference=clean or "")
        try:
            result = replace(result, score=metric.of_runs(runs, names, clean))
        except Unusable:
            raise
        except HoldfastError as error:
            result = replace(result, note=f"{error.problem}; {error.hint}" if error.hint else error.problem)
        results.append(result)
        runs.read.clear()
    return results


def _of_predictions(blank: MultiRunScore, metric: OfPredictions, scope: _Scope) -> list[MultiRunScore]:
    """One score per model under every scenario that two models or more were measured under."""
    store, models, scenarios, _ = scope
    measured: dict[str, set[str]] = {}
    for line in lines(store, models=models, scenarios=scenarios):
        measured.setdefault(line.footer.scenario, set()).add(line.footer.model)
    results = []
    for scenario, names in measured.items():
        if len(names) < 2 and not scenarios:
            continue
        rows = rows_by_model(store, scenario, models)
        start = replace(blank, of=scenario)
        try:
            scores_by_model = metric.of_predictions(rows)
        except Unusable:
            raise
        except HoldfastError as error:
            results.append(replace(start, note=error.problem))
            continue
        matrix = metric.matrix(rows) if hasattr(metric, "matrix") else None
        for model in rows:
            note = "" if model in scores_by_model else "not defined: one of two models is always right or always wrong"
            results.append(replace(start, model=model, score=scores_by_model.get(model), note=note, details=matrix))
    return results


def _of_store(blank: MultiRunScore, metric: OfTable, scope: _Scope) -> list[MultiRunScore]:
    """Every scenario against its dataset without a change, or against the reference."""
    store, models, scenarios, reference = scope
    finished = lines(store, models=models)
    pairs = dict.fromkeys(
        (line.footer.scenario, reference or line.footer.dataset)
        for line in finished
        if (not scenarios and line.footer.changes) or line.footer.scenario in scenarios
    )
    scores = {(line.footer.model, line.footer.scenario): line.accuracy for line in finished}
    every = list(dict.fromkeys(model for model, _ in scores))
    results = []
    for scenario, other in pairs:
        if scenario == other:
            continue
        rows = {model: [scores.get((model, name)) for name in (scenario, other)] for model in every}
        table = score_table(rows, (scenario, other))
        both = table.where([bool(np.isfinite(row).all()) for row in table.values])
        results += _of_table(blank, metric, both, _Scope(store, (), [scenario], other))
    return results


def _of_table(blank: MultiRunScore, metric: OfTable, table: Table, scope: _Scope) -> list[MultiRunScore]:
    _, models, settings, reference = scope
    if not settings or (reference is None and not getattr(metric, "alone", False)):
        raise Misuse(
            f"`{blank.metric}` of a table needs to know of which settings",
            hint="--scenario SHIFTED --reference STANDARD, by the names that the table has",
        )
    names = [*settings, *([] if reference is None else [reference])]
    start = replace(blank, of=", ".join(settings), reference=reference or "")
    for name in names:
        table.column(name)  # an error that suggests
    try:
        scores_by_model = metric.of_table(table, names)
        notes = metric.notes(table, names) if hasattr(metric, "notes") else {}
    except Unusable:
        raise
    except HoldfastError as error:
        return [replace(start, note=error.problem)]
    if not metric.per_model:
        score, note = next(iter(scores_by_model.values()), None), next(iter(notes.values()), "")
        return [replace(start, score=score, note=note)]
    return [
        replace(start, model=model, score=score, note=notes.get(model, ""))
        for model, score in scores_by_model.items()
        if not models or model in models
    ]
