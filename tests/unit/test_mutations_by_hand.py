"""The faults of `scripts/mutations_by_hand.toml` still fit the source, and the tests that they name exist."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = tomllib.loads((ROOT / "scripts" / "mutations_by_hand.toml").read_text())["mutation"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["fault"])
def test_a_fault_can_be_made_and_names_a_test(fault: dict[str, str]) -> None:
    source = (ROOT / "src" / "holdfast" / fault["module"]).read_text()
    assert source.count(fault["old"]) == 1
    compile(source.replace(fault["old"], fault["new"]), fault["module"], "exec")
    file, _, name = fault["test"].partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_faults_are_told_apart_by_their_words() -> None:
    assert len({fault["fault"] for fault in FAULTS}) == len(FAULTS) >= 40
