"""Many cells as one job: their order, what they share, how long they will take, where the model then stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Absent
from holdfast.core.registry import registry
from holdfast.core.suites import expanded
from holdfast.core.types import Dataset, Images
from holdfast.engine.device import pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.engine.jobs import ModelLoader, RunOptions
from holdfast.engine.order import evenly
from holdfast.engine.shards import ImageCache, LogitCache
from holdfast.engine.watch import Expected, TimeLeft, Watcher
from holdfast.store import Store

CLEAN = "fashion-mnist-2k"
ATTACKED = f"{CLEAN}+pgd-linf:radius=8/255,steps=3"


def ordered(*patterns: str) -> list[str]:
    texts = [text for pattern in patterns for text in expanded(pattern)]
    return [str(scenario) for scenario in evenly([registry.scenario(text) for text in texts])]


def test_a_table_fills_from_the_middle_of_every_line() -> None:
    assert ordered(f"{CLEAN}+{{contrast,jpeg}}:severity={{1,2,3,4,5}}") == [
        f"{CLEAN}+{name}:severity={severity}" for severity in (3, 1, 5, 2, 4) for name in ("contrast", "jpeg")
    ]


def test_cells_without_attacks_come_first_but_for_one_that_tells_the_pace() -> None:
    texts = [f"{CLEAN}{end}" for end in ("+fgsm", "", "+contrast:severity=3+pgd-l2:radius=0.5", "+contrast:severity=3")]
    first, clean, both, corrupted = (str(registry.scenario(text)) for text in texts)
    assert ordered(*texts) == [clean, first, corrupted, both]
    assert ordered(texts[0]) == [first]


@given(st.sets(st.sampled_from(["jpeg", "fog", "snow"])), st.sets(st.integers(1, 5)))
def test_an_order_loses_and_doubles_nothing(names: set[str], severities: set[int]) -> None:
    texts = [f"{CLEAN}+{name}:severity={severity}" for name in names for severity in severities]
    assert sorted(ordered(*texts)) == sorted(texts)


def test_outcomes_come_as_asked_whatever_the_order(tmp_path: Path) -> None:
    asked = [ATTACKED, f"{CLEAN}+contrast:severity=3", CLEAN]
    outcomes = evaluate("fashion-standard", asked, store=str(tmp_path), samples=20, pictures=0)
    assert [outcome.scenario for outcome in outcomes] == asked


class Slow:
    """A dataset that counts how often it is read."""

    def __init__(self, pixels: torch.Tensor) -> None:
        inner: Dataset = registry.build(registry.bind("dataset", CLEAN))
        self.card, self.ids, self.labels = inner.card, inner.ids[: len(pixels)], inner.labels[: len(pixels)]
        self.pixels, self.reads = pixels, 0

    def images(self, index: Sequence[int]) -> Images:
        self.reads += 1
        return Images(self.pixels[list(index)], {})


def test_slowly_decoded_images_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engine.shards.SLOW", 0.0)
    slow = Slow(torch.arange(6, dtype=torch.uint8)[:, None, None, None])
    kept = ImageCache(slow)
    for _ in range(3):
        assert kept.images([1, 3]).pixels.flatten().tolist() == [1, 3]
    assert kept.images([3, 1]).pixels.flatten().tolist() == [3, 1]
    assert slow.reads == 2


def test_what_does_not_fit_or_is_quickly_read_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(torch.zeros(4, 1, 2, 2, dtype=torch.uint8))
    quick = ImageCache(slow)
    for limit, most, reads in ((1e9, 1 << 20, 2), (0.0, 7, 4)):
        monkeypatch.setattr("holdfast.engine.shards.SLOW", limit)
        quick = ImageCache(slow, most=most)
        for _ in range(2):
            quick.images([0, 1])
        assert slow.reads == reads


def test_what_was_said_is_recalled_whole_or_not_at_all() -> None:
    cache = LogitCache(most=64)
    cache.keep(("a",), ["x", "y"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    recalled = cache.recall(("a",), ["y", "x"], torch.device("cpu"))
    assert recalled is not None
    assert recalled.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert cache.recall(("a",), ["x", "z"], torch.device("cpu")) is None
    for name in "bcd":  # 16 bytes each: the first is the oldest when there is no more room
        cache.keep((name,), ["x", "y"], torch.ones(2, 2))
    cache.keep(("e",), ["x", "y"], torch.ones(2, 2))
    assert cache.recall(("a",), ["x"], torch.device("cpu")) is None
    assert cache.recall(("b",), ["x"], torch.device("cpu")) is not None


@pytest.mark.parametrize("attack", ["apgd-ce-linf:steps=4", "mm3-linf", "fgsm", "square-linf:queries=8"])
def test_rows_are_the_same_with_a_shared_clean_pass(attack: str, tmp_path: Path) -> None:
    prefix = f"{CLEAN}+contrast:severity=1"
    alone = evaluate("fashion-standard", f"{prefix}+{attack}", store=str(tmp_path / "a"), samples=40, pictures=0)
    both = evaluate(
        "fashion-standard", [prefix, f"{prefix}+{attack}"], store=str(tmp_path / "b"), samples=40, pictures=0
    )
    one, other = alone[0].rows, both[1].rows
    assert one is not None
    assert other is not None
    assert one.table.equals(other.table)
    assert one.footer.digest == other.footer.digest


def test_a_clean_pass_is_shared_within_a_model_only(tmp_path: Path) -> None:
    loader, store = ModelLoader(pick_device("cpu")), Store(str(tmp_path))
    first = loader.job(registry.bind("model", "fashion-standard"), registry.scenario(CLEAN), RunOptions(samples=4))
    assert first.logits is not None
    first.logits.keep(("somewhere",), ["x"], torch.ones(1, 10))
    loader.job(registry.bind("model", "fashion-standard"), registry.scenario(ATTACKED), RunOptions(samples=4))
    assert first.logits.kept
    loader.job(registry.bind("model", "fashion-at-linf"), registry.scenario(ATTACKED), RunOptions(samples=4))
    assert not first.logits.kept
    assert not store.footers()


class Told(Watcher):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.runs: list[Expected] = []

    def planned(self, runs: Sequence[Expected]) -> None:
        self.runs = list(runs)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_absent_data_is_said_once_and_the_rest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    absent = expanded("cifar10.1+contrast:severity={1,2,3}")
    told = Told()
    outcomes = evaluate(
        "fashion-standard", [*absent, CLEAN], store=str(tmp_path / "s"), samples=10, pictures=0, watcher=told
    )
    assert [type(outcome.error) for outcome in outcomes] == [Absent, Absent, Absent, type(None)]
    assert len(told.notes) == 1
    assert told.notes[0].startswith("3 of 4 scenarios wait for data: `cifar10.1` is not on this machine")
    assert "holdfast data get cifar10.1" in told.notes[0]
    assert told.runs == [Expected(CLEAN, 10)]


def test_the_time_left_follows_the_pace_of_plain_and_attacked_runs() -> None:
    now = 0.0
    runs = [Expected("a", 100), Expected("b", 100), Expected("c", 100, 11, 10), Expected("d", 50, 11, 10)]
    time_left = TimeLeft(runs, clock=lambda: now)
    assert time_left.seconds is None
    now = 10.0
    time_left.did("a", 100)
    assert time_left.seconds is None  # attacks are to come, and may take any time
    time_left.did("b", 40, timed=False)
    now = 20.0  # 100 attacked samples took no longer than the clean ones
    time_left.did("c", 100)
    assert time_left.seconds == pytest.approx(0.1 * 60 + 10.0 / 100 * 50)


def test_the_time_left_is_never_negative() -> None:
    time_left = TimeLeft([Expected("a", 10)], clock=iter(np.arange(9.0)).__next__)
    for _ in range(3):
        time_left.did("a", 10)
    assert time_left.seconds == 0
