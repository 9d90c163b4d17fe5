"""What every metric and every plot must keep to, as checks a plug-in can run on its own; no torch is needed.

    from holdfast import conformance_metrics
    conformance_metrics.check_metric("my-metric:k=3")

A metric meets rows, runs, batteries of attacks and tables at their edges: one sample, all right, all wrong, one class,
failed samples, logits that are NaN, no models, missing scores. It may return None or refuse with a `HoldfastError`.
Any other exception, a warning of numpy, a number that is not finite without a reason, or a value outside its interval
breaks the law. Each check raises AssertionError with the law that was broken.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.boards.entries import Board, BoardEntry
from holdfast.boards.suite_board import suite_board
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref, Run, Scenario, digest
from holdfast.core.suites import Suite, load_suite
from holdfast.core.table import Table
from holdfast.core.types import DatasetCard, ModelCard, Score
from holdfast.metrics.means import SampledValues
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength
from holdfast.metrics.scopes import OfBattery, OfPredictions, OfRuns, OfTable, metric_of
from holdfast.metrics.summary import Line, line
from holdfast.site.plots import plot as plot_module
from holdfast.site.plots.plot import BoardPlot, Plot, PlotInputs, board_plots
from holdfast.site.plots.points import points_of
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import Predictions, Rows, to_rows
from holdfast.store.store import Store

CLASSES = ("cat", "dog", "frog")
RADII = (0.5, 1.0, 2.0)
FOG = ChangeRecord("corruption", "fog", 1, "fog:severity=3", {"severity": 3})
PGD = ChangeRecord("attack", "pgd-linf", 1, "pgd-linf:radius=1", {"radius": 1.0})
OTHER_PGD = ChangeRecord("attack", "pgd-l2", 1, "pgd-l2:radius=1", {"radius": 1.0})
SWEEP = ChangeRecord("attack", "sweep", 1, "sweep:attack=(pgd-linf),radii=[0.5,1,2]", {"radii": list(RADII)})
CHANGES = ((), (FOG,), (PGD,), (OTHER_PGD,), (FOG, PGD), (SWEEP,))
ROUNDING = 1e-9
RIGHT: Mapping[str, Sequence[bool]] = {
    "one sample, right": [True],
    "one sample, wrong": [False],
    "all right": [True] * 12,
    "all wrong": [False] * 12,
    "some right": [True, False, True, True, False, True] * 2,
}


def check_metric(text: str) -> None:
    """At every edge a metric gives a sound score, nothing, or a refusal in words; twice the same, in any row order."""
    metric = metric_of(text)
    scopes: tuple[Any, ...] = (Callable, OfRuns, OfBattery, OfTable, OfPredictions)
    of_scopes: tuple[Any, ...] = (_of_one_run, _of_runs, _of_batteries, _of_tables, _of_predictions)
    checks = [of(metric, text) for scope, of in zip(scopes, of_scopes, strict=True) if isinstance(metric, scope)]
    assert checks, f"`{text}` is a score of nothing: it offers none of the methods of `metrics.scopes`"
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert sum(1 for check in checks for _ in check), f"`{text}` was tried on nothing"


def check_plot(plot: BoardPlot, suite: str) -> None:
    """Of no model, one, two, and models without scores a plot is None, or JSON that every browser reads."""
    made = load_suite(suite)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        store = Store(folder)
        for case, shown in _boards(made, suite_board(made, store)).items():
            inputs = PlotInputs(made, shown, points_of(made, shown, store), store)
            drawn = plot(inputs)
            assert drawn is None or _is_sound(drawn), f"{plot.__name__} of {suite}, {case}: not a plot a page can show"
            assert drawn is None or drawn.kind in drawn_kinds(), (
                f"{plot.__name__} is of the kind `{drawn.kind}`, for which static/plots.js has no function in KINDS"
            )
            assert drawn == plot(inputs), f"{plot.__name__} of {suite}, {case}: twice the same board, two plots"


@functools.cache
def drawn_kinds() -> frozenset[str]:
    """The kinds of plots that the site's script draws."""
    script = (Path(plot_module.__file__).parents[1] / "static" / "plots.js").read_text()
    listed = re.search(r"const KINDS = \{([^}]*)\}", script)
    assert listed is not None, "static/plots.js lists its drawings in KINDS"
    return frozenset(entry.split(":")[0].strip() for entry in listed[1].split(","))


def check_plots(suite: str) -> None:
    """Every plot of the site on the board of a suite."""
    for plot in board_plots():
        check_plot(plot, suite)


