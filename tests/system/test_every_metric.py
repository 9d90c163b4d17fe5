"""Every metric from the command line, by `scores --metric` and as a column of a board, on rows made up for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.core.registry import registry
from holdfast.metrics.corruption_error import ALEXNET
from holdfast.metrics.scopes import OfBattery, metric_of
from holdfast.store import Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.importers import read_results
from holdfast.store.importing import keep

N, MODELS, HOME, OTHER = 120, 12, "imagenet", "imagenet-r"
BEST = f"m{MODELS - 1}"  # the one model that has all corruptions
ATTACK, SWEPT = "pgd-linf:radius=4/255", "sweep:attack=(pgd-linf),radii=[0.1,0.2]"
NAMES = [{"jpeg-compression": "jpeg"}.get(name, name) for name in ALEXNET]
SCENARIOS = [
    *(HOME, OTHER, f"{HOME}+{ATTACK}", f"{OTHER}+{ATTACK}", f"{HOME}+pgd-l2:radius=0.5", f"{HOME}+{SWEPT}"),
    *(f"{HOME}+{name}:severity={severity}" for name in NAMES for severity in range(1, 6)),
    f"{HOME}+fog:severity=3+{ATTACK}",
]
MRB = {"NoAttack": 90.0, "L2": {"0.5": 80.0, "1.0": 60.0}, "StAdv": {"0.1": 70.0, "0.2": 40.0}}
PLACED = {  # what a column is made of, where it is not the home dataset alone
    "mce": f'scenarios = ["{HOME}+{{names}}:severity={{1,2,3,4,5}}"]\nreference = "{HOME}"',
    "relative-mce": f'scenarios = ["{HOME}+{{names}}:severity={{1,2,3,4,5}}"]\nreference = "{HOME}"',
    "union-accuracy": f'scenarios = ["{HOME}+{{{ATTACK},pgd-l2:radius=0.5}}"]',
    "average-accuracy": f'scenarios = ["{HOME}+{{{ATTACK},pgd-l2:radius=0.5}}"]',
    "mean-over-radii": f'scenarios = ["{HOME}+{SWEPT}"]',
    "area-under-radius-curve": f'scenarios = ["{HOME}+{SWEPT}"]',
    "ood": "scenarios = [{}]\nreference = {}".format(
        ", ".join(
            f'"{text}"'
            for text in (f"{HOME}+fog:severity=3+{ATTACK}", f"{OTHER}+{ATTACK}", f"{HOME}+pgd-l2:radius=0.5")
        ),
        f'"{HOME}+{ATTACK}"',
    ),
}
OVER_COLUMNS = ("upper-limit", "conversion-rate", "pearson", "r2", "catastrophic-degradation", "effective-robustness")
REFERRED = ("posterior-agreement", "prediction-agreement", "mean-confidence-when-broken", "robust-accuracy")


FEWER = {  # what a metric is asked of, where that is not one attacked scenario
    **{name: ["--model", BEST] for name in ("mce", "relative-mce", "union-accuracy", "average-accuracy")},
    "ood": ["--reference", f"{HOME}+{ATTACK}", "--model", BEST],
    **{
        name: ["--scenario", f"{HOME}+{SWEPT}", "--model", BEST]
        for name in ("mean-over-radii", "area-under-radius-curve")
    },
}


def change_of(text: str) -> ChangeRecord:
    ref = registry.bind_change(text)
    return ChangeRecord.of(ref)


@pytest.fixture
def store(tmp_path: Path, rows_for, footer_for) -> Store:
    made = Store(str(tmp_path / "store"))
    random = np.random.default_rng(0)
    spelled = {text: str(registry.scenario(text)) for text in SCENARIOS}
    for i in range(MODELS):
        skill = 0.5 + 0.035 * i
        for j, text in enumerate(SCENARIOS):
            if ":severity=" in text and f"m{i}" != BEST:
                continue
            changes = tuple(change_of(part) for part in _changes(text))
            share = skill * (0.97 if not changes else 0.8 - 0.002 * (j % 30))
            right = [bool(one) for one in random.random(N) < share]
            footer = footer_for(f"m{i}", spelled[text], changes=changes, population=N, n=N)
            radii = np.where(right, np.inf, 0.1).astype(np.float32)
            more = {"radii": radii} if SWEPT in text or ATTACK in text else {}
            rows = rows_for(right, footer=footer, **more)
            made.finish([rows], rows.ids, footer)
    folder = tmp_path / "mrb"
    folder.mkdir()
    details = {"Attacks Used": {"L2": 0.5}}
    lower = {"NoAttack": 80.0, "L2": {"0.5": 60.0, "1.0": 30.0}, "StAdv": {"0.1": 35.0, "0.2": 10.0}}
    (folder / "def_accs.json").write_text(json.dumps({"Mine": {"Details": details, "Accuracies": lower}}))
    (folder / "ata_accs.json").write_text(json.dumps(MRB))
    keep(made, read_results("multirobustbench", folder).scores)
    return made


def _changes(text: str) -> list[str]:
    from holdfast.core.values import split

    return list(split(text, "+")[1:])


def test_scores_reach_every_metric(run, store: Store) -> None:
    """Those over a battery of attacks on a published table, all others on rows."""
    for name in registry.entries("metric"):
        if isinstance(metric_of(name), OfBattery):
            continue
        words = ["--metric", name]
        words += FEWER.get(name, ["--scenario", f"{HOME}+{ATTACK}"])
        result = run("scores", "--store", "store", *words, "--json")
        assert result.code == 0, (name, result.err)
        records = json.loads(result.out)
        named = [[value for key, value in record.items() if key in ("value", name)] for record in records]
        values = [value for each in named for value in each]
        assert any(value is not None for value in values), (name, [record.get("note") for record in records][:2])


def test_a_battery_is_reached_from_public_results(run, store: Store, tmp_path: Path) -> None:
    for name in ("cr-exp", "cr-max", "uar", "uar:attack=StAdv", "cr-in", "cr-out", "single-cr", "stability-constant"):
        path = tmp_path / "battery.toml"
        column = f'name = "x"\nunit = "number"\nscore = "{name}"\nscenarios = ["cifar10"'
        column += ', "cifar10+sweep:attack=(pgd-l2),radii=[0.5,1]", "cifar10+sweep:attack=(stadv),radii=[0.1,0.2]"]'
        column += '\nsettings = ["NoAttack", "L2", "StAdv"]'
        path.write_text(f'title = "t"\npublished = ["multirobustbench"]\n[[board]]\n{column}\n')
        shown = json.loads(run("board", str(path), "--store", "store", "--json").out)
        found = {record["model"]: record for record in shown["scores"]}
        assert found["Mine"]["value"] is not None, (name, found["Mine"])
        if name == "cr-exp":
            assert found["Mine"]["value"] == pytest.approx((80 + 60 + 30 + 35 + 10) / (90 + 80 + 60 + 70 + 40))
        if name == "cr-max":
            assert found["Mine"]["value"] == pytest.approx(10 / 40)
        if name == "uar:attack=StAdv":
            assert found["Mine"]["value"] == pytest.approx(45 / 110)


def test_every_metric_is_a_column_of_a_board(run, store: Store, tmp_path: Path) -> None:
    lists = ", ".join(f'"{name}"' for name in NAMES)
    parts = [f'title = "t"\nsort = "clean"\n[lists]\nnames = [{lists}]\n']
    parts.append(f'[[board]]\nname = "clean"\nscenarios = ["{HOME}"]\n')
    parts.append(f'[[board]]\nname = "hard"\nscenarios = ["{HOME}+{ATTACK}"]\n')
    names = [name for name in registry.entries("metric") if not isinstance(metric_of(name), OfBattery)]
    for name in names:
        score = f"{name}:space=linear" if name == "effective-robustness" else name
        columns = PLACED.get(name, f'scenarios = ["{HOME}"]')
        if name in OVER_COLUMNS:
            columns = 'of = ["hard", "clean"]'
        if name in REFERRED:
            columns = f'scenarios = ["{HOME}+{ATTACK}"]\nreference = "{HOME}"'
        parts.append(f'[[board]]\nname = "x-{name}"\nunit = "number"\nscore = "{score}"\n{columns}\n')
    path = tmp_path / "all.toml"
    path.write_text("\n".join(parts))
    result = run("board", str(path), "--store", "store", "--json")
    assert result.code == 0, result.err
    first = {record["score"]: record for record in json.loads(result.out)["scores"] if record["model"] == BEST}
    missing = {name: first[f"x-{name}"]["note"] for name in names if first[f"x-{name}"]["value"] is None}
    assert not missing


def test_a_column_and_the_command_give_one_number(run, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(
        f'title = "t"\n[[board]]\nname = "clean"\nscenarios = ["{HOME}"]\n'
        f'[[board]]\nname = "hard"\nscenarios = ["{HOME}+{ATTACK}"]\n'
        '[[board]]\nname = "limit"\nof = ["hard", "clean"]\nscore = "upper-limit"\n'
        f'[[board]]\nname = "kappa"\nunit = "number"\nscenarios = ["{HOME}"]\nscore = "error-consistency"\n'
    )
    board = json.loads(run("board", str(path), "--store", "store", "--json").out)["scores"]
    on_board = {(record["model"], record["score"]): record["value"] for record in board}
    words = ["--store", "store", "--json", "--metric"]
    (limit,) = json.loads(run("scores", *words, "upper-limit", "--scenario", f"{HOME}+{ATTACK}").out)
    assert [on_board[f"m{i}", "limit"] for i in range(MODELS)] == pytest.approx([limit["value"]] * MODELS)
    kappa = json.loads(run("scores", *words, "error-consistency", "--scenario", HOME).out)
    assert {record["model"]: record["value"] for record in kappa} == {
        f"m{i}": pytest.approx(on_board[f"m{i}", "kappa"]) for i in range(MODELS)
    }
    assert len(kappa[0]["details"]["kappa"]) == MODELS
    line = json.loads(
        run(
            "trend",
            "--benchmark",
            "store",
            "--store",
            "store",
            "--x",
            HOME,
            "--y",
            f"{HOME}+{ATTACK}",
            "--space",
            "linear",
            "--json",
        ).out
    )
    assert line["upper_limit"]["value"] == pytest.approx(limit["value"])


@pytest.mark.parametrize(("wrong", "near"), [("crexp", "cr-exp"), ("bier", "brier"), ("upper-limt", "upper-limit")])
def test_an_unknown_metric_lists_near_names(run, tmp_path: Path, wrong: str, near: str) -> None:
    result = run("scores", "--metric", wrong)
    assert result.code == 2
    assert f"did you mean `{near}`" in result.err
    path = tmp_path / "one.toml"
    path.write_text(f'title = "t"\n[[board]]\nname = "x"\nscenarios = ["fashion-mnist-2k"]\nscore = "{wrong}"\n')
    result = run("board", str(path))
    assert result.code == 2
    assert f"did you mean `{near}`" in result.err


def test_json_has_the_whole_confusion_and_every_class(run, store: Store) -> None:
    words = ["--metric", "confusion", "--metric", "per-class-accuracy", "--scenario", HOME, "--model", "m3"]
    (record,) = json.loads(run("scores", "--store", "store", "--json", *words).out)
    counts = np.array(record["confusion details"]["counts"])
    assert counts.sum() == N
    assert np.trace(counts) == round(record["accuracy"] * N)
    classes = record["per-class-accuracy details"]
    assert len(classes) == 10
    assert sum(one["n"] for one in classes.values()) == N
    assert record["per-class-accuracy"] == min(one["value"] for one in classes.values())


def test_metrics_of_runs_and_of_models_can_be_asked_for_together(run, store: Store) -> None:
    words = ["--store", "store", "--metric", "brier", "--metric", "rank", "--scenario", HOME]
    records = json.loads(run("scores", *words, "--json").out)
    assert sum("brier" in record for record in records) == MODELS
    assert sum(record.get("metric") == "rank" for record in records) == MODELS
    assert "ask for it alone" in run("scores", *words, "--csv").err
    assert "rank" in run("scores", *words).out


def test_a_published_table_is_scored_by_its_settings(run) -> None:
    words = [
        "--benchmark",
        "oodrobustbench-cifar10-linf",
        "--scenario",
        "ood-d-robustness",
        "--reference",
        "id-robustness",
    ]
    (record,) = json.loads(run("scores", "--metric", "pearson", *words, "--json").out)
    assert record["n"] == 20
    assert 0.9 < record["low"] < record["value"] < record["high"] < 1
    counts = json.loads(run("scores", "--metric", "catastrophic-degradation", *words, "--json").out)
    assert {one["value"] for one in counts} <= {0.0, 1.0}
    assert "--benchmark takes a metric over many models" in run("scores", "--metric", "brier", *words).err
    assert "needs to know of which settings" in run("scores", "--metric", "pearson", *words[:2]).err
