"""Short names that models and datasets were given: what tables and pages show in the place of refs.

names/DIGEST.json     one name each, the latest ref that it was given to; delete them at any time
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.config import Config
from holdfast.core.errors import HoldfastError
from holdfast.core.refs import checked_name, digest
from holdfast.core.values import split
from holdfast.store.files import Files
from holdfast.store.footer import Footer

if TYPE_CHECKING:
    from holdfast.store.store import Store

FOLDER, SUFFIX = "names", ".json"
KINDS = ("model", "dataset")


@dataclass(frozen=True, slots=True)
class ShownNames:
    """By kind, the name that is shown for each ref."""

    models: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)

    def shown(self, footer: Footer) -> Footer:
        """The footer with names in the place of refs."""
        model, dataset = self.models.get(footer.model), self.datasets.get(footer.dataset)
        if model is not None:
            footer = replace(footer, model=model)
        if dataset is not None:
            footer = replace(footer, scenario=self.shown_scenario(footer.scenario), dataset=dataset)
        return footer

    def shown_scenario(self, text: str) -> str:
        """A scenario with the name of its dataset."""
        return "+".join([self.datasets.get(_dataset(text), _dataset(text)), *_changes(text)])

    def plain_scenario(self, text: str) -> str:
        """A scenario as footers have it."""
        refs = {name: ref for ref, name in self.datasets.items()}
        return "+".join([refs.get(_dataset(text), _dataset(text)), *_changes(text)])


def read_names(files: Files, config: Config | None, footers: Callable[[], Iterable[Footer]]) -> ShownNames:
    """The names that a store keeps, and over them those of holdfast.toml. What cannot be read names nothing."""
    refs: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    records: list[tuple[str, ...]] = []
    unreadable = (HoldfastError, OSError, ValueError, TypeError, KeyError, RecursionError)
    with contextlib.suppress(*unreadable):
        for name in sorted(files.listing(FOLDER, SUFFIX).stamps):
            with contextlib.suppress(*unreadable):
                record = json.loads(files.read(name))
                checked_name(str(record["name"]))
                records.append(tuple(str(record[key]) for key in ("since", "kind", "name", "ref")))
    for _, kind, name, ref in sorted(records):
        refs.setdefault(kind, {})[ref] = name  # of two names of one ref, the later
    if config is not None and (config.models or config.datasets):
        for kind, names in _configured(config, list(footers())).items():
            refs[kind] = {ref: name for ref, name in refs[kind].items() if name not in names.values()} | names
    return ShownNames(refs["model"], refs["dataset"])


def write_name(store: Store, kind: str, name: str, ref: str) -> None:
    """Gives a name to a ref, where it has another or none; the ref that had it before is shown by its text."""
    if getattr(store.names(), f"{kind}s").get(ref) == name:
        return
    record = {"kind": kind, "name": name, "ref": ref, "since": datetime.now(UTC).isoformat()}
    store.files.write(f"{FOLDER}/{digest([kind, name])}{SUFFIX}", json.dumps(record, ensure_ascii=False).encode())


def _configured(config: Config, footers: list[Footer]) -> dict[str, dict[str, str]]:
    """Names of holdfast.toml for refs that the store has rows of, matched without importing a component."""
    from holdfast.store.stored_names import stored_names

    models = {footer.model: footer.model_full for footer in footers}
    datasets = {footer.dataset: split(footer.scenario_full, "+")[0] for footer in footers}
    named: dict[str, dict[str, str]] = {}
    for kind, texts, known in (("model", config.models, models), ("dataset", config.datasets, datasets)):
        refs = stored_names(texts.values(), known, kind=kind)
        named[kind] = {refs[text]: name for name, text in texts.items() if refs[text] in known}
    return named


def _dataset(text: str) -> str:
    return split(text, "+")[0]


def _changes(text: str) -> list[str]:
    return split(text, "+")[1:]
