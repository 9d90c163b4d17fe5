"""A model or scenario as people write it, found among those that a store has runs of.

A footer has every name twice: short, without arguments at their default, and in full. Both are enough to match what
people write, so no component is imported, and tables and pages need no torch.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.refs import TELLING, Parsed, parse_ref, split_name
from holdfast.core.values import Value, split, value_text
from holdfast.store.store import Store


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
    given, shown, bound = _parsed(text, kind), _parsed(short, kind), _parsed(full, kind)
    if len(given) != len(shown) or len(shown) != len(bound):
        return False  # a footer whose two names of one run do not fit is somebody else's
    return _all(_part_match(*parts) for parts in zip(given, shown, bound, strict=True))


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
