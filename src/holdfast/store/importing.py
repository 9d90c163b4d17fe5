"""What a store keeps of others: imported scores and rows, put in, replaced and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import Misuse, unknown
from holdfast.core.table import Table
from holdfast.store.decoding import row_name
from holdfast.store.footer import Footer
from holdfast.store.scores import Scores, from_tidy, scores_file_name, scores_to_parquet, tidy
from holdfast.store.store import Store

FORMAT = "format"  # the fact of a run that names the format it was imported from


class Kept(NamedTuple):
    """What became of imported scores: `state` is `new`, `there already` or `facts changed`; `replaced` names files."""

    scores: Scores
    state: str
    replaced: tuple[str, ...] = ()


class Import(NamedTuple):
    """Something that was imported: its name, by which it is removed, and where it comes from."""

    name: str
    benchmark: str
    models: int
    settings: int
    source: str
    files: tuple[str, ...]


def keep(store: Store, imported: Sequence[Scores], *, replace: bool = False) -> list[Kept]:
    """Keeps imported scores. Another version of the same scores is an error unless it is to be replaced.

    Files of one benchmark stand beside each other where no number is in both. The same numbers with more facts about
    their models are kept with those.
    """
    others = [other_versions(store, scores) for scores in imported]
    for scores, matches in zip(imported, others, strict=True):
        if matches and not replace:
            known = "; ".join(f"{import_name(one)}, from {one.origin}" for one in matches)
            raise Misuse(
                f"`{scores.benchmark}` is in this store in another version: {known}",
                hint="--replace puts the new one in its place; `holdfast import --remove NAME` removes one",
            )
    return [_kept(store, *pair, replace=replace) for pair in zip(imported, others, strict=True)]


def other_versions(store: Store, scores: Scores) -> list[Scores]:
    """Other imported files that have a number for the same model and setting of the same benchmark."""
    there = store.scores(scores.benchmark)
    return [one for one in there if one.key != scores.key and shared_cells(one.table, scores.table)]


def _kept(store: Store, scores: Scores, others: Sequence[Scores], *, replace: bool) -> Kept:
    same = next((one for one in store.scores(scores.benchmark) if one.key == scores.key), None)
    state = "new" if same is None else "there already"
    if same is None:
        store.add_scores(scores)
    elif (facts := _joined(same, scores, replace=replace)) != _facts(same.table):
        made = changed(scores, table=changed(scores.table, facts=facts))
        store.files.write(scores_file_name(made), scores_to_parquet(made))
        state = "facts changed"
    for one in others:  # last: a failure above leaves what was there
        store.files.remove(scores_file_name(one))
    return Kept(scores, state, tuple(import_name(one) for one in others))


def imports(store: Store) -> list[Import]:
    """All that was imported: every file of scores, and the runs of each format."""
    matches = []
    for one in store.scores():
        table = one.table
        shape = (len(table.models), len(table.settings))
        matches.append(Import(import_name(one), one.benchmark, *shape, str(one.origin or ""), (scores_file_name(one),)))
    runs: dict[str, dict[str, Footer]] = {}
    for key, footer in store.footers().items():
        if FORMAT in footer.facts and footer.is_imported:
            runs.setdefault(footer.facts[FORMAT], {})[row_name(key)] = footer
    for name, footers in sorted(runs.items()):
        models, scenarios = ({getattr(one, what) for one in footers.values()} for what in ("model", "scenario"))
        files = tuple(sorted(footers))
        matches.append(Import(name, name, len(models), len(scenarios), f"{len(files)} runs", files))
    return matches


def remove(store: Store, name: str) -> Import:
    """Removes what was imported under a name: that of a benchmark, of one of its files, or of the file it came from."""
    there = imports(store)
    matches = [one for one in there if name == one.name] or [
        one for one in there if name == one.benchmark or one.source.startswith(f"{name} (")
    ]
    if not matches:
        raise unknown("import", name, {known for one in there for known in (one.name, one.benchmark)})
    if len(matches) > 1:
        listed = "; ".join(f"{one.name}, from {one.source}" for one in matches)
        raise Misuse(
            f"{len(matches)} imports are called `{name}`: {listed}", hint=f"name one: --remove {matches[0].name}"
        )
    for file in matches[0].files:
        store.files.remove(file)
        store.index.drop(file)
    return matches[0]


def together(files: Sequence[Scores]) -> Scores:
    """Several imported files of one benchmark as one table; an error where two of them have the same number."""
    for i, one in enumerate(files):
        for other in files[:i]:
            if shared_cells(one.table, other.table):
                known = "; ".join(f"{import_name(each)}, from {each.origin}" for each in files)
                raise Misuse(
                    f"two imported files have numbers for the same models of `{one.benchmark}`: {known}",
                    hint=f"keep one: `holdfast import --remove {import_name(other)}`, or --replace it",
                )
    records = [record for one in files for record in tidy(one)]
    facts = {model: dict(known) for one in files for model, known in one.table.facts.items()}
    return from_tidy(records, facts)


def import_name(scores: Scores) -> str:
    """The name of one file of imported scores: its benchmark and its key."""
    return f"{scores.benchmark}.{scores.key}"


def shared_cells(one: Table, other: Table) -> int:
    """How many models and settings have a number in both."""
    models, settings = (
        [name for name in getattr(one, what) if name in set(getattr(other, what))] for what in ("models", "settings")
    )
    if not models or not settings:
        return 0
    has = [
        ~np.isnan(table.of(models).values[:, [table.settings.index(name) for name in settings]])
        for table in (one, other)
    ]
    return int((has[0] & has[1]).sum())


def _facts(table: Table) -> dict[str, dict[str, str]]:
    return {model: dict(table.facts.get(model, {})) for model in table.models}


def _joined(one: Scores, other: Scores, *, replace: bool) -> dict[str, dict[str, str]]:
    """The facts of both files of the same numbers; those of the other count, alone where they are to replace."""
    theirs = _facts(other.table)
    return theirs if replace else {model: facts | theirs[model] for model, facts in _facts(one.table).items()}
