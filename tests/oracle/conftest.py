"""What oracle tests share: the script that computes the published tables again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def page() -> ModuleType:
    script = Path(__file__).parents[2] / "scripts" / "make_reproduction.py"
    spec = importlib.util.spec_from_file_location("make_reproduction", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
