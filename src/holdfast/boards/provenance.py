"""What the scores of a board rest on: the runs behind a measured one, the settings behind an imported one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.suites import Column, Suite
from holdfast.metrics.summary import Line, lines
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class Basis:
    """The runs behind a measured score, and the scenarios that it still lacks."""

    runs: tuple[Line, ...]
    missing: tuple[str, ...]


def score_bases(suite: Suite, store: Store, *, spelled: Callable[[str], str] = str) -> dict[str, dict[str, Basis]]:
    """By model and column, what every measured score of a board rests on; `spelled` as in `suite_board.board`."""
    wanted = {column.name: [spelled(text) for text in scenarios_of(column, suite)] for column in suite.board}
    every = list(dict.fromkeys(text for texts in wanted.values() for text in texts))
    found: dict[str, dict[str, Line]] = {}
    for line in lines(store, scenarios=every) if every else ():
        found.setdefault(line.footer.model, {})[line.footer.scenario] = line
    return {
        model: {
            name: Basis(
                tuple(runs[text] for text in texts if text in runs), tuple(text for text in texts if text not in runs)
            )
            for name, texts in wanted.items()
        }
        for model, runs in found.items()
    }


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
