"""All recipes of a file: what is trained is kept, and what is trained elsewhere is left alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import read_card
from holdfast.training import family_training
from holdfast.training.output_file import reserved
from holdfast.training.processes import Processes
from holdfast.training.recipes import Recipe

QUICK = Recipe(
    "quick", dataset="subsample:fashion-mnist-2k,count=100", architecture="small-cnn:width=2", epochs=2, batch=50
)


def work(recipe: Recipe, out: Path, **more: Any) -> None:
    deadline = time.time() + 1000
    family_training.work([recipe], out, torch.device("cpu"), deadline=deadline, speed="eager", **more)


def test_files_of_epochs_have_the_names_of_their_model(tmp_path: Path) -> None:
    from dataclasses import replace

    work(replace(QUICK, every_epoch=True), tmp_path, checked=False)
    names = ["quick-epoch001.safetensors", "quick-epoch002.safetensors", "quick.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    saved = read_card(tmp_path / names[0])
    assert saved is not None
    assert saved.card.name == "quick-epoch001"


def test_a_model_that_cannot_be_checked_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_test_images(*_: object) -> None:
        raise HoldfastError("no test images here")

    monkeypatch.setattr(family_training, "check_model_file", without_test_images)
    work(QUICK, tmp_path, checked=True)
    assert [path.name for path in tmp_path.iterdir()] == ["quick.safetensors"]
    assert "cannot be checked: no test images here" in capsys.readouterr().out


def test_a_model_that_another_command_trains_is_left_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with reserved(tmp_path / ".quick.safetensors"):
        work(QUICK, tmp_path, checked=False)
    assert "is left to another training" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "problem"), [("x", "WORLD_SIZE is `x`"), ("2", "WORLD_SIZE is 2, and RANK is not set")]
)
def test_processes_that_nothing_started_are_refused(monkeypatch: pytest.MonkeyPatch, given: str, problem: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", given)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(Misuse, match=problem):
        Processes(torch.device("cpu"))
