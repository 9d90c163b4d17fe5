"""What is known of models besides their scores: from their cards, from imported tables, or from a file of one's own."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.types import ModelCard
from holdfast.store.source_files import BadFile, opened
from holdfast.store.store import Store

Facts = dict[str, dict[str, str]]


def facts_on_card(card: ModelCard) -> dict[str, str]:
    """The facts on a model's card: the data it was trained on, its type and its group."""
    facts = {"data": card.trained_on, "type": card.kind, "group": card.group}
    return {name: value for name, value in facts.items() if value}


def stored_facts(store: Store) -> Facts:
    """Facts of every model with rows: from its card, and what tables imported under the same name say besides."""
    known: Facts = {}
    for footer in sorted(store.footers().values(), key=lambda each: each.finished):
        known.setdefault(footer.model, {}).update(facts_on_card(footer.card))
    for scores in store.scores():
        for model, facts in scores.table.facts.items():
            if model in known:
                known[model] = {**facts, **known[model]}
    return known


def facts_in(path: str) -> Facts:
    """A CSV file with a column `model` and one for each fact."""
    source = opened(Path(path).expanduser())
    known: Facts = {}
    for record in source.records(["model"]):
        model = record.pop("model")
        if model in known:
            raise BadFile(f"{path} has `{model}` twice", hint="one line per model")
        known[model] = {name: value.strip() for name, value in record.items() if value and value.strip()}
    if not any(known.values()):
        raise BadFile(f"{path} has no facts", hint="a column `model`, and one for each fact, such as group")
    return known
