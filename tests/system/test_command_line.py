"""The command line: right answers, right exit codes, data on stdout and messages on stderr."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

CHANGED = "fashion-mnist-2k+contrast:severity=2"


def outside(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "holdfast", *words], capture_output=True, text=True, cwd=folder)


def test_help_names_every_command(tmp_path: Path) -> None:
    answer = outside(tmp_path, "--help")
    assert answer.returncode == 0
    commands = "demo list show check plan evaluate status verify scores compare explain report data train"
    assert set(commands.split()) <= set(answer.stdout.split())


def test_errors_cross_the_process_with_their_codes(tmp_path: Path) -> None:
    wrong = outside(tmp_path, "show", "pdg-linf")
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert "error: no component named `pdg-linf`\n\nhint: did you mean `pgd-linf`" in wrong.stderr
    assert outside(tmp_path, "evaluate").returncode == 2
    assert outside(tmp_path, "--version").stdout.startswith("holdfast 0.")


def test_lists_are_json_for_programs(run) -> None:
    answer = run("list", "attacks", "--json")
    attacks = json.loads(answer.out)
    assert answer.code == 0
    assert {"pgd-linf", "pgd-l2"} <= {entry["name"] for entry in attacks}
    (pgd,) = [entry for entry in attacks if entry["name"] == "pgd-linf"]
    assert {"name": "radius", "default": "8/255", "type": "a number"} in pgd["parameters"]
    for kind in ("models", "datasets", "corruptions", "metrics", "suites", "recipes", "architectures"):
        assert run("list", kind).code == 0
        assert json.loads(run("list", kind, "--json").out) != []


def test_show_tells_what_a_ref_does(run) -> None:
    plain = run("show", "pgd-linf")
    assert plain.code == 0
    assert "8/255" in plain.out
    assert "Madry" in plain.out
    bound = json.loads(run("show", "pgd-linf:steps=5", "--json").out)
    assert "steps=5" in bound["full"]
    assert len(bound["key"]) == 20
    assert "scenarios" in run("show", "demo").out
    assert json.loads(run("show", "demo", "--json").out)["scenarios"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list", "atacks"], 2, "did you mean `attacks`"),
        (["show", "pgd-linf:stepz=3"], 2, "did you mean `steps`"),
        (["evaluate", "nobody"], 2, "no model named `nobody`"),
        (["evaluate", "fashion-standard", "--scenario", "fashion-mnist-2k+pdg-linf"], 2, "did you mean `pgd-linf`"),
        (["evaluate", "fashion-standard", "--scenario", "fashion-mnist-2k+contrast:severity=9"], 2, "must be 1 to 5"),
        (["evaluate", "fashion-standard", "--suite", "dem"], 2, "did you mean `demo`"),
        (["evaluate", "fashion-standard", "--suite", "no.toml"], 2, "no suite file at no.toml"),
        (["evaluate", "fashion-standard", "--precision", "fine"], 2, "--precision is a share"),
        (["evaluate", "fashion-standard", "--samples", "-3"], 2, "--samples is 1 or more"),
        (["evaluate", "fashion-standard", "--device", "abacus"], 2, "no device `abacus`"),
        (["evaluate", "file:none.safetensors,architecture=small-cnn"], 2, "none.safetensors"),
        (["evaluate", "fashion-standard", "--scenario", "folder:/no/such/place"], 2, "/no/such/place"),
        (["compare", "a", "b"], 2, "no measured model named `a`"),
        (["report", "fashion-standard"], 1, "hint:"),
        (["explain", "abc", "x"], 2, "no run named `abc`"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(run, words: list[str], code: int, message: str) -> None:
    answer = run(*words)
    assert message in answer.err
    assert answer.code == code
    assert "Traceback" not in answer.err


def test_evaluate_to_report_and_everything_that_reads(run, tmp_path: Path) -> None:
    words = (
        "fashion-standard",
        "fashion-at-linf",
        "--scenario",
        "fashion-mnist-2k",
        "--scenario",
        CHANGED,
        "--samples",
        "60",
    )
    planned = json.loads(run("plan", *words, "--json").out)
    assert [entry["state"] for entry in planned["runs"]] == ["to do"] * 4
    assert planned["seconds"] > 0
    assert "to do" in run("plan", *words).out

    answer = run("evaluate", *words)
    assert answer.code == 0
    assert "60 of 2,000" in answer.out
    assert answer.err.count("(measured)") == 4
    again = run("evaluate", *words, "--json", "--quiet")
    assert again.err == ""
    assert [record["n"] for record in json.loads(again.out)] == [60] * 4
    assert [entry["state"] for entry in json.loads(run("plan", *words, "--json").out)["runs"]] == ["done"] * 4

    records = json.loads(run("scores", "--json").out)
    assert len(records) == 4
    assert all(record["low"] <= record["accuracy"] <= record["high"] for record in records)
    table = list(csv.DictReader(io.StringIO(run("scores", "--csv", "--model", "fashion-standard").out)))
    assert [row["model"] for row in table] == ["fashion-standard"] * 2
    assert "fashion-standard" in run("scores").out

    compared = json.loads(run("compare", "fashion-standard", "fashion-at-linf", "--json").out)
    assert {record["scenario"] for record in compared} == {"fashion-mnist-2k", CHANGED}
    assert "verdict" in run("compare", "fashion-standard", "fashion-at-linf").out
    assert run("compare", "fashion-standard", "fashion-at-linf", "--csv").out.startswith("scenario,")

    assert json.loads(run("status", "--json").out)["runs"][0]["state"] == "done"
    assert "4 done" in run("status").out
    assert "4 of 4 files sound" in run("verify").out

    respelled = "fashion-mnist-2k+contrast:quantise=round,severity=2"
    assert len(json.loads(run("scores", "--json", "--scenario", respelled).out)) == 2
    written = run("report", "fashion-standard")
    assert written.code == 0
    assert Path(written.out.strip()).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_explain_makes_a_sample_again(run, tmp_path: Path) -> None:
    from holdfast.store import Store

    run(
        "evaluate",
        "fashion-at-linf",
        "--scenario",
        "fashion-mnist-2k+gaussian-noise+pgd-linf:steps=3",
        "--samples",
        "10",
        "-q",
    )
    store = Store(str(tmp_path / "holdfast-store"))
    (key,) = store.footers()
    sample = store.read(key).ids[3]
    shown = json.loads(run("explain", key[:10], sample, "--out", "pics", "--json").out)
    assert shown["as_stored"] is True
    assert shown["size"] <= 8 / 255 + 1e-6
    assert len(shown["logits"]) == 10
    assert (tmp_path / "pics" / "before.png").read_bytes().startswith(b"\x89PNG")
    plain = run("explain", key[:10], sample)
    assert "predicted" in plain.out
    wrong = run("explain", key[:10], "test-99999")
    assert wrong.code == 2


def test_one_run_that_fails_is_exit_1_and_the_others_are_kept(run) -> None:
    answer = run(
        "evaluate",
        "fashion-standard",
        "--scenario",
        "folder:/none",
        "--scenario",
        "fashion-mnist-2k",
        "--samples",
        "10",
    )
    assert answer.code == 1
    assert "1 of 2 runs failed" in answer.err
    assert len(json.loads(run("scores", "--json").out)) == 1


def test_verify_tells_a_damaged_file_by_its_exit_code(run, tmp_path: Path) -> None:
    run("evaluate", "fashion-standard", "--samples", "10", "-q")
    (path,) = (tmp_path / "holdfast-store" / "rows").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-50])
    answer = run("verify")
    assert answer.code == 1
    assert "not a whole Parquet file" in answer.out
    assert json.loads(run("verify", "--json").out)["files"][0]["problem"]
    run("evaluate", "fashion-standard", "--samples", "10", "-q")
    assert run("verify").code == 0


def test_check_finds_nothing_wrong_with_a_bundled_model(run) -> None:
    answer = run("check", "fashion-standard")
    assert answer.code == 0
    assert "nothing to flag" in answer.out
    assert json.loads(run("check", "fashion-standard", "--json").out)["flags"] == []


def test_check_is_exit_1_for_a_model_that_is_not_eligible(run, tmp_path: Path) -> None:
    (tmp_path / "mine_nan.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.flatten(1)[:, :10] * float('nan')\n"
        "def make():\n"
        "    return M()\n"
    )
    answer = run("check", "python:mine_nan:make,classes=10,channels=1")
    assert answer.code == 1
    assert "non-finite-logits" in answer.out


def test_precision_takes_a_percentage(run) -> None:
    (record,) = json.loads(run("evaluate", "fashion-standard", "--precision", "4%", "--json", "-q").out)
    assert record["selection"] == "precision 4%"
    assert record["n"] < 2000
    assert (record["high"] - record["low"]) / 2 <= 0.04


def test_the_recorded_command_makes_the_same_rows_again(run, tmp_path: Path) -> None:
    import shlex

    first = json.loads(
        run("evaluate", "fashion-at-linf", "--scenario", CHANGED, "--samples", "20", "--seed", "3", "--json", "-q").out
    )[0]
    words = shlex.split(first["command"])[1:]
    second = json.loads(run(*words, "--store", "elsewhere", "--json", "-q").out)[0]
    assert second["run"] == first["run"]
    assert second["accuracy"] == first["accuracy"]


def test_the_demo_does_the_whole_job(run, tmp_path: Path) -> None:
    answer = run("demo", "--samples", "20", "--quiet", "--out", "d")
    assert answer.code == 0
    assert "fashion-at-linf" in answer.out
    for model in ("fashion-standard", "fashion-at-linf"):
        assert (tmp_path / "d" / f"{model}.html").stat().st_size > 20_000


def test_a_recipe_trains_a_model_that_evaluates(run) -> None:
    answer = run("train", "fashion-standard:dataset=fashion-mnist-2k,epochs=12", "--out", "mine.safetensors")
    assert answer.code == 0, answer.err
    assert "epoch 12/12" in answer.err
    (record,) = json.loads(run("evaluate", "file:mine.safetensors", "--samples", "200", "--json", "-q").out)
    assert record["low"] > 0.2, "a few epochs on 2,000 images are above chance"


def test_a_model_is_found_in_any_spelling(run, tmp_path: Path) -> None:
    (tmp_path / "mine_plain.py").write_text(
        "import torch\n"
        "def make():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)).eval()\n"
    )
    spelled = "python:mine_plain:make,std=[0.5],mean=[0.5],classes=10,channels=1"
    assert run("evaluate", spelled, "--samples", "10", "-q").code == 0
    (record,) = json.loads(run("scores", "--json", "--model", spelled).out)
    assert record["model"] != spelled
    assert run("report", spelled, "--out", "r.html").code == 0
    assert run("report", "fashion-standardd").code == 2
