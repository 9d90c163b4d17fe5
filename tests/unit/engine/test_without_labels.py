"""Images that nobody labelled: answers are stored, `predict` and `agree` use them, and nothing invents an accuracy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import holdfast
from holdfast import conformance, datasets
from holdfast.core.errors import HoldfastError, Misuse, NoLabels
from holdfast.engine.image_export import run_images
from holdfast.metrics.compare import comparisons
from holdfast.metrics.summary import line, lines, unlabelled
from holdfast.site.model_results import model_results
from holdfast.store import Store

MODELS = ("fashion-standard", "fashion-noise", "fashion-at-linf")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, some in a folder inside it."""
    folder = tmp_path_factory.mktemp("data") / "pool"
    (folder / "more").mkdir(parents=True)
    pixels = datasets.load("fashion-mnist-2k").images(range(40)).pixels.numpy()[:, 0]
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{'more/' if i % 2 else ''}{i:02}.png")
    np.savez(folder.parent / "pool.npz", images=pixels)
    return folder


@pytest.fixture(scope="module")
def rows(pool: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with labelled runs and runs without labels."""
    store = str(tmp_path_factory.mktemp("rows"))
    here = f"folder:{pool},channels=1,labels=none"
    outcomes = holdfast.evaluate(
        MODELS, ["fashion-mnist-2k", here, f"{here}+contrast:severity=1"], samples=100, store=store
    )
    assert not outcomes.failed
    return store


def shifted(store: str) -> str:
    """The scenario without labels and without a change."""
    return next(footer.scenario for footer in unlabelled(Store(store)) if not footer.changes)


def test_rows_have_answers_and_no_labels(rows: str) -> None:
    store = Store(rows)
    footer = unlabelled(store, models=["fashion-standard"])[0]
    made = store.read(footer.key)
    assert len(made) == 40
    assert (footer.right, footer.in_top5, footer.failed, footer.classes) == (None, None, 0, ())
    assert not np.isnan(made.predictions).any()
    assert made.table.column("label").null_count == made.table.column("rank").null_count == 40
    with torch.no_grad():
        answers = holdfast.load("fashion-standard")(datasets.load("fashion-mnist-2k").images(range(40)).pixels / 255)
    assert made.predictions.tolist() == [int(answers[int(Path(name).stem)].argmax()) for name in made.ids]


def test_ids_are_paths_and_the_dataset_conforms(pool: Path) -> None:
    ref = f"folder:{pool},channels=1,labels=none"
    assert {"00.png", "more/01.png"} <= set(datasets.load(ref).ids)
    conformance.check_dataset(ref)
    conformance.check_dataset(f"arrays:{pool.parent}/pool.npz,labels=none")


def test_what_needs_labels_refuses(rows: str) -> None:
    store = Store(rows)
    made = store.read(unlabelled(store)[0].key)
    for metric in (holdfast.accuracy, line, lambda some: some.labels, lambda some: some.correct):
        with pytest.raises(NoLabels, match="has no labels"):
            metric(made)
    with pytest.raises(NoLabels, match="has no labels"):
        holdfast.compare(made, made)
    with pytest.raises(NoLabels, match="without labels alone"):
        comparisons(store, *MODELS[:2], scenarios=[shifted(rows)])
    with pytest.raises(NoLabels, match="it has no labels"):
        run_images(store, made.footer.key)
    assert run_images(store, made.footer.key, failures=False, limit=3).labels.tolist() == [-1] * 3


def test_an_outcome_says_that_there_are_no_labels(rows: str, pool: Path) -> None:
    outcomes = holdfast.evaluate(MODELS[0], f"folder:{pool},channels=1,labels=none", samples=100, store=rows)
    assert "no labels" in str(outcomes)
    assert outcomes.records()[0] | {"model": "", "scenario": ""} == {
        "model": "",
        "scenario": "",
        "accuracy": None,
        "low": None,
        "high": None,
        "n": 40,
        "error": None,
    }
    with pytest.raises(NoLabels, match="has no labels"):
        _ = outcomes.scores


def test_scores_boards_and_reports_show_the_labelled_runs_alone(rows: str) -> None:
    store = Store(rows)
    assert {each.footer.scenario for each in lines(store)} == {"fashion-mnist-2k"}
    assert len(unlabelled(store)) == 6
    results = model_results(store, "fashion-standard")
    assert [run.footer.scenario for run in results.runs] == ["fashion-mnist-2k"]
    assert all(finding.problem is None for finding in store.verify())


def test_a_model_without_a_labelled_run_has_no_report(pool: Path, tmp_path: Path) -> None:
    holdfast.evaluate(MODELS[0], f"arrays:{pool.parent}/pool.npz,labels=none", store=str(tmp_path))
    with pytest.raises(NoLabels, match="without labels alone"):
        model_results(Store(str(tmp_path)), MODELS[0])


def test_the_commands(rows: str, run: Run) -> None:
    code, out, err = run("scores", "--store", rows)
    assert (code, out.count("fashion-mnist-2k")) == (0, 3)
    assert "6 runs have no labels" in err
    code, _, err = run("scores", "--fail-under", "10%", "--store", rows)
    assert code == 2
    assert "have no labels" in err
    code, _, _ = run("scores", "--fail-under", "10%", "--scenario", "fashion-mnist-2k", "--store", rows)
    assert code == 0
    predict = ("predict", "--x", "fashion-mnist-2k", "--y", shifted(rows), "--draws", "20", "--store", rows)
    code, out, err = run(*predict, "--json")
    assert code == 0, err
    assert len(json.loads(out)["models"]) == 3
    code, _, err = run(*predict, "--check")
    assert code == 2
    assert "has no labels" in err
    one, other = (footer.key for footer in unlabelled(Store(rows), models=["fashion-standard"]))
    code, out, err = run("agree", one, other, "--resamples", "20", "--json", "--store", rows)
    assert code == 0, err
    made = json.loads(out)
    assert "accuracy" not in made
    code, out, err = run("agree", one, other, "--ratio", "0.5,1", "--resamples", "0", "--json", "--store", rows)
    assert (code, len(json.loads(out))) == (0, 2), err
    code, out, _ = run("compare", *MODELS[:2], "--store", rows, "--json")
    assert [each["scenario"] for each in json.loads(out)] == ["fashion-mnist-2k"]
    for words in (("board", "demo"), ("verify",), ("export", "--out", "table.csv")):
        code, _, err = run(*words, "--store", rows)
        assert code == 0, err
    assert "labels=none" not in Path("table.csv").read_text()


def test_attacks_and_precision_need_labels(pool: Path, run: Run) -> None:
    here = f"folder:{pool},channels=1,labels=none"
    code, _, err = run("evaluate", MODELS[0], "--scenario", f"{here}+pgd-linf:radius=1/255", "--store", "rows")
    assert code == 2
    assert "`pgd-linf` needs labels" in err
    assert "corruptions need no labels" in err
    code, _, err = run("evaluate", MODELS[0], "--scenario", here, "--precision", "5%", "--store", "rows")
    assert code == 2
    assert "--precision is of an accuracy" in err


def test_data_without_labels_says_how_to_go_on(pool: Path) -> None:
    with pytest.raises(HoldfastError, match="has no labels") as caught:
        datasets.load(f"arrays:{pool.parent}/pool.npz")
    assert "labels=none" in str(caught.value.hint)
    with pytest.raises(HoldfastError, match="no class folders") as caught:
        datasets.load(f"folder:{pool}/more")
    assert "labels=none" in str(caught.value.hint)
    with pytest.raises(Misuse, match="`answers` says what labels mean"):
        datasets.load(f"folder:{pool},labels=none,answers=imagenet")
    with pytest.raises(NoLabels, match="`per_class` needs labels"):
        datasets.load(f"subsample:(folder:{pool},channels=1,labels=none),count=1,per_class=true")


def test_images_of_a_program_need_no_labels(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    images = torch.rand(12, 3, 8, 8)
    one = holdfast.evaluate(net, (images, None), changes=["", "contrast:severity=3"], name="mine", store=str(tmp_path))
    assert one.rows[0].predictions.tolist() == net(images).argmax(1).tolist()
    pairs = [(image, None) for image in images]
    other = holdfast.evaluate(net, pairs, name="mine", data_name="pairs", store=str(tmp_path))
    assert other.rows[0].predictions.tolist() == one.rows[0].predictions.tolist()
    with pytest.raises(Misuse, match="some images have labels and some have none"):
        holdfast.evaluate(net, [*pairs, (images[0], 1)], name="mine", store=str(tmp_path))
    with pytest.raises(Misuse, match="no labels") as caught:
        holdfast.evaluate(net, images, name="mine", store=str(tmp_path))
    assert "(images, None)" in str(caught.value.hint)
    (attacked,) = holdfast.evaluate(net, (images, None), changes="fgsm:radius=1/255", name="mine", store=str(tmp_path))
    assert isinstance(attacked.error, NoLabels)
