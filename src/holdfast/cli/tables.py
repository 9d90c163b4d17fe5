"""Tables of published, imported and measured scores, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.boards.entries import Board, BoardCell
    from holdfast.core.suites import Suite
    from holdfast.core.table import Table
    from holdfast.core.types import Score
    from holdfast.engine.evaluate import Outcome
    from holdfast.store import Store
    from holdfast.store.scores import Scores


def benchmark_scores(name: str, store: Store, *, needs: Sequence[str] = ()) -> Scores:
    """A benchmark as imported into the store where it was, else as its paper prints it; `store` is its own runs.

    A paper may print scores that its files lack: where an import does not have what is needed, the print counts.
    """
    from holdfast.core.errors import unknown
    from holdfast.store.exporting import measured
    from holdfast.store.importing import together
    from holdfast.store.published import benchmarks, published

    if name == "store":
        return measured(store)
    imported = store.scores(name)
    if len(imported) > 1:
        imported = [together(imported)]
    if imported and (name not in benchmarks() or set(needs) <= set(imported[0].table.settings)):
        return imported[0]
    if name in benchmarks():
        return published(name)
    raise unknown("benchmark", name, {"store", *benchmarks(), *(scores.benchmark for scores in store.scores())})


def own_models(benchmark: str, store: Store) -> Table | None:
    """The models of a store under the scores of the benchmark's suite; None where it has no suite or no model."""
    from holdfast.core.suites import load_suite, suites
    from holdfast.core.table import table

    if benchmark not in suites() or not store.footers():
        return None
    suite = load_suite(benchmark)
    if not suite.board:
        return None
    entries = [entry for entry in store_board(suite, store).entries if entry.is_measured]
    scores = {
        (entry.model, name): score
        for entry in entries
        for name, cell in (*entry.cells.items(), *entry.details.items())
        if (score := measured_score(cell)) is not None
    }
    counts = {key: score.n for key, score in scores.items()}
    return table({key: score.value for key, score in scores.items()}, counts=counts, source="measured here")


def measured_score(cell: BoardCell) -> Score | None:
    """What was measured here of a cell, whichever source it shows."""
    if cell.origin == "measured":
        return cell.score
    return next((other.score for other in cell.others if other.origin == "measured"), None)


def store_board(suite: Suite, store: Store, *, sort: str | None = None) -> Board:
    """The board of a suite with the runs of a store; those whose rows cannot be used are told and left out."""
    from holdfast.boards.suite_board import suite_board
    from holdfast.site.site_store import SiteStore
    from holdfast.store.files import Unusable

    try:
        return suite_board(suite, store, sort=sort)
    except Unusable:
        readable = SiteStore(store)
        readable.without_damage()
        for problem in readable.problems.values():
            store.left_aside(problem)
        return suite_board(suite, readable, sort=sort)


def joined(one: Table, other: Table | None) -> Table:
    """The models of both tables under the settings of the first; of a name in both, the first counts."""
    from holdfast.store.scores import grid

    if other is None:
        return one
    cells, counts, sources = {}, {}, {}
    for table in (other, one):
        for i, model in enumerate(table.models):
            for j, setting in enumerate(table.settings):
                if setting in one.settings and table.values[i, j] == table.values[i, j]:
                    cells[model, setting] = float(table.values[i, j])
                    counts[model, setting] = int(table.counts[i, j])
                    sources[model, setting] = table.source_of(model, setting)
    order = sorted(cells, key=lambda key: one.settings.index(key[1]))
    return grid({key: cells[key] for key in order}, counts=counts, facts=one.facts, sources=dict(sources))


def print_matrix(outcomes: list[Outcome]) -> None:
    """Scenarios down, models across."""
    from holdfast.cli.output import print_table
    from holdfast.core.rounding import percent
    from holdfast.metrics.summary import line

    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    cells = {}
    for outcome in outcomes:
        if outcome.rows is None:
            cells[outcome.scenario, outcome.model] = "failed"
            continue
        made = line(outcome.rows)
        low, high = percent(made.accuracy.low), percent(made.accuracy.high)
        failed = f" ({made.failed} failed)" if made.failed else ""
        cells[outcome.scenario, outcome.model] = f"{percent(made.accuracy.value)} [{low}, {high}]{failed}"
    scenarios = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
    print_table(
        ["scenario", *models],
        [[name, *[cells.get((name, model), "") for model in models]] for name in scenarios],
        right=models,
    )
