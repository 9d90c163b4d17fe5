"""`holdfast trend` over several ID sets: the same numbers as a computation in numpy and scipy."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

ID, OOD = ("cifar10", "imagenet"), ("cifar10.1", "cifar10.2", "cinic10")
GROUPS = {"CIFAR-10": 9, "ImageNet": 12, "CIFAR-10+ImageNet": 7}
Columns = dict[str, np.ndarray]


def logit(share: np.ndarray) -> np.ndarray:
    return np.log(share / (1 - share))


@pytest.fixture
def scores(tmp_path: Path) -> tuple[Columns, np.ndarray]:
    """Accuracies of 28 models in three groups about a plane, two of them under 5 % on ImageNet; as a tidy file."""
    random = np.random.default_rng(7)
    groups = np.array([name for name, count in GROUPS.items() for _ in range(count)])
    centre = {"CIFAR-10": (1.6, -0.8), "ImageNet": (0.2, 1.2), "CIFAR-10+ImageNet": (1.2, 0.6)}
    own = np.array([centre[name] for name in groups]) + random.normal(0, 0.5, (len(groups), 2))
    own[[2, 5], 1] = -3.2  # 3.9 %
    made: Columns = {name: 1 / (1 + np.exp(-own[:, i])) for i, name in enumerate(ID)}
    for i, name in enumerate(OOD):
        plane = own @ np.array([0.5 + 0.1 * i, 0.4]) - 0.3 + random.normal(0, 0.12, len(groups))
        made[name] = 1 / (1 + np.exp(-plane))
    with (tmp_path / "zoo.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["benchmark", "model", "setting", "value", "unit", "group", "classes"])
        for i, group in enumerate(groups):
            classes = 1000 if group == "ImageNet" else 10
            for setting, values in made.items():
                writer.writerow(["zoo", f"m{i:02d}", setting, repr(float(values[i])), "fraction", group, classes])
    return {name: values.round(15) for name, values in made.items()}, groups


def plane(columns: Columns, y: str, x: tuple[str, ...], kept: np.ndarray) -> np.ndarray:
    """Effective robustness of every model against a least-squares plane through those kept."""
    inputs = np.column_stack([*(logit(columns[name]) for name in x), np.ones(len(kept))])
    weights, *_ = np.linalg.lstsq(inputs[kept], logit(columns[y])[kept], rcond=None)
    return columns[y] - 1 / (1 + np.exp(-(inputs @ weights)))


def test_groups_cuts_rankings_and_held_out_models_are_those_of_numpy(
    run: Callable[..., Any], scores: tuple[Columns, np.ndarray]
) -> None:
    columns, groups = scores
    assert run("import", "tidy", "zoo.csv", "--store", "s").code == 0
    words = ["trend", "--store", "s", "--benchmark", "zoo", "--json", "--cut", "imagenet>=5%"]
    words += [word for name in ID for word in ("--x", name)] + [word for name in OOD for word in ("--y", name)]
    words += ["--group", "group", "--held-out", "group=CIFAR-10+ImageNet"]
    done = run(*words)
    assert done.code == 0, done.err
    made = json.loads(done.out)
    passing = columns["imagenet"] >= 0.05
    assert passing.sum() == 26
    kept = passing & (groups != "CIFAR-10+ImageNet")
    inputs = [(ID[0],), (ID[1],), ID]
    robust = {(y, x): plane(columns, y, x, kept) for y in OOD for x in inputs}
    for each in made["fits"]:
        x, y = tuple(each["x"]), each["y"]
        target, left = logit(columns[y])[kept], (columns[y] - robust[y, x])[kept]
        assert each["r2"] == pytest.approx(
            1 - ((target - logit(left)) ** 2).sum() / ((target - target.mean()) ** 2).sum()
        )
        assert each["mae"] == pytest.approx(np.abs(robust[y, x][kept]).mean())
        assert each["n"] == kept.sum()
    compared = 0
    for each in made["groups"]:
        some = passing & (groups == each["group"])
        x = tuple(each["x"])
        values = np.mean([robust[y, x] for y in OOD], axis=0) if each["y"] == "average" else robust[each["y"], x]
        assert each["mean"] == pytest.approx(values[some].mean())
        assert each["deviation"] == pytest.approx(values[some].std(ddof=1))
        assert each["mae"] == pytest.approx(np.abs(values[some]).mean())
        assert (each["n"], each["fitted"]) == (some.sum(), 0 if "+" in each["group"] else some.sum())
        compared += 1
    assert compared == 3 * 3 * 4  # inputs, groups, OOD sets and their average
    assert len(made["rankings"]) == 2 * 3 * 3
    for each in made["rankings"]:
        some = passing & (groups == each["group"])
        tau = kendalltau(robust[each["y"], (each["alone"],)][some], robust[each["y"], ID][some]).statistic
        assert each["tau"] == pytest.approx(tau)
    for each in made["held_out"]:
        x, y = tuple(each["x"]), each["y"]
        some = passing & (groups == "CIFAR-10+ImageNet")
        assert each["excluded"] == pytest.approx(np.abs(robust[y, x][some]).mean())
        assert each["included"] == pytest.approx(np.abs(plane(columns, y, x, passing)[some]).mean())
        assert each["n"] == some.sum() == 7
    shown = run(*[word for word in words if word != "--json"]).out
    for message in ("R² of accuracies", "above the fit, points", "Kendall's τ with all x", "mean error without them"):
        assert message in shown
    lines = list(csv.DictReader(run(*[word if word != "--json" else "--csv" for word in words]).out.splitlines()))
    assert len(lines) == 9 + 36 + 18 + 9


def test_one_plane_shows_its_models_and_the_same_groups(
    run: Callable[..., Any], scores: tuple[Columns, np.ndarray], tmp_path: Path
) -> None:
    columns, groups = scores
    run("import", "tidy", "zoo.csv", "--store", "s")
    (tmp_path / "facts.csv").write_text("model,head\n" + "".join(f"m{i:02d},{i % 2}\n" for i in range(len(groups))))
    words = ("trend", "--store", "s", "--benchmark", "zoo", "--x", ID[0], "--x", ID[1], "--y", OOD[1], "--json")
    made = json.loads(run(*words, "--facts", "facts.csv", "--group", "head", "--fit", "group!=CIFAR-10+ImageNet").out)
    kept = groups != "CIFAR-10+ImageNet"
    robust = plane(columns, OOD[1], ID, kept)
    beyond = {each["model"]: each["beyond"] for each in made["models"]}
    assert [beyond[f"m{i:02d}"] for i in range(len(groups))] == pytest.approx(robust.tolist())
    whole = [each for each in made["multi_id"]["groups"] if len(each["x"]) == 2]
    assert {each["group"]: each["mean"] for each in whole} == pytest.approx(
        {str(i): robust[i::2].mean() for i in range(2)}
    )


def test_what_is_no_fact_or_cut_is_misuse(run: Callable[..., Any], scores: object, tmp_path: Path) -> None:
    run("import", "tidy", "zoo.csv", "--store", "s")
    words = ("trend", "--store", "s", "--benchmark", "zoo", "--x", ID[0], "--y", OOD[0])
    (tmp_path / "others.csv").write_text("model,group\nnobody,a\n")
    for more, message in (
        (("--group", "grup"), "did you mean `group`"),
        (("--cut", "group=ImageNet"), "is no cut"),
        (("--cut", "imagenet>=100%"), "no model passes"),
        (("--held-out", "group=ImageNet"), "--leave-out"),
        (("--facts", "others.csv"), "names none of the models"),
        (("--facts", "absent.csv"), "absent.csv"),
    ):
        done = run(*words, *more)
        assert done.code, more
        assert message in done.err.replace("\n", " "), (more, done.err)
