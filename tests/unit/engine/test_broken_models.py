"""The broken models of benchmarks/broken_models.py: each is found out by the check or by a run's own flags."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
import torch

from holdfast.core.registry import registry
from holdfast.engine.evaluate import evaluate
from holdfast.engine.trials import flags_on, trials_on
from holdfast.models import TorchClassifier, load, wrap

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from broken_models import CASES, Case, made

CPU = torch.device("cpu")
BY_CHECK_NOT = {"reversed gradient in batches over 32"}  # larger than what a check looks at: found by trials and runs
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@functools.cache
def networks() -> tuple[torch.nn.Module, torch.nn.Module]:
    return load("fashion-standard", device="cpu").net, load("fashion-noise", device="cpu").net


def model(case: Case) -> TorchClassifier:
    torch.manual_seed(0)
    return wrap(made(case, *networks()), name="broken", classes=10, channels=1)


@each_case
def test_the_check_finds_it(case: Case) -> None:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    assert bool(flags_on(model(case), dataset, CPU)) == (case.name not in BY_CHECK_NOT)


missed = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in BY_CHECK_NOT], ids=sorted(BY_CHECK_NOT)
)


@missed
def test_what_the_check_misses_a_run_finds(case: Case, tmp_path: Path) -> None:
    scenario = "fashion-mnist-2k+pgd-linf:radius=16/255,steps=10"
    (outcome,) = evaluate(model(case), scenario, store=str(tmp_path), samples=60, device="cpu", pictures=0)
    assert outcome.rows is not None
    assert outcome.rows.footer.flags


@missed
@pytest.mark.slow
def test_what_the_check_misses_its_attacks_find(case: Case) -> None:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    assert trials_on(model(case), dataset, CPU, lambda _: None)


@pytest.mark.parametrize("name", ["fashion-standard", "fashion-noise", "fashion-at-linf", "fashion-at-l2"])
def test_no_bundled_model_raises_an_alarm(name: str) -> None:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    assert flags_on(load(name, device="cpu"), dataset, CPU) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fashion-standard", "fashion-noise", "fashion-at-linf", "fashion-at-l2"])
def test_no_bundled_model_raises_an_alarm_under_trials(name: str) -> None:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    assert trials_on(load(name, device="cpu"), dataset, CPU, lambda _: None) == ()
