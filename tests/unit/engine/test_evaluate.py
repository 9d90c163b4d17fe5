"""The engine: same rows whatever the batches, resumes exactly, fails with reasons and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.types import Score
from holdfast.engine import evaluate as evaluate_module
from holdfast.engine import jobs
from holdfast.engine.evaluate import evaluate
from holdfast.engine.jobs import ModelLoader, RunOptions
from holdfast.engine.measure import measure
from holdfast.engine.shards import Shard
from holdfast.engine.watch import Watcher
from holdfast.models import wrap
from holdfast.store import Rows, Store

CPU = torch.device("cpu")
MODEL = "fashion-at-linf"
CHANGED = "fashion-mnist-2k+gaussian-noise:severity=3+pgd-linf:radius=8/255,steps=3"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate_module, "shard_size", lambda _: 10)
    monkeypatch.setattr(evaluate_module, "KEEP_EVERY", 0.0)


def rows_of(*args: object, **more: object) -> Rows:
    (outcome,) = evaluate(*args, **more)  # type: ignore[arg-type]
    if outcome.error is not None:
        raise outcome.error
    assert outcome.rows is not None
    return outcome.rows


def ties(one: Rows, other: Rows) -> int:
    """Predictions that differ; each must be a tie within float error, else it is a difference."""
    assert one.ids == other.ids
    differ = np.flatnonzero(one.predictions != other.predictions)
    for i in differ:
        for rows in (one, other):
            gap = rows.floats("prediction_logit")[i] - rows.floats("label_logit")[i]
            assert abs(gap) < 1e-4, f"{rows.ids[i]} differs by more than float error"
    return len(differ)


@pytest.mark.parametrize("scenario", ["fashion-mnist-2k", CHANGED])
def test_rows_do_not_depend_on_the_batch_size(scenario: str, tmp_path: Path) -> None:
    made = [
        rows_of(MODEL, scenario, store=str(tmp_path / str(size)), samples=100, batch_size=size, pictures=0)
        for size in (1, 7, 64)
    ]
    assert sum(ties(made[0], other) for other in made[1:]) <= 1
    for other in made[1:]:
        np.testing.assert_allclose(other.floats("label_logit"), made[0].floats("label_logit"), atol=2e-3)


def test_rows_and_noise_do_not_depend_on_the_order_of_samples() -> None:
    job = ModelLoader(CPU).job(registry.bind("model", MODEL), registry.scenario(CHANGED), RunOptions())
    noisy = ModelLoader(CPU).job(
        registry.bind("model", MODEL), registry.scenario(CHANGED.rsplit("+", 1)[0]), RunOptions()
    )
    index = np.arange(60)
    mixed = np.random.default_rng(0).permutation(60)
    for each, bitwise in ((noisy, True), (job, False)):
        straight = measure(each.setting(CPU), Shard(index, each.dataset.images(index.tolist())), width=64)
        shuffled = measure(each.setting(CPU), Shard(mixed, each.dataset.images(mixed.tolist())), width=64)
        if bitwise:
            assert torch.equal(straight.after[mixed], shuffled.after), "noise is the same to the bit"
        told = straight.predictions().logits[mixed].argmax(1) != shuffled.predictions().logits.argmax(1)
        assert int(told.sum()) == 0


def test_two_workers_halves_merge_to_the_whole(store: Store, tmp_path: Path) -> None:
    """Two workers measure half of the shards each, with other batch sizes; the third finds nothing left to do."""
    whole = rows_of(MODEL, CHANGED, store=str(tmp_path / "whole"), samples=120, pictures=0)
    job = ModelLoader(CPU).job(registry.bind("model", MODEL), registry.scenario(CHANGED), RunOptions(samples=120))
    from holdfast.store.rows import to_rows

    for half, width in ((job.order[::2], 13), (job.order[1::2], 64)):
        measured = measure(job.setting(CPU), Shard(half, job.dataset.images(half.tolist())), width=width)
        store.add_part(to_rows(measured.predictions(), job.footer))
    watcher = Counting()
    merged = rows_of(MODEL, CHANGED, store=store, samples=120, pictures=0, watcher=watcher)
    assert watcher.measured == 0
    assert ties(whole, merged) == 0


class Counting(Watcher):
    """Counts measured samples; can stop a run in the middle, as Ctrl-C does."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.measured = 0
        self.notes: list[str] = []
        self.stop_after = stop_after
        self.standing: Score | None = None

    def advanced(self, run: object, samples: int, standing: Score) -> None:
        self.measured += samples
        self.standing = standing
        if self.stop_after is not None and self.measured >= self.stop_after:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.usefixtures("small_shards")
