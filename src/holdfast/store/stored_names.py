"""A model or scenario as people write it, found among those that a store has runs of; and the short names they have.

names/DIGEST.json     a short name, which tables and pages show in the place of a ref, and the latest ref that it was
                      given to; delete them at any time

A footer has every name twice: short, without arguments at their default, and in full. Both are enough to match what
people write, so no component is imported, and tables and pages need no torch.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.core.config import Config
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.refs import TELLING, Parsed, digest, parse_ref, split_name
from holdfast.core.values import Value, split, value_text
from holdfast.store.files import Files
from holdfast.store.footer import Footer

if TYPE_CHECKING:
    from holdfast.store.store import Store

FOLDER, SUFFIX = "names", ".json"
KINDS = ("model", "dataset")


def stored_model(store: Store, text: str) -> str:
    """The model as its rows name it, by its ref or the name on its card; the text itself where there is none."""
    footers, names = store.plain_footers(), store.names().models
    if text in names.values():
        return text
    known = {footer.model: footer.model_full for footer in footers}
    by_card = {footer.model for footer in footers if footer.card.name == text}
    if text not in known and len(by_card) == 1:
        model = by_card.pop()
    else:
        model = stored_names([split_name(text)[1]], known, kind="model")[split_name(text)[1]]
    return names.get(model, model)


def stored_scenarios(store: Store, texts: Iterable[str]) -> dict[str, str]:
    """By text, the scenario as its rows name it; the text itself where no run has it."""
    texts = list(texts)
    known = {footer.scenario: footer.scenario_full for footer in store.plain_footers()} if texts else {}
    names = store.names()
    plain = {text: names.plain_scenario(text) if _parsed(text, "scenario") else text for text in texts}
    stored = stored_names(plain.values(), known)
    return {
        text: names.shown_scenario(stored[plain[text]]) if _parsed(plain[text], "scenario") else text for text in texts
    }


def matching_scenarios(store: Store, texts: Iterable[str]) -> list[str]:
    """The scenarios that texts name; `*` in a text stands for anything: `*pgd*`. An error where a pattern fits none."""
    texts = list(texts)
    exact = stored_scenarios(store, [text for text in texts if "*" not in text])
    every = sorted({footer.scenario for footer in store.footers().values()}) if len(exact) < len(set(texts)) else []
    chosen: list[str] = []
    for text in texts:
        if text in exact:
            chosen.append(exact[text])
            continue
        form = re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
        fitting = [name for name in every if form.fullmatch(name)]
        if not fitting:
            raise Misuse(f"no measured scenario fits `{text}`", hint="`holdfast scores` lists those that there are")
        chosen += fitting
    return list(dict.fromkeys(chosen))


def stored_names(texts: Iterable[str], known: Mapping[str, str], *, kind: str = "scenario") -> dict[str, str]:
    """By text, the short name among the `known` (short → full) that means the same; the text itself where none does.

    Where the names alone cannot tell, because a text leaves out a radius or severity or gives an argument that the
    full name lacks, the registry is asked for the default, if its components can be imported.
    """
    names = {text: text for text in texts}
    others = [text for text in names if text not in known]
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)  # known names by those of their components
    for name in known if others else ():
        alike[_components(name, kind)].append(name)
    for text in others:
        candidates = alike.get(_components(text, kind), ()) if _parsed(text, kind) else ()
        matches = {name: _match(text, name, known[name], kind) for name in candidates}
        sure = [name for name, is_match in matches.items() if is_match]
        if sure:
            names[text] = max(sure, key=len)  # where a default has changed, the name that says the value
        elif None in matches.values():
            bound = _bound(text, kind)
            names[text] = text if bound is None or bound not in known else bound
    return names


def _match(text: str, short: str, full: str, kind: str) -> bool | None:
    """Whether a text means the run of this name; None where only the components' defaults could tell."""
    parts = zip(_parsed(text, kind), _parsed(short, kind), _parsed(full, kind), strict=True)
    return _all(_part_match(given, shown, bound) for given, shown, bound in parts)


def _part_match(given: Parsed, shown: Parsed, bound: Parsed) -> bool | None:
    """Every argument given is the one bound, and every one left out is at its default: the short name leaves it out."""
    if len(given.positional) > len(bound.positional):
        return False
    equal = [_is_same(*pair) for pair in zip(given.positional, bound.positional, strict=False)]
    equal += [_is_same(value, bound.keywords[name]) for name, value in given.keywords.items() if name in bound.keywords]
    left_out = [None if name in TELLING else False for name in shown.keywords.keys() - given.keywords.keys()]
    needs_names = len(given.positional) < len(bound.positional) or given.keywords.keys() - bound.keywords.keys()
    return _all([*equal, *left_out, None if needs_names else True])


def _all(matches: Iterable[bool | None]) -> bool | None:
    every = set(matches)
    return False if False in every else None if None in every else True


def _is_same(given: Value, bound: Value) -> bool:
    """Whether a value as written is the one that was bound: of the parameter's type, which the bound one has."""
    if isinstance(bound, tuple):
        items = given if isinstance(given, tuple) else (given,)
        return len(items) == len(bound) and all(map(_is_same, items, bound))
    if isinstance(bound, str):
        return given is not None and (given if isinstance(given, str) else value_text(given)) == bound
    return given == bound and isinstance(given, bool) == isinstance(bound, bool)


def _components(text: str, kind: str) -> tuple[str, ...]:
    return tuple(part.name for part in _parsed(text, kind))


@lru_cache(maxsize=1 << 16)
def _parsed(text: str, kind: str) -> tuple[Parsed, ...]:
    """The refs of a text; none where it cannot be read."""
    try:
        return tuple(parse_ref(part) for part in (split(text, "+") if kind == "scenario" else [text]))
    except Misuse:
        return ()


def _bound(text: str, kind: str) -> str | None:
    """The short name that this installation gives; None where it lacks torch, or the component."""
    from holdfast.core.registry import registry

    try:
        return str(registry.scenario(text) if kind == "scenario" else registry.bind(kind, text))
    except ImportError as error:
        problem = f"`{text}` leaves out an argument whose default is not known here: {error}"
        warnings.warn(f"{problem}; write it as `holdfast status` does", HoldfastWarning, stacklevel=2)
    except HoldfastError:
        pass
    return None


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
        return _with_dataset(text, self.datasets)

    def plain_scenario(self, text: str) -> str:
        """A scenario as footers have it."""
        return _with_dataset(text, {name: ref for ref, name in self.datasets.items()})


def read_names(files: Files, config: Config | None, footers: Callable[[], Iterable[Footer]]) -> ShownNames:
    """The names that a store keeps, and over them those of holdfast.toml. What cannot be read names nothing."""
    refs: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    records = []
    try:
        for name in sorted(files.listing(FOLDER, SUFFIX).stamps):
            record = json.loads(files.read(name))
            records.append(tuple(str(record[key]) for key in ("since", "kind", "name", "ref")))
    except (HoldfastError, OSError, ValueError, TypeError, KeyError):
        records = []
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
    models = {footer.model: footer.model_full for footer in footers}
    datasets = {footer.dataset: split(footer.scenario_full, "+")[0] for footer in footers}
    named: dict[str, dict[str, str]] = {}
    for kind, texts, known in (("model", config.models, models), ("dataset", config.datasets, datasets)):
        refs = stored_names(texts.values(), known, kind=kind)
        named[kind] = {refs[text]: name for name, text in texts.items() if refs[text] in known}
    return named


def _with_dataset(text: str, names: Mapping[str, str]) -> str:
    dataset, *changes = split(text, "+")
    return "+".join([names.get(dataset, dataset), *changes])
