"""The registry: one file makes a component, clashes are errors, plug-ins come in by folder and entry point."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Literal

import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import HOMES, Registry, coerced, in_words, register, registry

PLUGIN = '''
from holdfast.corruptions.ladder import corruption

@corruption("inverted", category="digital", cifar=(1.0,) * 5, imagenet=(1.0,) * 5)
class Inverted:
    """Turns every image into its negative, as a scan of a film would be."""

    def draw(self, images, level, noise):
        return images.new_zeros(len(images))

    def apply(self, images, drawn):
        return 1.0 - images
'''


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The registry as it is, with what a test adds taken out again."""
    for kind in HOMES:  # what a module registers when it is first imported would be taken out for good
        registry.entries(kind)
    monkeypatch.setattr(registry, "components", {kind: dict(entries) for kind, entries in registry.components.items()})
    monkeypatch.setattr(registry, "discovered", set(registry.discovered) - {"plugins", "holdfast.corruptions"})
    return registry


def test_a_file_in_a_plug_in_folder_is_a_component(
    clean_registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    monkeypatch.setenv("HOLDFAST_PLUGINS", str(tmp_path))
    assert "inverted" in clean_registry.entries("corruption")
    from holdfast import conformance

    conformance.check_entry("corruption", "inverted")
    conformance.check_corruption("inverted:severity=2")


def test_an_entry_point_is_loaded(clean_registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    class Point:
        def load(self) -> None:
            loaded.append("yes")

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point()] if group == "holdfast" else [])
    clean_registry.entries("corruption")
    clean_registry.entries("corruption")
    assert loaded == ["yes"]


def test_a_plug_in_folder_that_is_not_there_is_said(
    clean_registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_PLUGINS", str(tmp_path / "nowhere"))
    with pytest.raises(Misuse, match="does not exist"):
        clean_registry.entries("corruption")


def test_a_name_belongs_to_one_change_only(clean_registry: Registry) -> None:
    def other() -> None:
        """Something else."""

    with pytest.raises(HoldfastError, match="two attacks are named `contrast`"):
        register("attack", "contrast")(other)


def test_the_same_factory_may_register_again(clean_registry: Registry) -> None:
    factory = clean_registry.entry("attack", "pgd-linf").factory
    register("attack", "pgd-linf")(factory)
    assert clean_registry.entry("attack", "pgd-linf").factory is factory


def test_a_ref_of_another_version_is_not_made_by_this_one() -> None:
    from dataclasses import replace

    ref = registry.bind("attack", "pgd-linf")
    with pytest.raises(HoldfastError, match="version 1 here, the ref is of version 7"):
        registry.build(replace(ref, version=7))


def test_a_kind_nobody_knows_is_misuse() -> None:
    with pytest.raises(Misuse, match="no kind named `atack`"):
        registry.entries("atack")


def test_a_required_argument_is_asked_for() -> None:
    with pytest.raises(Misuse, match="`folder` needs `path`"):
        registry.bind("dataset", "folder")


def test_positional_arguments_are_printed_without_a_name() -> None:
    ref = registry.bind("dataset", "folder:/data/birds,size=64")
    assert str(ref) == "folder:/data/birds,size=64"
    assert registry.bind("dataset", "folder:path=/data/birds,size=64") == ref
    with pytest.raises(Misuse, match="given twice"):
        registry.bind("dataset", "folder:/a,path=/b")


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [
        (1, float, 1.0),
        (2.5, float | None, 2.5),
        (None, float | None, None),
        (None, tuple[float, ...] | None, None),
        (3, tuple[float, ...], (3.0,)),
        ((1, 2), tuple[float, ...], (1.0, 2.0)),
        (2024, str, "2024"),
        ("a", Literal["a", "b"], "a"),
        (True, bool, True),
    ],
)
def test_values_take_the_type_of_their_parameter(value: object, annotation: object, result: object) -> None:
    made = coerced(value, annotation, "it")  # type: ignore[arg-type]
    assert made == result
    assert type(made) is type(result)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("x", float),
        (1.5, int),
        (True, int),
        (True, float),
        (1, bool),
        ("c", Literal["a", "b"]),
        (("x",), tuple[float, ...]),
    ],
)
def test_values_of_another_type_are_refused(value: object, annotation: object) -> None:
    with pytest.raises(Misuse, match="must be"):
        coerced(value, annotation, "it")  # type: ignore[arg-type]


def test_types_are_said_in_words() -> None:
    assert in_words(float | None) == "a number or none"
    assert in_words(tuple[int, ...]) == "a list like [a,b] of a whole number"
    assert in_words(Literal["a", 2]) == "one of a, 2"
