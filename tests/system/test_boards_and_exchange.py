"""The commands board, trend, compare, import and export, on a fresh install and on a store."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from holdfast.core.registry import registry
from holdfast.store import Store
from holdfast.store.importers import read_results
from holdfast.store.published import published, settings
from holdfast.store.scores import scores_from_parquet

OOD = ("oodrobustbench-cifar10-linf", "oodrobustbench-cifar10-l2", "oodrobustbench-imagenet-linf")
TESTBED = ["--x", "imagenet", "--y", "average-corruptions"]


def test_boards_are_listed(run) -> None:
    result = run("board")
    assert result.code == 0
    named = {each["suite"] for each in json.loads(run("board", "--json").out)}
    assert named >= {"imagenet-testbed", "multirobustbench", *OOD}
    assert named <= set(result.out.split())


def test_a_fresh_install_shows_a_board(run) -> None:
    result = run("board", "oodrobustbench-cifar10-linf", "--json")
    assert (result.code, result.err) == (0, "")
    assert len({score["model"] for score in json.loads(result.out)["scores"]}) == 20
    shown = run("board", "oodrobustbench-cifar10-linf").out
    first = next(line for line in shown.splitlines() if line.split()[:1] == ["1"])
    assert first.split()[:3] == ["1", "AS", "WRN-70-16"]
    assert "95.2 [94.8, 95.6]" in first
    assert "ranks rest on (a)" in shown


def test_a_board_says_what_is_incomplete(run) -> None:
    result = run("board", "imagenet-testbed")
    assert "30 of 196 entries are incomplete and marked" in " ".join(result.err.split())
    kept = run("board", "imagenet-testbed", "--complete", "--csv")
    records = list(csv.DictReader(io.StringIO(kept.out)))
    printed = [record for record in records if record["score"] in settings("imagenet-testbed")]
    assert len(printed) == 4 * 166
    assert all(record["complete"] == "True" and record["value"] for record in printed)


def test_a_board_truncates_where_asked(run) -> None:
    rounded, cut = (
        run("board", "oodrobustbench-cifar10-l2", "--column", "id-robustness", *more).out
        for more in ((), ("--rounding", "truncate"))
    )
    first = [next(line for line in text.splitlines() if line.split()[:1] == ["1"]) for text in (rounded, cut)]
    assert "84.97" not in rounded
    assert " 85.0 [" in first[0]
    assert " 84.9 [" in first[1]
    assert "84.97" in run("board", "oodrobustbench-cifar10-l2", "--digits", "2").out
    wrong = run("board", "oodrobustbench-cifar10-l2", "--rounding", "up")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--rounding" in wrong.err
    assert "truncate" in wrong.err


def test_boards_print_json_and_latex(run) -> None:
    record = json.loads(run("board", "multirobustbench", "--json").out)
    assert record["sort"] == "cr-ind-avg"
    assert record["scores"][0]["model"] == "Dai2023MultiRobustBench_LPIPS"
    third = next(each for each in record["scores"] if each["rank"] == 3)
    assert (third["model"], third["also"]) == ("Madaan2021Learning_MNG-AC-RST", ["madaan2020-rst-l1-l2-linf"])
    assert all(score["source"] for score in record["scores"] if score["value"] is not None)
    latex = run("board", "multirobustbench", "--latex").out
    assert latex.startswith(r"\begin{tabular}{rlrrrrrll}")
    assert latex.count(r" \\") == 22  # 21 entries and the headings


def test_an_unknown_board_suggests(run) -> None:
    result = run("board", "imagenet-testbet")
    assert result.code == 2
    assert "did you mean `imagenet-testbed`" in result.err
    assert "holdfast evaluate fashion-standard fashion-noise fashion-at-linf --suite demo" in run("board", "demo").err


def test_a_fresh_install_has_a_trend_over_180_models(run) -> None:
    result = json.loads(run("trend", *TESTBED, "--json").out)
    assert result["fit"]["n"] == len(result["models"]) == 190
    assert result["fit"]["r2"] > 0.5
    standard = json.loads(run("trend", *TESTBED, "--fit", "type=STANDARD", "--json").out)
    assert standard["fit"]["n"] == 79
    text = run("trend", *TESTBED)
    assert text.out.startswith("logit(average-corruptions) = ")
    assert "arXiv:2007.00644, Table 1" in " ".join(text.err.split())
    assert len(list(csv.DictReader(io.StringIO(run("trend", *TESTBED, "--csv").out)))) == 190
    assert run("trend", *TESTBED, "--latex").out.count(r" \\") == 191


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--x", "imagenets", "--y", "average-pgd"], "no setting named `imagenets`"),
        (["--x", "imagenet", "--y", "imagenetv2-effective-robustness"], "is no share but in points"),
        ([*TESTBED, "--fit", "STANDARD"], "no model named `STANDARD`"),
        ([*TESTBED, "--fit", "type=ODD"], "no model has type=ODD"),
        ([*TESTBED, "--zero", "ignore"], "--zero is piecewise, clip or drop"),
        ([*TESTBED, "--benchmark", "imagenet-testbet"], "no benchmark named `imagenet-testbet`"),
    ],
)
def test_a_trend_that_cannot_be_says_why(run, words: list[str], problem: str) -> None:
    result = run("trend", *words)
    assert result.code == 2
    assert problem in result.err


def test_results_go_in_once_and_come_out_again(run, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("benchmark,model,setting,value,n\nmultirobustbench,mine_1,clean-accuracy,91.5,1000\n")
    first = run("import", "tidy", "mine.csv")
    assert (first.code, first.out) == (0, "multirobustbench: 1 models, 1 settings\n")
    assert "there already" in run("import", "tidy", "mine.csv").out
    rows = [line for line in run("board", "multirobustbench").out.splitlines() if "mine_1" in line]
    assert len(rows) == 1
    assert "91.5 [89.6, 93.1]" in rows[0]
    assert "imported" in rows[0]
    told = json.loads(run("import", "tidy", "mine.csv", "--json").out)
    assert told["scores"][0]["new"] is False
    out = run("export", "multirobustbench").out
    assert out.splitlines()[1].startswith('multirobustbench,mine_1,clean-accuracy,91.5,percent,1000,"mine.csv (sha256')
    sound = run("verify")
    assert (sound.code, sound.out) == (0, "1 of 1 files sound, 0 rows\n")


def test_formats_are_listed_and_wrong_files_refused(run, tmp_path: Path) -> None:
    assert "imagenet-testbed" in run("import").out
    assert {each["format"] for each in json.loads(run("import", "--json").out)} >= {"timm", "tidy"}
    (tmp_path / "cut.csv").write_text("model,setting,value\na,b\n")
    cut = run("import", "tidy", "cut.csv")
    assert (cut.code, cut.out) == (1, "")
    assert "line 2 has 2 fields, its header 3\n\nhint: is the file cut off?" in cut.err
    assert run("import", "tidy").code == 2
    assert run("import", "odd", "cut.csv").code == 2


@pytest.mark.parametrize("name", ["imagenet-testbed", "multirobustbench"])
def test_exports_read_back(run, tmp_path: Path, name: str) -> None:
    scores = published(name)
    (tmp_path / "out.csv").write_text(run("export", name).out)
    (again,) = read_results("tidy", tmp_path / "out.csv").scores
    assert again.table.models == scores.table.models
    assert len(json.loads(run("export", name, "--format", "json").out)) == run("export", name).out.count("\n") - 1
    assert run("export", name, "--format", "parquet").code == 2
    assert run("export", name, "--format", "parquet", "--out", "out.parquet").code == 0
    assert scores_from_parquet((tmp_path / "out.parquet").read_bytes(), "out").key == scores.key
    assert run("export", name, "--format", "latex").out.startswith(r"\begin{tabular}")
    one = scores.table.models[0]
    assert set(json.loads(run("export", name, "--format", "json", "--model", one).out)[0].values()) >= {one}


def test_printed_models_are_compared(run) -> None:
    result = run("compare", "resnet50", "vgg19", "--benchmark", "imagenet-testbed")
    assert result.code == 0
    assert "+3.75 [" in result.out
    assert "counts unknown" in result.out
    assert len(json.loads(run("compare", "resnet50", "vgg19", "--benchmark", "imagenet-testbed", "--json").out)) == 4
    assert run("compare", "resnet50", "vgg91", "--benchmark", "imagenet-testbed").code == 2


def test_a_measured_model_is_exported_and_compared_in_latex(run, tmp_path: Path) -> None:
    scenario = "fashion-mnist-2k"
    attacked = f"{scenario}+autoattack-linf:radius=8/255"
    done = run("evaluate", "fashion-standard", "--scenario", scenario, "--scenario", attacked, "--samples", "5")
    assert done.code == 0, done.err
    records = list(csv.DictReader(io.StringIO(run("export").out)))
    assert {record["setting"] for record in records} == {scenario, attacked}
    assert all("5 of 2000 samples" in record["source"] for record in records)
    entry = json.loads(run("export", "--format", "robustbench", "--model", "fashion-standard").out)
    assert (entry["dataset"], entry["eps"]) == (scenario, "8/255")
    assert 0 <= float(entry["autoattack_acc"]) <= float(entry["clean_acc"]) <= 100
    assert "5 of 2000" in entry["footnote"]
    assert run("export", "--format", "robustbench").code == 2
    assert run("scores", "--latex").out.startswith(r"\begin{tabular}")
    latex = run("compare", "fashion-standard", "fashion-standard", "--latex").out
    assert latex.startswith(r"\begin{tabular}")
    trend = run("trend", "--x", scenario, "--y", attacked, "--benchmark", "store")
    assert trend.code != 0  # one model makes no line


def test_an_own_model_is_placed_against_the_printed_line(run, tmp_path: Path, rows_for, footer_for) -> None:
    store = Store("holdfast-store")
    attacks = ["imagenet+testbed-pgd-linf:radius=0.5/255", "imagenet+testbed-pgd-linf:radius=2/255"]
    attacks += ["imagenet+testbed-pgd-l2:radius=0.1", "imagenet+testbed-pgd-l2:radius=0.5"]
    texts = {text: str(registry.scenario(text)) for text in ["imagenet", *attacks]}
    for text, spelled in texts.items():
        right = [i < (8 if text == "imagenet" else 5) for i in range(10)]
        store.add_rows(rows_for(right, footer=footer_for("mine", spelled)))
    words = ("trend", "--x", "imagenet", "--y", "average-pgd", "--model", "mine", "--json")
    result = json.loads(run(*words).out)
    assert result["fit"]["n"] == 171
    (mine,) = result["models"]
    assert (mine["model"], mine["score"], mine["was_fitted"]) == ("mine", 0.5, False)
    assert mine["beyond"] == pytest.approx(0.5 - mine["expected"])


def test_an_own_model_stands_on_a_board_of_ones_own(run, tmp_path: Path) -> None:
    run("evaluate", "fashion-standard", "--scenario", "fashion-mnist-2k", "--samples", "10")
    suite = 'title = "Mine"\npublished = ["imagenet-testbed"]\n[[board]]\nname = "imagenet"\n'
    (tmp_path / "mine.toml").write_text(suite + 'scenarios = ["fashion-mnist-2k"]\n')
    lines = run("board", "mine.toml").out.splitlines()
    (own,) = [line for line in lines if "fashion-standard" in line]
    assert "measured" in own
    assert "n 10" in own
