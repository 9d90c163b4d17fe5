"""Rows belong to the code that made them: an edited plug-in is measured anew, whatever version it claims."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.component_code import foreign_code
from holdfast.core.refs import Ref
from holdfast.core.registry import registry
from holdfast.store import Store

DIM = """
import numpy as np
import torch
from dim_parts import faded
from holdfast.core.registry import register
from holdfast.corruptions.ladder import Corruption

SHARES = {"cifar": (0.9, 0.1)}
MASK = np.ones(4)
KEPT = torch.ones(3)

class Renderer:
    def __init__(self, floor=0.0):
        self.floor = floor
    def draw(self, images, level, noise):
        return level
    def apply(self, images, drawn):
        return lifted(faded(images, drawn), self.floor)

def lifted(images, floor):
    return images + floor

RENDERER = Renderer(0.0)

@register("corruption", "NAME")
def dim(*, severity: int = 1) -> Corruption:
    \"\"\"Darker.\"\"\"
    return Corruption("NAME", RENDERER, SHARES, severity, "cifar", "round") if len(MASK) + len(KEPT) else None
"""
PARTS = """
def faded(images, share):
    return images * share
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """The digest of a plug-in as it is in these files, and of a scenario that uses it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def digest(plug_in: str = DIM, parts: str = PARTS, scenario: str = "fashion-mnist-2k+dim") -> str:
        name = f"dim_{len(made)}"
        made.append(name)
        registry.components["corruption"].pop("dim", None)
        sys.modules.pop("dim_parts", None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        (tmp_path / "dim_parts.py").write_text(parts)
        (tmp_path / f"{name}.py").write_text(plug_in.replace("NAME", "dim"))
        spec = importlib.util.spec_from_file_location(f"plug_{len(made)}", tmp_path / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return foreign_code(registry.scenario(scenario).parts)

    before = sys.dont_write_bytecode
    yield digest
    sys.dont_write_bytecode = before
    registry.components["corruption"].pop("dim", None)


def test_what_comes_with_the_package_has_no_code_in_its_key() -> None:
    scenario = registry.scenario("subsample:(fashion-mnist-2k),count=9+fog+worst-of:attacks=[(pgd-linf),(fgsm)]")
    assert foreign_code(scenario.parts) == ""


EDITS = {
    "function": ("images + floor", "images - floor"),
    "method": ("return level", "return 2 * level"),
    "table": ("(0.9, 0.1)", "(0.8, 0.1)"),
    "array": ("np.ones(4)", "np.zeros(4)"),
    "tensor": ("torch.ones(3)", "torch.zeros(3)"),
    "object": ("RENDERER = Renderer(0.0)", "RENDERER = Renderer(0.5)"),
    "factory": ('"cifar", "round"', '"cifar", "off"'),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_makes_other_code(edit: str, code: Callable[..., str]) -> None:
    first = code()
    assert first.startswith("code of dim")
    assert code() == first
    old, new = EDITS[edit]
    assert DIM.count(old) == 1
    assert code(DIM.replace(old, new)) != first


def test_an_edit_of_a_module_beside_it_makes_other_code(code: Callable[..., str]) -> None:
    assert code() != code(parts=PARTS.replace("images * share", "images / share"))


def test_comments_and_layout_are_no_code(code: Callable[..., str]) -> None:
    assert code() == code("# a comment\n" + DIM.replace("images + floor", "images  +  floor  # lifted"))


def test_code_named_inside_another_component_counts(code: Callable[..., str]) -> None:
    scenario = Ref("attack", "worst-of", (("attacks", ("fgsm", "dim:severity=2")),), 1)
    first = code()
    assert foreign_code((scenario,)) == first


def test_rows_of_an_edited_plug_in_are_not_used_again(tmp_path: Path) -> None:
    messages, environment = [], os.environ | {"HOLDFAST_PLUGINS": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "holdfast", "evaluate", "fashion-standard", "--samples", "30"]
    command += ["--scenario", "fashion-mnist-2k+my-dim", "--store", str(tmp_path / "rows")]
    for parts in (PARTS, PARTS, PARTS.replace("images * share", "images * 0")):
        (tmp_path / "dim.py").write_text(DIM.replace("NAME", "my-dim").replace("from dim_parts import faded", parts))
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        messages.append(done.stderr)
    store = Store(str(tmp_path / "rows"))
    assert len(store.footers()) == 2
    assert "is not that of its rows" not in messages[1]
    assert "is not that of its rows" in messages[2]
    low, high = sorted(store.read(key).correct.mean() for key in store.footers())
    assert low < 0.3 < 0.6 < high
