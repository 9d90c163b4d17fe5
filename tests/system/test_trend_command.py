"""`holdfast trend` from the command line alone: published fit sets, cuts, matrices, tables, and words of caution."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="the public result files are not on this machine")
# a clone of github.com/modestyachts/imagenet-testbed: its history has the files of later papers too
CLONE = Path(os.environ.get("HOLDFAST_TESTBED_CLONE", FILES / "imagenet-testbed.git"))
V2 = "imagenetv2-matched-frequency-format-val"
LEFT_OUT = [word for text in ("*aws*", "*batch64*", "*subsample*") for word in ("--leave-out", text)]
LINE = ["--benchmark", "oodrobustbench-cifar10-linf", "--space", "linear", "--x", "id-robustness"]


def fitted(run, *words: str) -> dict:
    result = run("trend", *words, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@needs_files
def test_the_testbeds_fit_set_comes_from_its_public_files(run) -> None:
    run("import", "imagenet-testbed", str(FILES / "imagenet-testbed"), "--store", "s")
    words = ["--store", "s", "--y", V2, "--x", "val"]
    assert fitted(run, *words, "--fit", "type=STANDARD")["fit"]["n"] == 85  # with baselines' own runs and subsamples
    for choice in (["--fit", "type=STANDARD", *LEFT_OUT], ["--fit", "published"]):
        made = fitted(run, *words, *choice)
        assert made["fit"]["n"] == 78
        assert made["fit"]["weights"] == [pytest.approx(0.921696, abs=5e-7)]
        assert made["fit"]["intercept"] == pytest.approx(-0.494671, abs=5e-7)
        assert made["fit"]["pearson"] == pytest.approx(0.99827, abs=5e-6)
        assert made["fit"]["cautions"] == []
        assert len(made["selection"]["left_out"]) == 204 - 78
    table = json.loads(run("trend", "--store", "s", "--table", "1", "--json").out)
    assert len(table) == 204
    pairs = json.loads(run("trend", "--store", "s", "--table", "2", "--json").out)
    assert len(pairs) == 45 * 7
    groups = fitted(run, *words, "--fit", "published", "--by", "type", "--baseline", "resnet50")
    assert {group["name"] for group in groups["groups"]} == {"STANDARD", "ROBUST_INTV", "MORE_DATA"}
    own = next(each for each in groups["models"] if each["model"] == "resnet50")
    assert own["relative"] == 0
    assert own["beyond_low"] <= own["beyond"] <= own["beyond_high"]


@pytest.mark.skipif(not CLONE.is_dir(), reason="no clone of the ImageNet testbed is on this machine")
@pytest.mark.parametrize(
    ("commit", "models", "standard", "fit_on", "slope", "intercept"),
    [
        ("28477dc", 204, 85, 78, 0.921696, -0.494671),
        ("b9067fc", 216, 86, 79, 0.921408, -0.494697),
        ("f4083a2", 338, 87, 85, 0.923229, -0.497690),
    ],
)
def test_the_published_fit_sets_come_from_the_history_of_the_testbed(
    run, tmp_path: Path, commit: str, models: int, standard: int, fit_on: int, slope: float, intercept: float
) -> None:
    (tmp_path / "files" / "plotting").mkdir(parents=True)
    for name in ("robustness_top1s.csv", "plotting/model_types.py"):
        shown = subprocess.run(["git", "-C", str(CLONE), "show", f"{commit}:{name}"], capture_output=True, check=True)
        (tmp_path / "files" / name).write_bytes(shown.stdout)
    run("import", "imagenet-testbed", "files", "--store", "s")
    words = ["--store", "s", "--y", V2, "--x", "val"]
    assert fitted(run, *words, "--fit", "type=STANDARD")["fit"]["n"] == standard
    made = fitted(run, *words, "--fit", "published")
    assert made["fit"]["n"] == fit_on
    assert len(made["selection"]["left_out"]) == models - fit_on
    assert made["fit"]["weights"] == [pytest.approx(slope, abs=5e-7)]
    assert made["fit"]["intercept"] == pytest.approx(intercept, abs=5e-7)


def test_types_beside_the_file_make_the_fit_set(run, tmp_path: Path) -> None:
    """The public repository as it is: accuracies on top, `model_types.py` in `plotting`."""
    names = [f"net{i}" for i in range(12)] + ["net_subsample_1", "robust"]
    rows = [f"{name},{50 + 2 * i},{40 + 2 * i + (i % 3) / 10}" for i, name in enumerate(names)]
    (tmp_path / "plotting").mkdir()
    (tmp_path / "robustness_top1s.csv").write_text("model,val,v2\n" + "\n".join(rows) + "\n")
    types = [f"'{name}': T.{'ROBUST_INTV' if name == 'robust' else 'STANDARD'}," for name in names]
    (tmp_path / "plotting" / "model_types.py").write_text("model_types_map = {\n" + "\n".join(types) + "\n}\n")
    assert run("import", "imagenet-testbed", str(tmp_path), "--store", "s").err.count("warning") == 0
    words = ["--store", "s", "--y", "v2", "--x", "val", "--fit", "type=STANDARD"]
    assert fitted(run, *words)["fit"]["n"] == 13
    assert fitted(run, *words, "--leave-out", "*subsample*")["fit"]["n"] == 12


def test_a_store_without_types_is_told(run, tmp_path: Path) -> None:
    (tmp_path / "robustness_top1s.csv").write_text("model,val,v2\na,50,40\nb,60,50\nc,70,61\n")
    result = run("import", "imagenet-testbed", str(tmp_path), "--store", "s")
    assert "warning: no types beside robustness_top1s.csv" in result.err
    result = run("trend", "--store", "s", "--y", "v2", "--x", "val", "--fit", "type=STANDARD")
    assert result.code == 2
    assert "no model has the fact `type`" in result.err


def test_facts_of_a_tidy_file_choose_the_fit(run, tmp_path: Path) -> None:
    lines = [
        f"m{i},{s},{v},{'' if i == 11 else 'AB'[i % 2]}" for i in range(12) for s, v in (("x", 50 + i), ("y", 40 + i))
    ]
    (tmp_path / "mine.csv").write_text("model,setting,value,kind\n" + "\n".join(lines) + "\n")
    run("import", "tidy", "mine.csv", "--store", "s")
    result = run("trend", "--store", "s", "--benchmark", "mine", "--y", "y", "--x", "x", "--fit", "kind=A", "--json")
    assert json.loads(result.out)["fit"]["n"] == 6
    assert "1 of 12 models have no `kind`" in result.err


def test_the_110_percent_rule_is_a_cut(run) -> None:
    rule = fitted(run, *LINE, "--y", "ood-d-robustness", "--fit", "id-accuracy+id-robustness>=110%")
    assert rule["fit"]["n"] == 20
    assert rule["upper_limit"]["low"] < rule["upper_limit"]["value"] < rule["upper_limit"]["high"]
    assert fitted(run, *LINE, "--y", "ood-d-robustness", "--fit", "published")["fit"] == rule["fit"]
    harder = fitted(run, *LINE, "--y", "ood-d-robustness", "--fit", "id-accuracy+id-robustness>=150%")
    assert harder["fit"]["n"] < 20
    assert harder["not_fitted"]["models"] == 20 - harder["fit"]["n"]


def test_a_line_that_means_little_says_so(run) -> None:
    few = [*LINE, "--y", "ood-d-robustness", "--fit", "*WRN-70-16*"]
    assert "fewer than 10 do not determine a line" in run("trend", *few).out
    assert fitted(run, *few)["fit"]["cautions"]
    assert "fewer than 10" in run("trend", *few, "--csv").err
    plane = [*LINE, "--x", "id-accuracy", "--y", "ood-t-robustness", "--fit", "*WRN-70-16*"]
    assert "do not determine a plane" in run("trend", *plane).out
    weak = ["--benchmark", "oodrobustbench-imagenet-linf", "--space", "linear", "--x", "id-accuracy", "--y", "*"]
    lines = json.loads(run("trend", *weak, "--json").out)
    assert all(bool(line["cautions"]) == (line["r2"] < 0.25 or line["n"] < 10) for line in lines)
    everywhere = ["--benchmark", "oodrobustbench-cifar10-linf", "--matrix", "r2", "--x", "id-accuracy"]
    matrix = run("trend", *everywhere, "--y", "ood-t-robustness")
    (cell,) = json.loads(run("trend", *everywhere, "--y", "ood-t-robustness", "--json").out)
    assert ("!" in matrix.out) == bool(cell["cautions"])


def test_matrices_by_threshold_have_four_kinds(run) -> None:
    words = [
        "--benchmark",
        "oodrobustbench-cifar10-linf",
        "--matrix",
        "r2",
        "--x",
        "id-accuracy",
        "--x",
        "id-robustness",
    ]
    words += ["--y", "ood-d-accuracy", "--y", "ood-d-robustness", "--threshold", "0", "--threshold", "150%", "--json"]
    cells = json.loads(run("trend", *words).out)
    assert {cell["kind"] for cell in cells} == {"Acc-Acc", "Rob-Rob", "Acc-Rob", "Rob-Acc"}
    assert {cell["least"] for cell in cells} == {0.0, 1.5}
    assert {cell["n"] for cell in cells if not cell["least"]} == {20}


def test_the_line_behind_a_printed_table_comes_back(run) -> None:
    words = ["--benchmark", "oodrobustbench-training", "--x", "id-robustness", "--y", "ood-d-robustness"]
    words += ["--fit", "trained_on=CIFAR10", "--beyond"]
    made = fitted(run, *words, "ood-d-effective-robustness")
    assert made["fit"]["n"] == 26
    assert made["fit"]["weights"] == [pytest.approx(0.7134, abs=5e-5)]
    assert made["upper_limit"]["value"] == pytest.approx(0.661, abs=5e-4)
    assert made["models"][0]["low"] is None  # no scatter, no prediction interval
    result = run("trend", *words, "nothing")
    assert result.code == 2
    assert "no setting named `nothing`" in result.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--x", "imagenet"], "needs --y"),
        (["--y", "imagenet"], "needs --x"),
        (["--table", "3"], "--table is 1 or 2"),
        (["--table", "1"], "are made from its public results"),
        (["--x", "imagenet", "--y", "average-pgd", "--matrix", "r3"], "no matrix named `r3`"),
        (["--x", "imagenet", "--y", "average-pgd", "--threshold", "1"], "--threshold goes with --matrix r2"),
        (["--x", "imagenet", "--y", "no*thing"], "no setting named `no*thing`"),
        (["--x", "imagenet", "--y", "average-*", "--zero", "piecewise"], "a piecewise fit is of one --y"),
    ],
)
def test_what_cannot_be_drawn_says_why(run, words: list[str], problem: str) -> None:
    result = run("trend", *words)
    assert result.code == 2
    assert problem in result.err
