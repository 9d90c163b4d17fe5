"""Random inputs of every kind end in a result or in an error of ours; `benchmarks/fuzz.py` tries 100,000 of them."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.core.patterns import expanded
from holdfast.core.registry import registry
from holdfast.core.values import parse_value

HOME = Path(__file__).parent / "fuzz_targets.py"
FEW = {"command line": 15, "stores": 40}
INPUTS = 150  # of every other kind


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_targets", HOME)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


KINDS = (
    *("refs", "patterns", "values", "suites", "footers", "stores", "answers", "arrays", "shards", "idx", "tables"),
    *("logits", "score files", "command line", "import tidy", "import timm", "import robustbench"),
    *("import multirobustbench", "import oodrobustbench", "import imagenet-testbed", "import cifar10-1-predictions"),
)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, dict[str, object]]:
    made = _module()
    return made, made.targets(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_input_is_a_result_or_an_error_of_ours(
    kind: str, module: tuple[ModuleType, dict[str, object]]
) -> None:
    made, targets = module
    assert set(targets) == set(KINDS)
    for number in range(FEW.get(kind, INPUTS)):
        made.fed(targets[kind], random.Random(f"test {kind} {number}"))


@given(st.text(max_size=200) | st.text(alphabet='()[]{}",+:=/\\.-e0123456789ab ', max_size=200))
def test_any_text_is_a_ref_a_pattern_and_a_value_or_refused(text: str) -> None:
    readers = (parse_value, expanded, registry.scenario, registry.bind_change, lambda one: registry.bind("model", one))
    for reader in readers:
        problem = ""
        try:
            reader(text)
        except HoldfastError as error:
            problem = error.problem
        assert len(problem) < 2000


@pytest.mark.slow
def test_many_thousand_inputs_raise_nothing_else() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"
    answer = subprocess.run(
        [sys.executable, str(script), "--inputs", "25000"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout[-4000:]
