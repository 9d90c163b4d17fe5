"""Scores beside accuracy, by the names of metrics: those that are a function of one run's rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.core.registry import registry
from holdfast.core.types import Score
from holdfast.metrics.accuracy import Metric
from holdfast.metrics.scopes import metric_of, unit_of, written
from holdfast.metrics.summary import lines
from holdfast.store.files import Unusable
from holdfast.store.rows import Rows
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class RunScores:
    """Further scores of runs: by key of the run, one for each name; None where the metric has nothing to say.

    `details` are what a metric knows beyond one number (a matrix, a score per class), `words` what the number is of,
    `notes` why a score is missing.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    scores: Mapping[str, tuple[Score | None, ...]]
    details: Mapping[str, Mapping[str, object]]
    words: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = ()

    def record(self, key: str) -> dict[str, object]:
        """Flat and plain, for CSV and JSON."""
        record: dict[str, object] = {}
        for name, score in zip(self.names, self.scores.get(key, ()), strict=True):
            record |= {name: None if score is None else score.value}
            record |= {f"{name} {end}": None if score is None else getattr(score, end) for end in ("low", "high")}
            record |= {f"{name} without an interval": score.why} if score is not None and score.why else {}
        return record | {f"{name} details": content for name, content in self.details.get(key, {}).items()}

    def texts(self, key: str) -> list[str]:
        texts = [written(*pair) for pair in zip(self.scores.get(key, ()), self.units, strict=True)]
        words = [self.words.get(key, {}).get(name, "") for name in self.names]
        return [f"{text} ({about})" if about else text for text, about in zip(texts, words, strict=True)]

    def reasons(self) -> list[tuple[str, str]]:
        """The metrics that have no interval for some run, each with why."""
        every = [(name, score) for row in self.scores.values() for name, score in zip(self.names, row, strict=True)]
        return list(dict.fromkeys((name, score.why) for name, score in every if score is not None and score.why))


def run_scores(store: Store, keys: Sequence[str], metrics: Sequence[str], *, reference: str | None = None) -> RunScores:
    """The scores of runs by these metrics, such as `balanced-accuracy` and `per-class-accuracy:label=3`.

    A metric that has nothing to say of a run alone is given the rows of its reference: the same model's run under
    `reference`, or without any change to the same dataset.
    """
    refs = [str(registry.bind("metric", text)) for text in metrics]
    made = [metric_of(ref) for ref in refs]
    scores: dict[str, tuple[Score | None, ...]] = {}
    details: dict[str, dict[str, object]] = {}
    words: dict[str, dict[str, str]] = {}
    notes: dict[str, None] = {}
    for key in keys:
        if not made:
            scores[key] = ()
            continue
        rows = store.read(key)
        of_run: list[Score | None] = []
        for ref, metric in zip(refs, made, strict=True):
            try:
                of_run.append(_scored(metric, rows, store, reference))
                if hasattr(metric, "in_words"):
                    words.setdefault(key, {})[ref] = metric.in_words(rows)
                if hasattr(metric, "details"):
                    details.setdefault(key, {})[ref] = metric.details(rows)
            except Unusable:
                raise
            except HoldfastError as error:
                of_run.append(None)
                notes[f"{ref}: {error.problem}"] = None
        scores[key] = tuple(of_run)
    for ref, metric in zip(refs, made, strict=True):
        remark = metric.remark([store.read(key) for key in keys]) if hasattr(metric, "remark") else ""
        if remark:
            warnings.warn(f"{ref}: {remark}", HoldfastWarning, stacklevel=2)
    units = tuple(unit_of(ref, metric) for ref, metric in zip(refs, made, strict=True))
    return RunScores(tuple(refs), units, scores, details, words, tuple(notes))


def reference_rows(store: Store, rows: Rows, reference: str | None) -> Rows | None:
    """The rows that a run is compared with; None where there are none, or where they would be the run's own."""
    footer = rows.footer
    scenario = reference or footer.dataset
    if scenario == footer.scenario:
        return None
    runs = lines(store, models=[footer.model], scenarios=[scenario])
    return store.read_or_tell(runs[-1].footer.key) if runs else None


def _scored(metric: Metric, rows: Rows, store: Store, reference: str | None) -> Score | None:
    score = metric(rows)
    if score is None:
        other = reference_rows(store, rows, reference)
        score = None if other is None else metric(rows, other)
    return score
