"""Which boards there are: one per suite and dataset, one per list, and one for every other table of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

from holdfast.boards.provenance import with_stored_names
from holdfast.boards.suite_board import tables_of
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.suite_parameters import suite_reference
from holdfast.core.suites import Column, Suite, load_suite, published_lists, suites
from holdfast.store.published import benchmarks, published, settings
from holdfast.store.scores import Scores
from holdfast.store.store import Store

SHOWN = 6  # columns of a table that no suite describes; the rest are details


class BrokenSuite(NamedTuple):
    """A board that cannot be made, and why."""

    name: str
    problem: str


def board_suites(store: Store | None = None, *, own: Sequence[str] = ()) -> Iterator[Suite | BrokenSuite]:
    """Every board as the suite that describes it; `own` are suite files besides those of the package."""
    known: set[str] = set()
    for name in [*suites(), *published_lists(), *own]:
        try:
            suite = load_suite(name)
        except HoldfastError as error:
            if name in own:
                raise
            yield BrokenSuite(name, error.problem)
            continue
        known.update(tables_of(suite))
        if suite.board:
            yield suite
            yield from _variants(name, suite, store)
            yield from _moved(name, suite, store)
    for name in _tables(store):
        if name not in known:
            yield table_suite(name, store)


def named_board(
    name: str, store: Store, *, dataset: str | None = None, parameters: Mapping[str, str] | None = None
) -> Suite:
    """The board of a suite, of a list, or of a table by its name."""
    suite, _ = suite_reference(name)
    if suite not in suites() and suite not in published_lists() and not suite.endswith(".toml"):
        tables = _tables(store)
        if name in tables and dataset is None:
            return table_suite(name, store)
        raise unknown("board", name, [*suites(), *published_lists(), *tables], otherwise="`holdfast board` lists them")
    return load_suite(name, dataset=dataset, parameters=parameters)


def table_suite(name: str, store: Store | None) -> Suite:
    """A table that no suite describes: its settings are the columns, ranked by the first that has a direction."""
    columns: dict[str, Column] = {}
    if name in benchmarks():
        for setting in settings(name).values():
            columns[setting.name] = Column(setting.name, unit=setting.unit, better=setting.better)
    for scores in store.scores(name) if store is not None else ():
        for setting_name in scores.table.settings:
            columns.setdefault(setting_name, Column(setting_name, unit=scores.unit(setting_name)))
    chosen = [column for column in columns.values() if column.better][:SHOWN] or list(columns.values())[:SHOWN]
    shown = {column.name for column in chosen}
    made = tuple(
        Column(one.name, unit=one.unit, better=one.better, detail=one.name not in shown)
        for one in sorted(columns.values(), key=lambda one: one.name not in shown)
    )
    source = "; ".join(dict.fromkeys(_source(scores) for scores in _scores(name, store)))
    suite = Suite(
        name, f"Table: {name}", (), f"The numbers of `{name}` as they are.", source, published=(name,),
        sort=made[0].name if made else "", board=made,
    )  # fmt: skip
    paper = _suites_of_papers().get(source, suite)
    return replace(suite, space=paper.space, fit=paper.fit, leave_out=paper.leave_out)


@cache
def _suites_of_papers() -> dict[str, Suite]:
    """By source, a suite of the package: its lines are drawn as those of other tables from the same paper."""
    return {suite.source: suite for suite in map(load_suite, suites()) if suite.source}


def filled_by(suite: Suite) -> str:
    """The command that gives a board its first entries."""
    if suite.imports and not set(suite.published) <= set(benchmarks()):
        return f"holdfast import {suite.imports} FOLDER"
    models = "MODEL" if suite.is_moved else " ".join(suite.models) or "MODEL"
    return f"holdfast evaluate {models} --suite {suite.name}{suite.options}"


def _variants(name: str, suite: Suite, store: Store | None) -> Iterator[Suite]:
    """The suite with other values of its parameters, where a column of their own is whole for some model."""
    if store is None or not suite.choices:
        return
    done: dict[str, set[str]] = {}
    for footer in store.scored_footers():
        done.setdefault(footer.model, set()).add(footer.scenario)
    if not done:
        return
    own = {text for column in with_stored_names(suite, store).board for text in column.every_scenario}
    for values in product(*(values for _, values in suite.choices)):
        other = load_suite(name, parameters=dict(zip((word for word, _ in suite.choices), values, strict=True)))
        needed = [set(column.every_scenario) for column in with_stored_names(other, store).board]
        if other.variant and any(texts - own and texts <= runs for texts in needed for runs in done.values()):
            yield other


def _moved(name: str, suite: Suite, store: Store | None) -> Iterator[Suite]:
    """The suite on every other dataset on which it was run: one of its columns besides the clean one is whole."""
    if store is None or not suite.dataset:
        return
    runs: dict[str, dict[str, set[str]]] = {}
    for footer in store.scored_footers():
        runs.setdefault(footer.dataset, {}).setdefault(footer.model, set()).add(footer.scenario)
    for dataset, models in sorted(runs.items()):
        if dataset == suite.dataset or not any("+" in text for texts in models.values() for text in texts):
            continue
        try:
            moved = load_suite(name, dataset=dataset)
            needed = [_of_dataset(column, dataset) for column in with_stored_names(moved, store).board]
        except HoldfastError:
            continue
        if moved.is_moved and any(texts and texts <= done for texts in needed for done in models.values()):
            yield moved


def _of_dataset(column: Column, dataset: str) -> set[str]:
    """The scenarios of a column where all of them change this dataset; else none."""
    texts = column.every_scenario
    return set(texts) if all(text.startswith(f"{dataset}+") for text in texts) else set()


def _tables(store: Store | None) -> list[str]:
    imported = [scores.benchmark for scores in store.scores()] if store is not None else []
    return list(dict.fromkeys([*benchmarks(), *sorted(imported)]))


def _scores(name: str, store: Store | None) -> Iterable[Scores]:
    if name in benchmarks():
        yield published(name)
    if store is not None:
        yield from store.scores(name)


def _source(scores: Scores) -> str:
    if scores.origin is not None:
        return str(scores.origin)
    table = scores.table
    return table.source_of(table.models[0], table.settings[0]).partition(", Table")[0] if table.models else ""
