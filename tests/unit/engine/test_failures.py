"""What goes wrong: each a clear error or a row with a reason, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastWarning
from holdfast.engine.evaluate import evaluate
from holdfast.engine.watch import Watcher
from holdfast.models import wrap
from holdfast.store import Rows, Store
from holdfast.store.files import NoRoom

MODEL = "fashion-at-linf"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def rows_of(*args: object, **more: object) -> Rows:
    (outcome,) = evaluate(*args, **more)  # type: ignore[arg-type]
    if outcome.error is not None:
        raise outcome.error
    assert outcome.rows is not None
    return outcome.rows


class Notes(Watcher):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Hungry(nn.Module):
    """Runs out of memory beyond a number of samples."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.seen = most, []  # type: ignore[var-annotated]
        self.linear = nn.Linear(784, 10)

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(len(images))
        if len(images) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.linear(images.flatten(1))


def test_out_of_memory_halves_the_batch_and_goes_on(store: Store) -> None:
    torch.manual_seed(0)
    net = Hungry(20)
    model = wrap(net, name="hungry", classes=10, channels=1)
    watcher = Notes()
    rows = rows_of(model, "fashion-mnist-2k+pgd-linf:steps=2", store=store, samples=100, batch_size=64, watcher=watcher)
    assert len(rows) == 100
    assert watcher.notes == [f"out of memory: going on with {n} samples at a time" for n in (32, 16)]
    assert max(net.seen[-5:]) <= 16


def test_out_of_memory_with_one_sample_is_an_error_with_advice(store: Store) -> None:
    (outcome,) = evaluate(
        wrap(Hungry(0), name="hungry", classes=10, channels=1), "fashion-mnist-2k", store=store, samples=4
    )
    assert "single sample" in str(outcome.error)
    assert "hint" in str(outcome.error)


def test_a_full_disk_stops_everything_and_the_rest_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rows_of(MODEL, "fashion-mnist-2k", store=store, samples=20)

    def full(*_: object) -> None:
        raise NoRoom("no room left", hint="free some space and run the same command again")

    with monkeypatch.context() as patched:
        patched.setattr(store.files, "write", full)
        with pytest.raises(NoRoom):
            evaluate([MODEL, "fashion-standard"], "fashion-mnist-2k+contrast", store=store, samples=20)
    assert store.read(first.footer.key).ids == first.ids
    assert len(evaluate([MODEL, "fashion-standard"], "fashion-mnist-2k+contrast", store=store, samples=20)) == 2


def test_a_truncated_file_of_rows_is_measured_again(store: Store, tmp_path: Path) -> None:
    before = rows_of(MODEL, "fashion-mnist-2k", store=store, samples=30)
    path = tmp_path / "store" / "rows" / f"{before.footer.key}.parquet"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.warns(HoldfastWarning, match="not a whole Parquet file"):
        (outcome,) = evaluate(MODEL, "fashion-mnist-2k", store=store, samples=30)
    assert outcome.fresh
    assert outcome.rows.footer.digest == before.footer.digest  # type: ignore[union-attr]
    assert list((tmp_path / "store" / "damaged").iterdir()) != []


class Broken(nn.Module):
    """NaN for images brighter than a limit."""

    def forward(self, images: Tensor) -> Tensor:
        bright = images.mean((1, 2, 3))
        logits = torch.arange(10.0).expand(len(images), 10) + 0 * bright[:, None]
        return torch.where(bright[:, None] > 0.5, torch.nan, logits)


def test_nan_logits_are_rows_with_a_reason(store: Store, tiny_data: Callable[..., str]) -> None:
    data = tiny_data()
    rows = rows_of(wrap(Broken(), name="broken", classes=10, channels=1), data, store=store)
    assert len(rows) == 60
    assert 0 < rows.failed.sum() < 60
    assert set(rows.table.column("reason").to_pylist()) == {None, "logits are not finite"}
    assert not rows.correct[rows.failed].any()
    assert "non-finite-logits" in {flag.name for flag in rows.footer.flags}


