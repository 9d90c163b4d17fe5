"""The doctor: what is here, what is missing, and what is broken, told apart."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.core.suites import suites
from holdfast.engine import diagnosis
from holdfast.engine.diagnosis import Use, examined, fitness, needed_package, optional_package, store_state


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder with nothing in it."""
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(diagnosis, "USES", {"duckdb": diagnosis.USES["duckdb"]})
    return tmp_path / "data"


def test_a_sound_machine_has_no_problem(tmp_path: Path) -> None:
    found = examined(str(tmp_path / "store"))
    assert found.problems == []
    assert found.devices[0].name == "cpu"
    assert found.devices[0].memory > 0
    states = {data.name: data.state for data in found.data}
    assert states["fashion-mnist-2k"] == "complete"
    assert states["cifar10"] == "absent"
    assert next(data.get for data in found.data if data.name == "cifar10") == "holdfast data get cifar10"
    assert {suite.name for suite in found.suites} == set(suites())
    assert not (tmp_path / "store").exists(), "looking leaves nothing behind"


def test_a_suite_of_bundled_data_runs_whole_and_one_without_data_says_what_it_waits_for() -> None:
    whole, none = fitness("quick"), fitness("oodrobustbench-cifar10-linf")
    assert (whole.state, whole.can) == ("whole", whole.of)
    assert whole.seconds is not None
    assert whole.seconds > 0
    assert whole.model == "fashion-at-linf"
    (timed,) = whole.timed
    assert timed.name == whole.model
    assert timed.forwards > timed.gradients > 0, "a pass with gradients takes longer"
    assert none.timed == ()
    assert (none.state, none.can, none.seconds) == ("not", 0, None)
    assert "holdfast data get cifar10" in none.absent["cifar10"]


def test_a_suite_whose_data_is_there_in_part_runs_in_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('title = "Mine"\nscenarios = ["fashion-mnist-2k", "mnist", "fashion-mnist-2k+jpeg:severity=1"]\n')
    found = fitness(str(own))
    assert (found.state, found.can, found.of, set(found.absent)) == ("in part", 2, 3, {"mnist"})
    assert found.passes == 4000


def test_large_images_are_counted_in_passes_and_not_timed(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "x.npz", images=np.zeros((3, 80, 80, 3), np.uint8), labels=np.arange(3))
    own = tmp_path / "mine.toml"
    own.write_text(f'title = "Mine"\nscenarios = ["arrays:{tmp_path}/x.npz"]\n')
    found = fitness(str(own))
    assert (found.can, found.passes, found.seconds, found.model) == (1, 3, None, "")


def test_a_package_that_is_missing_is_no_problem_and_one_that_cannot_be_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = Use("something", "holdfast[something]")
    missing = optional_package("no_such_package", use)
    assert (missing.version, missing.problem, missing.install) == (None, None, "pip install holdfast[something]")
    (tmp_path / "broken_package.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    (tmp_path / "needy_package.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert optional_package("broken_package", use).problem == "operator torchvision::nms does not exist"
    assert optional_package("needy_package", use).problem == "needs `no_such_package`"
    assert "cannot be imported" in (needed_package("broken_package").problem or "")


def test_a_needed_package_that_is_broken_ends_the_look_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "NEEDED", ("numpy", "no_such_package"))
    found = examined(str(tmp_path))
    assert found.suites == ()
    assert found.problems == ["`no_such_package` cannot be imported: No module named 'no_such_package'"]
    done = CliRunner().invoke(app, ["doctor", "--store", str(tmp_path)])
    assert done.exit_code == 1
    assert "broken: `no_such_package`" in done.output


def test_a_store_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "cannot be written" in (store_state(str(tmp_path / "file" / "store")).problem or "")
    assert store_state(f"memory://doctor-{tmp_path.name}").problem is None
    assert store_state("no-such-protocol://x").problem is not None
    (tmp_path / "store").mkdir()
    sound = store_state(str(tmp_path / "store"))
    assert (sound.problem, sound.runs) == (None, 0)
    assert sound.free is not None
    assert os.listdir(tmp_path / "store") == [], "the trial is cleared away"  # noqa: PTH208


def test_a_damaged_bundled_dataset_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "is_whole", lambda download: False)
    problems = [data.problem for data in diagnosis.datasets() if data.problem is not None]
    assert problems == ["the bundled files of `fashion-mnist-2k` are damaged: install holdfast again"]


def test_the_command_speaks_to_people_and_to_programs(tmp_path: Path) -> None:
    run = CliRunner().invoke
    result = run(app, ["doctor", "--store", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    for words in ("holdfast data get cifar10", "20 of 20", "times are estimates for `fashion-at-linf`"):
        assert words in result.output
    record = json.loads(run(app, ["doctor", "--json", "--store", str(tmp_path / "store")]).stdout)
    assert record["problems"] == []
    assert {suite["name"]: suite["state"] for suite in record["suites"]}["quick"] == "whole"
    assert record["packages"][0]["name"] == "torch"
