"""Which leads are close, which scenarios are attacked, who scores a shard, and when saved loops are dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.core.registry import registry
from holdfast.core.types import DatasetCard, Images, ModelCard
from holdfast.engine.evaluate import Evaluation
from holdfast.engine.measure import MeasureSettings, measure
from holdfast.engine.order import is_attacked
from holdfast.engine.shards import Shard
from holdfast.engine.two_step import SAFETY, is_close


def test_a_lead_of_exactly_the_safety_times_the_error_is_close() -> None:
    error = 0.25
    leads = torch.tensor([SAFETY * error, SAFETY * error + 0.125, 0.0, torch.nan])
    logits = torch.stack([leads, torch.zeros(4)], dim=1)
    assert is_close(logits, error).tolist() == [True, False, True, True]
    assert is_close(logits, 0.0).tolist() == [False, False, True, True], "a tie is close without an error too"


def test_a_single_class_is_always_close_and_a_single_sample_is_not() -> None:
    assert is_close(torch.tensor([[5.0], [1.0], [0.0]]), 0.1).tolist() == [True, True, True]
    assert is_close(torch.tensor([[50.0, 0.0]]), 0.1).tolist() == [False]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("", False),
        ("+fog:severity=3", False),
        ("+pgd-linf:radius=8/255", True),
        ("+fog:severity=3+pgd-linf:radius=8/255", True),
    ],
)
def test_a_scenario_is_attacked_whatever_else_changes_its_images(changes: str, expected: bool) -> None:
    assert is_attacked(registry.scenario(f"fashion-mnist-2k{changes}")) is expected


class Ones:
    """A model whose logits are 1 and 0, of two images."""

    card = ModelCard(name="ones", source="live", classes=2, channels=1)
    ids, labels = ("a", "b"), np.array([0, 0])

    def __call__(self, images: Tensor) -> Tensor:
        return torch.tensor([[1.0, 0.0]]).repeat(len(images), 1)


@pytest.mark.parametrize("failed", [(), (0,), (0, 1)])
def test_a_scorer_scores_what_could_be_read_and_is_not_asked_about_nothing(failed: tuple[int, ...]) -> None:
    lengths = []

    def scorer(images: Tensor, width: int, labels: Tensor | None) -> tuple[Tensor, Tensor]:
        assert labels is None, "nothing attacked them"
        lengths.append(len(images))
        return torch.tensor([[0.0, 5.0]]).repeat(len(images), 1), torch.ones(len(images), dtype=torch.bool)

    data: Any = SimpleNamespace(card=DatasetCard("two", ("x", "y"), 1, (2, 2), "f"), ids=Ones.ids, labels=Ones.labels)
    setting = MeasureSettings(Ones(), data, [], 0, torch.device("cpu"), scorer=scorer)  # type: ignore[arg-type]
    images = Images(torch.zeros(2, 1, 2, 2), dict.fromkeys(failed, "cannot be read"))
    rows = measure(setting, Shard(np.arange(2), images), width=4).predictions()
    usable = [i for i in range(2) if i not in failed]
    assert lengths == ([len(usable)] if usable else [])
    assert rows.logits[usable].tolist() == [[0.0, 5.0]] * len(usable)
    assert rows.forwards[usable].tolist() == [2] * len(usable), "once by the scorer, and once more as it was close"


@pytest.mark.parametrize(("faults", "left"), [([], []), (["a shard that could not be read"], ["one", "two"])])
def test_saved_loops_are_dropped_once_their_rows_are_kept_and_nothing_is_to_be_tried_again(
    faults: list[str], left: list[str]
) -> None:
    dropped: list[str] = []
    store = SimpleNamespace(add_part=lambda rows: None, drop_state=lambda key, name: dropped.append(name))
    job = SimpleNamespace(run=SimpleNamespace(key="k"))
    run: Any = SimpleNamespace(store=store, job=job, kept=[], faults=faults, states=["one", "two"])
    run.drop_states = lambda: Evaluation.drop_states(run)
    fresh: list[Any] = ["first", "second"]
    Evaluation._keep(run, fresh)
    assert (run.kept, fresh) == (["first", "second"], [])
    assert run.states == left
    assert sorted(dropped) == ([] if left else ["one", "two"])
