from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.data import app
from holdfast.core.errors import HoldfastError, Misuse

runner = CliRunner()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_OFFLINE", "1")
    return tmp_path


def test_importing_the_command_imports_neither_torch_nor_numpy() -> None:
    program = "import sys, holdfast.cli.data; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_listing_needs_no_torch() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.data import app;"
        "assert CliRunner().invoke(app, ['list']).exit_code == 0; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_list_prints_facts_to_stdout_and_the_rest_to_stderr(root: Path) -> None:
    done = runner.invoke(app, ["list", "--json"])
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)}
    assert facts["fashion-mnist-2k"]["state"] == "here"
    assert facts["cifar10"]["state"] == "missing"
    assert facts["cifar10"]["folder"] == str(root / "cifar10")
    assert str(root) in done.stderr
    table = runner.invoke(app, ["list"]).stdout
    assert "cifar10" in table
    assert "CIFAR-10: ten kinds" in table


def test_get_of_what_is_bundled_has_nothing_to_do() -> None:
    done = runner.invoke(app, ["get", "fashion-mnist-2k", "--json"])
    assert json.loads(done.stdout)[0]["from"] == "already here"
    assert "already here" in runner.invoke(app, ["get", "fashion-mnist-2k"]).stdout


def test_get_offline_fails_with_our_error_and_prints_no_data() -> None:
    done = runner.invoke(app, ["get", "mnist", "--offline", "--json"])
    assert isinstance(done.exception, HoldfastError)
    assert done.exception.exit_code == 1
    assert done.stdout == ""


def test_an_unknown_name_is_misuse_before_anything_is_fetched() -> None:
    done = runner.invoke(app, ["get", "fashion-mnist-2k", "fashion"])
    assert isinstance(done.exception, Misuse)
    assert "fashion-mnist" in str(done.exception.hint)


def test_verify_without_names_checks_what_is_here() -> None:
    done = runner.invoke(app, ["verify", "--json"])
    assert done.exit_code == 0
    assert {(fact["dataset"], fact["state"]) for fact in json.loads(done.stdout)} >= {("fashion-mnist-2k", "ok")}


def test_verify_fails_on_a_damaged_file_and_still_prints_the_facts(root: Path) -> None:
    (root / "mnist").mkdir()
    (root / "mnist" / "t10k-images-idx3-ubyte").write_bytes(b"damaged")
    done = runner.invoke(app, ["verify", "--json"])
    assert isinstance(done.exception, HoldfastError)
    assert "t10k-images-idx3-ubyte is damaged" in done.exception.problem
    assert "holdfast data get mnist" in str(done.exception.hint)
    assert {fact["state"] for fact in json.loads(done.stdout) if fact["dataset"] == "mnist"} == {"damaged", "missing"}


def test_verify_of_a_named_dataset_that_is_not_here_fails() -> None:
    done = runner.invoke(app, ["verify", "cifar10"])
    assert isinstance(done.exception, HoldfastError)
    assert "is missing" in done.exception.problem
