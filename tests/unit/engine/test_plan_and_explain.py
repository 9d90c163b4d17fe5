"""Plans that come true, and samples made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Run
from holdfast.core.registry import registry
from holdfast.engine.device import Width, device_name, is_out_of_memory, pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.engine.gallery import explain, most_wrong
from holdfast.engine.jobs import RunOptions, command
from holdfast.engine.plan import plan, recorded_plan
from holdfast.engine.shards import shards_ahead
from holdfast.models import wrap
from holdfast.store import Rows, Store

MODEL = "fashion-at-linf"
SCENARIOS = ["fashion-mnist-2k", "fashion-mnist-2k+contrast", "fashion-mnist-2k+pgd-linf:steps=3,restarts=2"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def test_a_plan_counts_passes_and_knows_what_is_done(store: Store) -> None:
    options = RunOptions(samples=40)
    before = plan([MODEL], SCENARIOS, store=store, options=options)
    assert [run.state for run in before] == ["to do"] * 3
    assert [(run.cost.forwards, run.cost.backwards) for run in before] == [(1, 0), (1, 0), (10, 6)]
    assert all(run.seconds is not None and run.seconds > 0 for run in before)
    outcomes = evaluate(MODEL, SCENARIOS[:2], store=store, samples=40)
    after = plan([MODEL], SCENARIOS, store=store, options=options)
    assert [run.state for run in after] == ["done", "done", "to do"]
    assert all(outcome.error is None for outcome in outcomes)


def test_a_plan_sees_rows_that_can_be_taken_over(store: Store) -> None:
    evaluate(MODEL, SCENARIOS[0], store=store, samples=40)
    (run,) = plan([MODEL], SCENARIOS[:1], store=store, options=RunOptions(samples=100))
    assert (run.state, run.done, run.samples) == ("under way", 40, 100)


def test_the_cost_of_a_plan_is_never_exceeded(store: Store) -> None:
    (planned,) = plan([MODEL], [SCENARIOS[2]], store=store, options=RunOptions(samples=40))
    (outcome,) = evaluate(MODEL, SCENARIOS[2], store=store, samples=40)
    assert outcome.rows is not None
    assert outcome.rows.floats("forwards").max() <= planned.cost.forwards


def test_a_plan_says_what_cannot_run(store: Store, tiny_data: Callable[..., str]) -> None:
    coloured = tiny_data(images=np.zeros((60, 8, 8, 3), dtype=np.uint8))
    (run,) = plan([MODEL], [coloured], store=store)
    assert run.state == "cannot run"
    assert "takes 1 channels" in (run.problem or "")


def test_a_plan_of_a_forward_only_model_has_a_price_too(store: Store) -> None:
    model = wrap(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)), name="plain", classes=10, channels=1
    )
    model.card = replace(model.card, differentiable=False)
    clean, attacked = plan([model], ["fashion-mnist-2k", "fashion-mnist-2k+pgd-linf"], store=store)
    assert clean.seconds is not None
    assert attacked.state == "cannot run"
    assert attacked.problem == "`plain` gives no gradients, which `pgd-linf` needs"


def test_a_sample_is_made_again_as_it_was(store: Store) -> None:
    (outcome,) = evaluate(MODEL, "fashion-mnist-2k+gaussian-noise+pgd-linf:steps=4", store=store, samples=12)
    rows = outcome.rows
    assert rows is not None
    for i, name in enumerate(rows.ids[:4]):
        made = explain(store, rows.footer.key, name)
        assert made.as_stored
        assert made.size == pytest.approx(rows.floats("size")[i], abs=1e-6)
        assert max(made.logits) == pytest.approx(rows.floats("prediction_logit")[i], abs=1e-3)
        assert made.before != made.after


def test_the_pictures_of_a_run_are_its_most_confident_mistakes(store: Store) -> None:
    (outcome,) = evaluate(
        "fashion-standard", "fashion-mnist-2k+contrast:severity=5", store=store, samples=50, pictures=3
    )
    rows = outcome.rows
    assert rows is not None
    kept = store.pictures(rows.footer.key)
    assert [picture.id for picture in kept] == most_wrong(rows, 3)
    margin = rows.floats("prediction_logit") - rows.floats("label_logit")
    assert margin[rows.ids.index(kept[0].id)] == margin[~rows.correct].max()


def test_a_run_without_mistakes_has_no_pictures(rows_for: Callable[..., Rows]) -> None:
    assert most_wrong(rows_for([True, True]), 3) == []
    assert most_wrong(rows_for([True, False]), 3) == ["s1"]


def test_a_run_whose_weights_changed_cannot_be_explained(store: Store, tmp_path: Path) -> None:
    from holdfast.core.types import ModelCard
    from holdfast.models import save_model

    path = tmp_path / "m.safetensors"
    for seed in (0, 1):
        torch.manual_seed(seed)
        net = registry.build(registry.bind("architecture", "small-cnn"))
        save_model(path, net, ModelCard("m", "", 10, 1), architecture="small-cnn")
        if seed == 0:
            (outcome,) = evaluate(f"file:{path}", "fashion-mnist-2k", store=store, samples=5)
    assert outcome.rows is not None
    with pytest.raises(HoldfastError, match="weights, data or component versions have changed"):
        explain(store, outcome.rows.footer.key, outcome.rows.ids[0])


def test_unknown_runs_and_samples_are_misuse(store: Store) -> None:
    with pytest.raises(Misuse):
        explain(store, "nothing", "x")
    (outcome,) = evaluate(MODEL, "fashion-mnist-2k", store=store, samples=5)
    assert outcome.rows is not None
    with pytest.raises(Misuse, match="no sample in run"):
        explain(store, outcome.rows.footer.key[:6], "test-99999")


def test_the_command_spells_out_what_differs_from_the_defaults() -> None:
    run = Run(registry.bind("model", MODEL), registry.scenario("fashion-mnist-2k"))
    assert command(run) == f"holdfast evaluate {MODEL} --scenario fashion-mnist-2k"
    more = replace(run, seed=4, samples=7, precision=0.01)
    assert command(more).endswith("--seed 4 --samples 7 --precision 0.01")
    assert more.selection == "7 samples, precision 1%"
    assert run.family == replace(run, samples=3).family
    assert run.key != replace(run, samples=3).key


def test_an_error_while_decoding_reaches_the_caller() -> None:
    class Failing:
        def images(self, index: list[int]) -> object:
            raise HoldfastError("the disk went away")

    with pytest.raises(HoldfastError, match="went away"):
        list(shards_ahead(Failing(), [np.arange(3)]))  # type: ignore[arg-type]


def test_a_reader_stops_when_nobody_listens() -> None:
    dataset = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    ahead = shards_ahead(dataset, [np.arange(10)] * 50)
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    import threading

    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-decode"]


def test_devices_have_names_and_widths_fit() -> None:
    device = pick_device("auto")
    assert device_name(device)
    model = wrap(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)), name="plain", classes=10, channels=1
    )
    card = registry.build(registry.bind("dataset", "fashion-mnist-2k")).card
    small = Width.for_model(model, card, torch.device("cpu")).value
    large = Width.for_model(model, replace(card, size=(224, 224)), torch.device("cpu")).value
    assert 1 <= large < small
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_an_error_that_is_not_about_memory_is_not_retried() -> None:
    def work(width: int) -> None:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        Width(8).recovering(work, lambda _: None)


def test_a_plan_from_the_record_agrees_with_one_that_opens_everything(store: Store) -> None:
    evaluate(MODEL, SCENARIOS[0], store=store, samples=40)
    evaluate(MODEL, SCENARIOS[1], store=store, samples=20)
    evaluate("fashion-standard", SCENARIOS[2], store=store, seed=1, samples=10)
    for options in (
        RunOptions(samples=40),
        RunOptions(),
        RunOptions(samples=10),
        RunOptions(samples=5000),
        RunOptions(seed=1, samples=10),
    ):
        whole = plan([MODEL, "fashion-standard"], SCENARIOS, store=store, options=options)
        quick = recorded_plan([MODEL, "fashion-standard"], SCENARIOS, store=store, options=options)
        told = [
            [(run.model, run.scenario, run.samples, run.done, run.cost, run.state) for run in runs]
            for runs in (whole, quick)
        ]
        assert told[0] == told[1]


def test_a_plan_from_the_record_opens_no_model_and_prices_what_it_knows(store: Store) -> None:
    evaluate(MODEL, SCENARIOS[0], store=store, samples=40)
    known, more, other = recorded_plan(
        [MODEL, "file:nowhere.safetensors"], SCENARIOS[:2], store=store, options=RunOptions(samples=40)
    )[:3]
    assert (known.state, known.seconds) == ("done", 0.0)
    (footer,) = store.footers().values()
    assert more.seconds == pytest.approx(footer.seconds), "as many passes, at the pace of the run before"
    assert (other.model, other.state, other.seconds) == ("file:nowhere.safetensors", "to do", None)


def test_a_plan_from_an_empty_record_does_not_guess(store: Store) -> None:
    (run,) = recorded_plan([MODEL], SCENARIOS[:1], store=store)
    assert (run.samples, run.done, run.state, run.seconds) == (None, 0, "to do", None)


def test_a_plan_from_the_record_sees_parts(store: Store) -> None:
    (outcome,) = evaluate(MODEL, SCENARIOS[0], store=store, samples=40)
    assert outcome.rows is not None
    store.add_part(Rows(outcome.rows.table.slice(0, 25), outcome.rows.footer))
    store.files.remove(f"rows/{outcome.rows.footer.key}.parquet")
    (run,) = recorded_plan([MODEL], SCENARIOS[:1], store=store, options=RunOptions(samples=40))
    assert (run.samples, run.done, run.state) == (40, 25, "under way")


def test_the_command_plans_from_the_record(store: Store) -> None:
    evaluate(MODEL, SCENARIOS[0], store=store, samples=40)
    words = ["plan", MODEL, "file:nowhere.safetensors", "--scenario", SCENARIOS[0], "--store", store.url, "--recorded"]
    result = CliRunner().invoke(app, [*words, "--samples", "40"])
    assert result.exit_code == 0, result.output
    assert "1 done, 1 to do; at most 0.0 s left beside 1 runs without a recorded pace" in result.output
    record = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [(run["state"], run["samples"], run["done"]) for run in record["runs"]] == [
        ("under way", 2000, 40),
        ("to do", 2000, 0),
    ]