def test_ctrl_c_keeps_finished_shards_and_the_same_call_resumes(store: Store, tmp_path: Path) -> None:
    undisturbed = rows_of(MODEL, CHANGED, store=str(tmp_path / "other"), samples=60, pictures=0)
    stopped = Counting(stop_after=30)
    with pytest.raises(KeyboardInterrupt):
        evaluate(MODEL, CHANGED, store=store, samples=60, pictures=0, watcher=stopped)
    assert len(store.unfinished()) == 1
    resumed = Counting()
    rows = rows_of(MODEL, CHANGED, store=store, samples=60, pictures=0, watcher=resumed)
    assert resumed.measured == 60 - 20, "the shard that was being handed over when Ctrl-C came is done again"
    assert rows.footer.digest == undisturbed.footer.digest, "to the bit: shards are fixed, so batches are the same"
    assert store.unfinished() == {}


@pytest.mark.usefixtures("small_shards")
def test_an_error_in_the_middle_loses_nothing(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_data(n=40)
    real, calls = evaluate_module.measure, iter(range(100))

    def breaking(*args: object, **more: object) -> object:
        if next(calls) == 2:
            raise HoldfastError("the model went away")
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(evaluate_module, "measure", breaking)
    (outcome,) = evaluate(MODEL, data, store=store)
    assert "went away" in str(outcome.error)
    (parts,) = store.unfinished().values()
    assert sum(len(part) for part in parts) == 20
    watcher = Counting()
    assert len(rows_of(MODEL, data, store=store, watcher=watcher)) == 40
    assert watcher.measured == 20


def test_what_is_done_is_not_done_again(store: Store) -> None:
    first = evaluate(MODEL, "fashion-mnist-2k", store=store, samples=50)
    watcher = Counting()
    second = evaluate(MODEL, "fashion-mnist-2k", store=store, samples=50, watcher=watcher)
    assert first[0].fresh
    assert not second[0].fresh
    assert watcher.measured == 0
    assert first[0].rows.footer == second[0].rows.footer  # type: ignore[union-attr]


def test_a_larger_choice_takes_over_the_smaller(store: Store) -> None:
    rows_of(MODEL, "fashion-mnist-2k", store=store, samples=512)
    watcher = Counting()
    rows = rows_of(MODEL, "fashion-mnist-2k", store=store, watcher=watcher)
    assert len(rows) == 2000
    assert "rows taken over from" in rows.footer.facts
    fresh = rows_of(MODEL, "fashion-mnist-2k", store=f"{store.url}-fresh")
    assert ties(rows, fresh) == 0
    watcher = Counting()
    rows_of(MODEL, "fashion-mnist-2k", store=store, samples=700, watcher=watcher)
    assert watcher.measured == 0, "a smaller choice lies in the larger"


def test_a_changed_model_or_dataset_is_another_run(store: Store, tiny_data: Callable[..., str]) -> None:
    class Constant(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.full((10,), value))

        def forward(self, images: Tensor) -> Tensor:
            return images.mean((1, 2, 3))[:, None] * self.value

    keys = set()
    for value, seed in ((1.0, 0), (2.0, 0), (1.0, 1)):
        rng = np.random.default_rng(seed)
        data = tiny_data(images=rng.integers(0, 256, (60, 28, 28), dtype=np.uint8))
        model = wrap(Constant(value), name="constant", classes=10, channels=1)
        keys.add(rows_of(model, data, store=store).footer.key)
    assert len(keys) == 3


def test_mixed_runs_go_on_past_one_that_fails(store: Store, tiny_data: Callable[..., str]) -> None:
    coloured = tiny_data(name="colour", images=np.zeros((60, 8, 8, 3), dtype=np.uint8))
    outcomes = evaluate(
        [MODEL, "fashion-standard"],
        [coloured, "fashion-mnist-2k"],
        store=store,
        samples=20,
        watcher=(seen := Counting()),
    )
    assert [outcome.error is None for outcome in outcomes] == [False, True, False, True]
    assert "takes 1 channels" in str(outcomes[0].error)
    assert len(seen.notes) == 2


def test_precision_stops_early_at_the_same_sample_whatever_the_batches(tmp_path: Path) -> None:
    made = [
        rows_of(MODEL, "fashion-mnist-2k", store=str(tmp_path / str(size)), precision=0.03, batch_size=size, pictures=0)
        for size in (64, 500)
    ]
    assert made[0].ids == made[1].ids
    n = len(made[0])
    assert n % 100 == 0
    assert n < 2000
    from holdfast.core.intervals import wilson

    score = wilson(int(made[0].correct.sum()), n)
    assert (score.high - score.low) / 2 <= 0.03
    assert made[0].footer.selection == "precision 3%"
    assert made[0].footer.is_partial


def test_a_precision_out_of_reach_measures_everything(store: Store, tiny_data: Callable[..., str]) -> None:
    assert len(rows_of(MODEL, tiny_data(n=150), store=store, precision=0.001)) == 150


def test_samples_are_stratified(store: Store) -> None:
    rows = rows_of(MODEL, "fashion-mnist-2k", store=store, samples=100)
    assert np.bincount(rows.labels).tolist() == [10] * 10


def test_counts_and_provenance_are_in_the_footer(store: Store) -> None:
    rows = rows_of(MODEL, CHANGED, store=store, samples=30)
    footer = rows.footer
    assert footer.forwards == rows.floats("forwards").sum() > 30
    assert footer.backwards == rows.floats("backwards").sum() > 0
    assert footer.facts["gaussian-noise ladder"] == "cifar"
    assert footer.versions.keys() >= {"holdfast", "torch", "numpy", "python"}
    assert footer.command == f"holdfast evaluate {MODEL} --scenario {CHANGED} --samples 30"
    assert footer.seconds > 0
    assert (rows.floats("size") <= 8 / 255 + 1e-6).all()


def test_the_scale_of_a_clean_run_is_one_forward_pass_each(store: Store) -> None:
    rows = rows_of(MODEL, "fashion-mnist-2k", store=store, samples=30)
    assert rows.floats("forwards").tolist() == [1.0] * 30
    assert rows.floats("backwards").tolist() == [0.0] * 30


def test_wrong_wishes_are_misuse(store: Store) -> None:
    for wish in ({"samples": 0}, {"precision": 0.7}, {"batch_size": 0}, {"device": "abacus"}):
        with pytest.raises(Misuse):
            evaluate(MODEL, "fashion-mnist-2k", store=store, **wish)  # type: ignore[arg-type]


def test_a_bad_argument_shows_before_anything_runs(store: Store) -> None:
    with pytest.raises(Misuse, match="1 to 5"):
        evaluate(MODEL, ["fashion-mnist-2k", "fashion-mnist-2k+contrast:severity=6"], store=store)
    assert store.footers() == {}


@pytest.fixture(autouse=True)
def _quiet_threads() -> Iterator[None]:
    yield
    import threading

    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-decode"], (
        "a reader was left behind"
    )


def test_finished_runs_of_a_file_model_are_answered_without_loading_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import holdfast.models.zoo as zoo

    file = tmp_path / "own.safetensors"
    file.write_bytes((Path(zoo.__file__).parent / "fashion-standard.safetensors").read_bytes())
    asked = ["fashion-mnist-2k", "fashion-mnist-2k+pgd-linf:steps=2"]
    first = evaluate(f"file:{file}", asked, store=store, samples=20)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "load", Mock(side_effect=AssertionError("loaded")))
        again = evaluate(f"file:{file}", asked, store=Store(store.url), samples=20)
    assert [outcome.fresh for outcome in again] == [False, False]
    assert [outcome.rows.digest for outcome in again] == [outcome.rows.digest for outcome in first]
    file.write_bytes((Path(zoo.__file__).parent / "fashion-noise.safetensors").read_bytes())
    other = evaluate(f"file:{file}", asked, store=Store(store.url), samples=20)
    assert all(outcome.fresh for outcome in other), "another file under the same name"
