"""What the scores of a board rest on: the runs behind a measured one, the settings behind an imported one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from holdfast.core.suites import Column, Suite
from holdfast.metrics.summary import Line, lines
from holdfast.store.store import Store
from holdfast.store.stored_names import stored_names, stored_scenarios


@dataclass(frozen=True, slots=True)
class Basis:
    """The runs behind a measured score, and the scenarios that it still lacks."""

    runs: tuple[Line, ...]
    missing: tuple[str, ...]


def score_bases(suite: Suite, store: Store) -> dict[str, dict[str, Basis]]:
    """By model and column, what every measured score of a board rests on."""
    suite = with_stored_names(suite, store)
    needed = {column.name: scenarios_of(column, suite) for column in suite.board}
    every = list(dict.fromkeys(text for texts in needed.values() for text in texts))
    return {
        model: {
            name: Basis(
                tuple(runs[text] for text in texts if text in runs), tuple(text for text in texts if text not in runs)
            )
            for name, texts in needed.items()
        }
        for model, runs in lines_by_model(store, every).items()
    }


def lines_by_model(store: Store, scenarios: Sequence[str]) -> dict[str, dict[str, Line]]:
    """The scores of every model under these scenarios."""
    by_model: dict[str, dict[str, Line]] = {}
    for line in lines(store, scenarios=scenarios) if scenarios else ():
        by_model.setdefault(line.footer.model, {})[line.footer.scenario] = line
    return by_model


def with_stored_names(suite: Suite, store: Store | None) -> Suite:
    """The suite with its scenarios as the rows of the store name them; those without rows stay as they are."""
    columns = [text for column in suite.board for term in (*column.scenarios, (column.reference,)) for text in term]
    every = {*suite.scenarios, *columns, *(text for part in suite.parts for text in part.scenarios)}
    names = _names_in_rows(store, every) if store is not None else {}
    if all(text == name for text, name in names.items()):
        return suite
    return replace(
        suite,
        scenarios=tuple(names[text] for text in suite.scenarios),
        parts=tuple(replace(part, scenarios=tuple(names[text] for text in part.scenarios)) for part in suite.parts),
        board=tuple(
            replace(
                column,
                scenarios=tuple(tuple(names[text] for text in term) for term in column.scenarios),
                reference=names[column.reference],
            )
            for column in suite.board
        ),
    )


def _names_in_rows(store: Store, texts: Collection[str]) -> dict[str, str]:
    """`stored_scenarios`, which reads every text several times, only where a dataset has a short name."""
    if store.names().datasets:
        return stored_scenarios(store, texts)
    known = {footer.scenario: footer.scenario_full for footer in store.plain_footers()}
    return stored_names(texts, known) if known else {}


def scenarios_of(column: Column, suite: Suite) -> list[str]:
    """The scenarios that a column is made of: its own, their reference, those of its columns."""
    return _listed(column, suite, lambda one: (*one.scenarios, (one.reference,) if one.reference else ()))


def settings_of(column: Column, suite: Suite) -> list[str]:
    """The settings of an imported file that a column is made of."""
    return _listed(column, suite, lambda one: one.settings)


def _listed(column: Column, suite: Suite, part: Callable[[Column], tuple[tuple[str, ...], ...]]) -> list[str]:
    named = {one.name: one for one in suite.board}
    own = [text for term in part(column) for text in term]
    inner = [text for name in column.of for text in _listed(named[name], suite, part)]
    return list(dict.fromkeys([*own, *inner]))