def hard_rows(changes: Sequence[ChangeRecord] = (), model: str = "one") -> dict[str, Rows]:
    """Rows at their edges, by what is special about them."""
    made = {case: _rows(right, changes, model) for case, right in RIGHT.items()}
    some = RIGHT["some right"]
    made["one class"] = _rows(some, changes, model, labels=np.zeros(len(some), dtype=np.int64))
    made["some failed"] = _rows(some, changes, model, failed=(0, 3))
    made["all failed"] = _rows(some, changes, model, failed=range(len(some)))
    made["equal logits"] = _rows(some, changes, model, flat=True)
    return made


def _rows(
    right: Sequence[bool],
    changes: Sequence[ChangeRecord],
    model: str,
    *,
    labels: Any = None,
    failed: Sequence[int] = (),
    flat: bool = False,
) -> Rows:
    n, k = len(right), len(CLASSES)
    known = np.arange(n) % k if labels is None else labels
    logits = np.random.default_rng(n).normal(0, 1, (n, k)).astype(np.float32)
    logits[np.arange(n), np.where(right, known, (known + 1) % k)] = 4.0
    logits = np.zeros_like(logits) if flat else logits
    logits[list(failed)] = np.nan
    is_attacked = any(change.kind == "attack" for change in changes)
    sizes = np.full(n, 0.5 if is_attacked else np.nan, np.float32)
    radii = np.where(right, np.inf, np.resize([0.0, *RADII], n)) if SWEEP in changes else np.full(n, np.nan)
    scenario = "+".join(["edges", *(change.text for change in changes)])
    run = Run(Ref("model", model, (), 1), Scenario(Ref("dataset", "edges", (), 1)), weights="0", data="0")
    card = DatasetCard("edges", CLASSES, channels=1, size=(1, 1), fingerprint="0")
    footer = replace(
        Footer.of(run, ModelCard(model, "conformance", k), card, n),
        key=digest([model, scenario, n]),
        family=digest([model, scenario]),
        scenario=scenario,
        scenario_full=scenario,
        changes=tuple(changes),
        n=n,
    )
    reasons = ["logits are not finite" if i in failed else None for i in range(n)]
    passes = np.ones(n, dtype=np.int64)
    ids = [f"sample-{i}" for i in range(n)]
    predictions = Predictions(ids, known, logits, sizes, radii.astype(np.float32), passes, passes, reasons)
    return to_rows(predictions, footer)


@dataclass(frozen=True)
class _Runs:
    """Runs of one model by scenario, as `metrics.scopes.ModelRuns` has them."""

    every: Mapping[str, Rows]

    @property
    def lines(self) -> Mapping[str, Line]:
        return {name: line(rows) for name, rows in self.every.items()}

    def rows(self, scenario: str) -> Rows:
        return self.every[scenario]


def _of_one_run(metric: Callable[..., Score | None], text: str) -> Iterator[object]:
    for changes in ((), (FOG,), (PGD,), (SWEEP,)):
        for (case, rows), reference in zip(hard_rows(changes).items(), hard_rows().values(), strict=True):
            where = f"`{text}` of {rows.footer.scenario}, {case}"
            turned = Rows(rows.table.take(np.arange(len(rows))[::-1]), rows.footer)
            yield _check_score(_tried(metric, rows, where=where), where)
            score = _tried(metric, rows, reference, where=where)
            yield _check_score(score, where)
            _check_same(score, _tried(metric, rows, reference, where=where), where, "the second call")
            _check_same(score, _tried(metric, turned, reference, where=where), where, "another order of rows")
            for extra in ("in_words", "details"):
                _tried(getattr(metric, extra, str), rows, where=f"{where}, {extra}")
            _tried(getattr(metric, "remark", str), [rows, reference], where=f"{where}, remark")


def _of_runs(metric: OfRuns, text: str) -> Iterator[object]:
    for case in hard_rows():
        runs = _Runs({rows.footer.scenario: rows for rows in (hard_rows(changes)[case] for changes in CHANGES)})
        scenarios = [name for name, rows in runs.every.items() if metric.is_about(rows.footer)]
        for reference in (None, "edges", "edges+pgd-linf:radius=1"):
            where = f"`{text}` of {len(scenarios)} runs, {case}, reference {reference}"
            yield _check_score(_tried(metric.of_runs, runs, scenarios, reference, where=where), where)


def _of_batteries(metric: OfBattery, text: str) -> Iterator[object]:
    every = (CLEAN, Strength("pgd-linf", 0.5), Strength("pgd-linf", 1.0), Strength("stadv", 1.0))
    shares = {"all right": 1.0, "all wrong": 0.0, "half right": 0.5, "missing": math.nan}
    trained: tuple[dict[str, float], ...] = ({}, {"pgd-linf": 1.0}, {"pgd-linf": 1.0, "stadv": 1.0})
    for (case, share), (best_case, best), count, n in itertools.product(
        shares.items(), shares.items(), (0, 1, len(every)), (0, 1, 12)
    ):
        outcomes = tuple(SampledValues(np.arange(n), np.arange(n) < share * n) for _ in range(count if n else 0))
        cells = Battery(every[:count], np.full(count, share), np.full(count, best), n, 0, outcomes)
        for known in trained:
            where = f"`{text}` of {count} attacks, {case}, best {best_case}, {n} samples, trained on {list(known)}"
            yield _check_score(_tried(metric.of_battery, cells, known, where=where), where)


