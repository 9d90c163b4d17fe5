"""Scores that take more than one run, as `holdfast scores --metric` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from holdfast.boards.benchmark_tables import benchmark_scores
from holdfast.boards.multi_run_scores import MultiRunScore, is_of_one_run, multi_run_scores
from holdfast.cli.output import Output, err
from holdfast.core.errors import Misuse
from holdfast.core.suites import load_suite, suites
from holdfast.metrics.scopes import OfBattery, metric_of
from holdfast.store import Store
from holdfast.store.stored_names import stored_model, stored_scenarios

BATTERY = "multirobustbench"  # whose attacks the ratios are over


class ScoreRequest(NamedTuple):
    """What the scores are to be of."""

    models: Sequence[str]
    scenarios: Sequence[str]
    reference: str | None
    benchmark: str | None


def split_metrics(metrics: Sequence[str], request: ScoreRequest) -> tuple[list[str], list[str]]:
    """Metrics of one run, which stand beside its accuracy, and those that take several."""
    of_one = [text for text in metrics if is_of_one_run(text)]
    if request.benchmark is not None and (of_one or not metrics):
        raise Misuse(
            "--benchmark takes a metric over many models",
            hint="such as --metric upper-limit; `holdfast board` shows a table itself",
        )
    return of_one, [text for text in metrics if text not in of_one]


def results(store: Store, metrics: Sequence[str], request: ScoreRequest) -> list[MultiRunScore]:
    """The scores of every metric; a note where there is nothing to make one of."""
    if not metrics:
        return []
    models, scenarios, reference = request.models, request.scenarios, request.reference
    table, suite = None, BATTERY if request.benchmark is None else request.benchmark
    if request.benchmark is not None:
        table = benchmark_scores(request.benchmark, store)
    else:
        names = stored_scenarios(store, filter(None, (*scenarios, reference)))
        models = [stored_model(store, name) for name in models]
        scenarios, reference = [names[text] for text in scenarios], names[reference] if reference else None
    score = partial(
        multi_run_scores,
        models=models,
        scenarios=scenarios,
        reference=reference,
        table=table,
        suite=load_suite(suite) if suite in suites() else None,
    )
    made: list[MultiRunScore] = []
    for text in metrics:
        made += score(store, text) or [MultiRunScore(text, "", "", "", "", None, note=_nothing(text))]
    return made


def _nothing(text: str) -> str:
    if isinstance(metric_of(text), OfBattery):
        return (
            f"no results over attacks: `holdfast evaluate MODEL --suite {BATTERY}` measures them, "
            f"`holdfast import {BATTERY} FOLDER` brings the published ones"
        )
    return "the store holds no runs that this is a score of"


def show_results(results_of_metric: Sequence[MultiRunScore], how: Output) -> None:
    """One line for each score; matrices are for JSON alone."""
    records = [each.record() for each in results_of_metric]
    flat = [{name: value for name, value in record.items() if name != "details"} for record in records]
    columns = ["metric", "model", "of", "value", "n", "note"]
    is_table = how.show(flat, columns, [each.texts() for each in results_of_metric], right=["n"], whole=records)
    if is_table and any(each.score is None for each in results_of_metric):
        err.print("a score without a value says in its note what is in the way")


def with_several(records: list[dict[str, object]], results_of_metric: Sequence[MultiRunScore], *, csv: bool) -> None:
    """Adds scores of several runs to the records of single ones, which a CSV file cannot hold."""
    if csv:
        raise Misuse(
            f"`{results_of_metric[0].metric}` takes several runs, and its lines have other columns",
            hint="ask for it alone, or --json",
        )
    records += [each.record() for each in results_of_metric]
