"""Label maps in runs: applied to every model, seen by attacks, told in the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.core import registry as module
from holdfast.core.errors import HoldfastError
from holdfast.core.labels import LabelMap, merged, subset, whole
from holdfast.core.registry import registry
from holdfast.datasets.in_memory import InMemory, in_memory, numbered
from holdfast.engine.evaluate import evaluate
from holdfast.engine.gallery import explain
from holdfast.engine.jobs import ModelLoader, RunOptions
from holdfast.engine.plan import plan
from holdfast.models import TorchClassifier
from holdfast.store import Store

MAPS = {
    "subset": subset(10, [7, 2, 5], words="three of ten"),
    "merged": merged(10, [(0, 1, 2), (3, 4)], words="two groups", other=True),
    "whole": whole(10, words="all ten"),
}


def dataset(answers: LabelMap | None) -> InMemory:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 1, 28, 28), dtype=np.uint8)
    made = in_memory("mapped", pixels, np.arange(40) % 2, ids=numbered(range(40), width=2), classes=("a", "b"))
    made.card = replace(made.card, answers=answers)
    return made


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset `mapped:answers=NAME` for one test."""

    def make(*, answers: str) -> InMemory:
        return dataset(MAPS.get(answers))

    registry.entries("dataset")
    parameters = (module.Parameter("answers", str, module.REQUIRED, False),)
    entry = module.Component("dataset", "mapped", make, 1, "", (), parameters)
    monkeypatch.setitem(registry.components["dataset"], "mapped", entry)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


MODEL = "fashion-standard"


def raw_logits(loader: ModelLoader) -> torch.Tensor:
    _, model = loader.model(registry.bind("model", MODEL))
    with torch.no_grad():
        return model(dataset(None).images(range(40)).pixels / 255)


@pytest.mark.usefixtures("mapped")
def test_rows_hold_mapped_answers_and_say_how_they_came_about(store: Store) -> None:
    own = raw_logits(ModelLoader(torch.device("cpu"))).numpy()
    expected = {
        "subset": own[:, [7, 2, 5]],
        "merged": np.stack([own[:, :3].max(1), own[:, 3:5].max(1), own[:, 5:].max(1)], axis=1),
        "whole": own,
    }
    for name, answers in MAPS.items():
        (outcome,) = evaluate(MODEL, f"mapped:answers={name}", store=store, pictures=2)
        assert outcome.rows is not None, outcome.error
        assert outcome.rows.predictions.tolist() == expected[name].argmax(1).tolist()
        assert outcome.rows.footer.facts["answers"] == answers.words
        assert outcome.rows.footer.card.classes == answers.classes
        assert not [flag for flag in outcome.rows.footer.flags if flag.level == "error"]
        # float16 in the rows
        np.testing.assert_allclose(outcome.rows.logits, expected[name], rtol=2e-3, atol=2e-3)


@pytest.mark.usefixtures("mapped")
def test_an_attack_breaks_the_mapped_answer_and_the_sample_can_be_made_again(store: Store) -> None:
    scenario = "mapped:answers=merged+pgd-linf:radius=0.3,steps=10"
    clean, attacked = evaluate(MODEL, ["mapped:answers=merged", scenario], store=store)
    assert attacked.rows is not None, attacked.error
    assert attacked.rows.footer.facts["answers"] == "two groups"
    assert attacked.rows.correct.sum() < clean.rows.correct.sum()
    made = explain(store, attacked.rows.footer.key, attacked.rows.ids[3])
    assert made.as_stored
    assert len(made.logits) == 3


@pytest.mark.usefixtures("mapped")
def test_a_plan_counts_mapped_runs_like_any_other(store: Store) -> None:
    planned = plan([MODEL], ["mapped:answers=subset+pgd-linf:steps=3"], store=store)
    assert planned[0].problem is None
    assert planned[0].seconds is not None


@pytest.mark.usefixtures("mapped")
def test_another_map_is_another_run_and_a_model_is_mapped_once(linear: Callable[..., TorchClassifier]) -> None:
    loader, options = ModelLoader(torch.device("cpu")), RunOptions()
    model = linear(classes=10, size=28)
    scenarios = [registry.scenario(f"mapped:answers={name}") for name in ("subset", "subset", "merged", "whole")]
    jobs = [loader.job(model, scenario, options) for scenario in scenarios]
    assert jobs[0].model is jobs[1].model
    assert jobs[3].model is model, "all classes in order need no map"
    assert len({job.run.key for job in jobs}) == 3


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("name", MAPS)
def test_a_model_with_other_classes_than_the_map_is_refused(
    store: Store, linear: Callable[..., TorchClassifier], name: str
) -> None:
    (outcome,) = evaluate(linear(classes=12, size=28), f"mapped:answers={name}", store=store)
    assert isinstance(outcome.error, HoldfastError)
    assert "knows 12 classes, `mapped` asks for a model of 10" in outcome.error.problem
    assert "answers=" in str(outcome.error.hint)


@pytest.mark.usefixtures("mapped")
def test_labels_beyond_the_answers_are_refused(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setitem(MAPS, "one", subset(10, [3], words="one"))
    (outcome,) = evaluate(MODEL, "mapped:answers=one", store=store)
    assert outcome.error is not None
    assert "labels of `mapped` run from 0 to 1" in outcome.error.problem
