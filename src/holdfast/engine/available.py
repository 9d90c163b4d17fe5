"""Which data the scenarios of a suite need that is not on this machine, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.errors import Absent, HoldfastError
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.values import split
from holdfast.datasets.downloads import catalogue, downloads

CHOOSING = ("variant", "form", "version", "split", "corruption")  # arguments that may name files of their own


def absences(scenarios: Sequence[str]) -> dict[str, Absent]:
    """By dataset, as its scenarios write it, why it cannot be read here; its hint says how to get it.

    No image is decoded. A dataset that is here but damaged, or laid out in no known way, is no absence: reading it
    says what is wrong.
    """
    downloads()
    missing_data: dict[str, Absent] = {}
    looked: dict[object, Absent | None] = {}
    for text in dict.fromkeys(split(scenario, "+")[0].strip() for scenario in scenarios):
        for ref in _sources(registry.bind("dataset", text)):
            key = (ref.name, *((name, value) for name, value in ref.args if name in CHOOSING))
            if key not in looked:
                looked[key] = _looked_for(ref)
            missing = looked[key]
            if missing is not None:
                missing_data.setdefault(text, missing)
    return missing_data


def _looked_for(ref: Ref) -> Absent | None:
    """What keeps a published dataset from being read: its files, or those of the variant that is asked for."""
    download = catalogue[ref.name]
    if download.state == "missing":
        return download.missing(download.forms[0].files[0].name if download.forms else (*download.folders, "")[0])
    if download.state == "here" and not any(name in CHOOSING for name, _ in ref.args):
        return None
    try:
        registry.build(ref)
    except Absent as missing:
        return missing
    except HoldfastError:
        return None
    return None


def _sources(ref: Ref) -> Iterator[Ref]:
    """The published datasets that a dataset is read from: itself, or those it is built of."""
    if ref.name in catalogue:
        yield ref
        return
    if "built" not in registry.entry("dataset", ref.name).tags:
        return
    known = registry.entries("dataset")
    for _, value in ref.args:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and text and parse_ref(text).name in known:
                yield from _sources(registry.bind("dataset", text))