def test_nan_logits_under_attack_are_rows_with_a_reason_too(store: Store, tiny_data: Callable[..., str]) -> None:
    rows = rows_of(
        wrap(Broken(), name="broken", classes=10, channels=1), tiny_data() + "+pgd-linf:steps=2", store=store
    )
    assert len(rows) == 60
    assert rows.failed.sum() > 0


def test_labels_out_of_range_are_refused(store: Store, tiny_data: Callable[..., str]) -> None:
    data = tiny_data(labels=np.arange(60) % 11)
    (outcome,) = evaluate(MODEL, data, store=store)
    assert "labels of `tiny` run from 0 to 10" in str(outcome.error)
    assert "label map" in str(outcome.error)


def test_one_image_outside_the_range_is_a_failed_row(store: Store, tiny_data: Callable[..., str]) -> None:
    images = np.random.default_rng(0).random((60, 28, 28)).astype(np.float32)
    images[7, 3, 3] = 1.7
    images[11, 0, 0] = np.nan
    for scenario in (tiny_data(images=images), tiny_data(images=images) + "+pgd-linf:steps=1"):
        rows = rows_of(MODEL, scenario, store=store)
        assert np.flatnonzero(rows.failed).tolist() == [7, 11]
        assert "image outside [0, 1]" in rows.table.column("reason")[7].as_py()
        assert np.isnan(rows.predictions[[7, 11]]).all()
        assert len(rows) == 60


def test_images_that_are_all_normalised_already_are_an_error(store: Store, tiny_data: Callable[..., str]) -> None:
    images = np.random.default_rng(0).normal(size=(60, 28, 28)).astype(np.float32)
    (outcome,) = evaluate(MODEL, tiny_data(images=images), store=store)
    assert "images must lie in [0, 1], got [" in str(outcome.error)
    assert "models.normalised" in str(outcome.error)


def test_a_model_left_in_train_mode_is_flagged_and_evaluated_in_eval_mode(store: Store) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(784, 10)).train()
    rows = rows_of(wrap(net, name="training", classes=10, channels=1), "fashion-mnist-2k", store=store, samples=20)
    assert "train-mode" in {flag.name for flag in rows.footer.flags}
    assert net.training, "the caller's module is as it was"
    rows_again = rows_of(wrap(net.eval(), name="evaluated", classes=10, channels=1), "fashion-mnist-2k", store=store)
    same = rows_again.predictions[[rows_again.ids.index(name) for name in rows.ids]]
    assert (rows.predictions == same).all(), "no dropout was on"


def test_zero_gradients_raise_a_flag(store: Store) -> None:
    class Stepped(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return (images.mean((1, 2, 3))[:, None] * 50).round() * torch.linspace(0, 1, 10) + 0 * images.sum()

    rows = rows_of(
        wrap(Stepped(), name="stepped", classes=10, channels=1),
        "fashion-mnist-2k+pgd-linf:steps=2",
        store=store,
        samples=50,
    )
    assert "zero-gradients" in {flag.name for flag in rows.footer.flags}


def test_a_model_with_another_number_of_logits_is_an_error(store: Store) -> None:
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(784, 7)), name="seven", classes=10, channels=1)
    (outcome,) = evaluate(model, "fashion-mnist-2k", store=store, samples=10)
    assert "its card says 10 classes" in str(outcome.error)


def test_a_model_that_raises_does_not_stop_the_others(store: Store) -> None:
    class Fussy(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 20:
                raise ValueError("too many for me")
            return images.flatten(1)[:, :10]

    fussy = wrap(Fussy(), name="fussy", classes=10, channels=1)
    outcomes = evaluate([fussy, "fashion-standard"], "fashion-mnist-2k", store=store, samples=50)
    assert "ValueError: too many for me" in str(outcomes[0].error)
    assert "test_failures.py, line" in str(outcomes[0].error)
    assert isinstance(outcomes[0].error.__cause__, ValueError)  # type: ignore[union-attr]
    assert outcomes[1].rows is not None
