"""A fault is no result: what could not be read leaves a run unfinished, and the same command goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from holdfast.core.errors import NotRead
from holdfast.engine import evaluate as engine
from holdfast.engine.evaluate import Outcome, evaluate
from holdfast.engine.watch import Watcher
from holdfast.models import TorchClassifier, wrap
from holdfast.store import Store

N = 160


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    draws = np.random.default_rng(0)
    for i in range(N):
        path = tmp_path / "birds" / f"class{i % 2}" / f"{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "birds"


def model() -> TorchClassifier:
    torch.manual_seed(0)
    return wrap(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), name="linear", classes=2, channels=3)


def run(birds: Path, store: Store) -> Outcome:
    (outcome,) = evaluate(model(), f"folder:{birds}", store=store, batch_size=8, pictures=0, watcher=Watcher())
    return outcome


def test_a_folder_that_vanishes_leaves_the_run_unfinished_and_it_goes_on_later(
    birds: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(birds, Store(f"{store.url}-undisturbed")).rows
    assert whole is not None
    measured, away = engine.measure, birds.with_name("away")

    def vanishing(*args: object, **options: object) -> object:
        if birds.exists():
            shutil.move(birds, away)
        return measured(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "measure", vanishing)
    monkeypatch.setattr(engine, "shard_size", lambda _: 16)
    outcome = run(birds, store)
    assert outcome.rows is None
    assert isinstance(outcome.error, NotRead)
    assert "is gone" in str(outcome.error)
    assert not store.footers(), "no finished run"
    monkeypatch.setattr(engine, "measure", measured)
    shutil.move(away, birds)
    again = run(birds, store).rows
    assert again is not None
    assert again.ids == whole.ids
    assert (again.predictions == whole.predictions).all()
    assert not again.failed.any()


def test_a_broken_file_is_a_failed_row_and_tried_again_when_it_changes(birds: Path, store: Store) -> None:
    broken = birds / "class1" / "001.png"
    sound = broken.read_bytes()
    broken.write_bytes(b"no image " * (len(sound) // 9) + b"x" * (len(sound) % 9))  # as long as before
    rows = run(birds, store).rows
    assert rows is not None
    assert rows.failed.sum() == 1
    assert "1 of 160 samples failed" in next(f.explanation for f in rows.footer.flags if f.name == "failed-samples")
    assert not run(birds, store).fresh, "still broken: nothing to do"
    broken.write_bytes(sound)
    outcome = run(birds, store)
    assert outcome.rows is not None
    assert outcome.fresh
    assert not outcome.rows.failed.any()
    assert not run(birds, store).fresh


class Viewing(nn.Module):
    """A network as people write them: `view` after a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)
        self.head = nn.Linear(4 * 784, 10)

    def forward(self, images: Tensor) -> Tensor:
        out = self.conv(images)
        return self.head(out.view(out.size(0), -1))


@pytest.mark.parametrize("scenario", ["", "+gaussian-noise:severity=2", "+pgd-linf:steps=2", "+square-linf:queries=9"])
def test_grey_images_come_in_plain_order(store: Store, scenario: str) -> None:
    net = wrap(Viewing(1), name="viewing", classes=10, channels=1)
    (outcome,) = evaluate(net, f"fashion-mnist-2k{scenario}", store=store, samples=20, watcher=Watcher())
    assert outcome.rows is not None, outcome.error


def test_a_pipe_named_like_an_image_is_no_image(birds: Path, store: Store) -> None:
    """Opening it waits for ever."""
    import os

    os.mkfifo(birds / "class0" / "pipe.png")
    assert run(birds, store).error is None