def _of_tables(metric: OfTable, text: str) -> Iterator[object]:
    rising = np.linspace(0.2, 0.9, 12)
    columns = {
        "rising": rising,
        "all 0": np.zeros(12),
        "all 1": np.ones(12),
        "constant": np.full(12, 0.5),
        "missing": np.full(12, np.nan),
        "some missing": np.where(np.arange(12) % 3, rising, np.nan),
    }
    for models, count in itertools.product((0, 1, 2, 3, 12), (0, 100)):
        for (case, y), (other_case, x) in itertools.product(columns.items(), repeat=2):
            values = np.stack([y[:models] ** 2, x[:models]], axis=1)
            names = tuple(f"model-{i}" for i in range(models))
            table = Table(names, ("shifted", "standard"), values, np.full(values.shape, count))
            where = f"`{text}` of {models} models, {case} on {other_case}, counts {count}"
            scores = _tried(metric.of_table, table, list(table.settings), where=where) or {}
            for name, score in scores.items():
                assert name in names, f"{where}: a score of `{name}`, which is no model of the table"
                _check_score(score, where)
            if hasattr(metric, "notes"):
                _tried(metric.notes, table, list(table.settings), where=f"{where}, notes")
            yield scores


def _of_predictions(metric: OfPredictions, text: str) -> Iterator[object]:
    one, other = hard_rows(model="one"), hard_rows(model="other")
    for case, other_case in itertools.product(one, repeat=2):
        for rows in ({}, {"one": one[case]}, {"one": one[case], "other": other[other_case]}):
            where = f"`{text}` of {len(rows)} models, {case} and {other_case}"
            for name, score in (_tried(metric.of_predictions, rows, where=where) or {}).items():
                assert name in rows, f"{where}: a score of `{name}`, which is no model"
                yield _check_score(score, where)
            if len(rows) == 2:
                _tried(getattr(metric, "matrix", str), rows, where=f"{where}, matrix")


def _tried(function: Callable[..., Any], *args: Any, where: str) -> Any:
    """The result; None where the function refuses in words."""
    try:
        return function(*args)
    except HoldfastError:
        return None
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def _check_score(score: Score | None, where: str) -> bool:
    if score is None:
        return True
    assert isinstance(score, Score), f"{where}: {type(score).__name__} is no Score"
    assert score.n >= 0, f"{where}: n is a count, got {score.n}"
    assert not math.isinf(score.value), f"{where}: the value is infinite"
    assert not math.isnan(score.value) or not score.n or score.why, f"{where}: NaN of {score.n} samples, without a why"
    assert math.isnan(score.low) == math.isnan(score.high), f"{where}: half an interval"
    if score.has_interval and not math.isnan(score.value):
        inside = score.low - ROUNDING <= score.value <= score.high + ROUNDING
        assert inside, f"{where}: {score.value} lies outside of [{score.low}, {score.high}]"
    assert score.has_interval or score.why or not score.n, f"{where}: no interval, and no why"
    return True


def _check_same(score: Score | None, other: Score | None, where: str, law: str) -> None:
    one, two = (math.nan if each is None else each.value for each in (score, other))
    is_same = math.isclose(one, two, rel_tol=ROUNDING, abs_tol=ROUNDING) or (math.isnan(one) and math.isnan(two))
    assert is_same, f"{where}: {law} makes {one} into {two}"


def _boards(suite: Suite, whole: Board) -> dict[str, Board]:
    """A board with ever fewer models and scores, by what is special about it."""

    def without(entry: BoardEntry, names: Iterable[str]) -> BoardEntry:
        emptied = {name: entry.cells[name]._replace(score=None) for name in names}
        return replace(entry, cells={**entry.cells, **emptied})

    empty = tuple(without(entry, entry.cells) for entry in whole.entries)
    first = {column.name for column in suite.board[:1]}
    gaps = tuple(
        without(entry, entry.cells.keys() & first if i % 2 else entry.cells.keys() - first)
        for i, entry in enumerate(whole.entries)
    )
    cases = {"no models": (), "one model": whole.entries[:1], "two models": whole.entries[:2]}
    cases |= {"no scores": empty, "missing scores": gaps}
    return {case: replace(whole, entries=entries) for case, entries in cases.items()}


def _is_sound(drawn: Plot) -> bool:
    json.dumps(drawn.data, allow_nan=False)
    return all((drawn.id, drawn.kind, drawn.title, drawn.about))
