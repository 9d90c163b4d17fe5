"""Models as people write them run, and callers may work in any mode of torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import load as load_dataset
from holdfast.engine.evaluate import evaluate
from holdfast.engine.watch import Watcher
from holdfast.models import load, wrap
from holdfast.store import Store

CHANGES = [
    "",
    "pgd-linf:radius=4/255,steps=2",
    "square-linf:radius=4/255,queries=5",
    "apgd-t-linf:radius=1/255,steps=2",
]
N = 12


class Written(nn.Module):
    def __init__(self, answer: Callable[[nn.Module, Tensor], object]) -> None:
        super().__init__()
        self.net, self.answer = load("fashion-standard").net, answer

    def forward(self, images: Tensor) -> object:
        return self.answer(self.net, images)


def images() -> tuple[np.ndarray, np.ndarray]:
    dataset = load_dataset("fashion-mnist-2k")
    return (dataset.images(range(N)).pixels.float() / 255).numpy(), np.asarray(dataset.labels[:N])


def shares(net: nn.Module, folder: Path, changes: list[str] = CHANGES) -> list[float]:
    outcomes = evaluate(
        net, images(), changes=changes, name="mine", store=Store(str(folder)), pictures=0, watcher=Watcher()
    )
    assert not [outcome.error for outcome in outcomes if outcome.error]
    return [float(outcome.rows.correct.mean()) for outcome in outcomes if outcome.rows is not None]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return shares(Written(lambda net, images: net(images)), tmp_path_factory.mktemp("plain"))


WAYS: dict[str, Callable[[nn.Module, Tensor], object]] = {
    "float64": lambda net, images: net(images).double(),
    "squeezed": lambda net, images: net(images).squeeze(),
    "in place": lambda net, images: net(images.sub_(0.5).div_(0.5).mul_(0.5).add_(0.5)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_writing_changes_no_number(way: str, plain: list[float], tmp_path: Path) -> None:
    assert shares(Written(WAYS[way]), tmp_path) == plain


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_logits_in_half_precision_can_be_attacked(kind: torch.dtype, plain: list[float], tmp_path: Path) -> None:
    assert shares(Written(lambda net, images: net(images).to(kind)), tmp_path) == pytest.approx(plain, abs=0.1)


def test_whole_numbers_are_logits_too(tmp_path: Path) -> None:
    net = Written(lambda net, images: nn.functional.one_hot(net(images).argmax(1), 10))
    assert len(shares(net, tmp_path, CHANGES[::2])) == 2


def test_a_network_that_writes_into_its_input_leaves_the_images_as_they_are(tmp_path: Path) -> None:
    """A network that took 0.1 from the images it was given got images of an attack that no attack had made."""
    writing = Written(lambda net, images: net(images.sub_(0.1)))
    polite = Written(lambda net, images: net(images - 0.1))
    assert shares(writing, tmp_path / "a") == shares(polite, tmp_path / "b")


def test_a_frozen_script_runs(plain: list[float], tmp_path: Path) -> None:
    frozen = torch.jit.freeze(torch.jit.script(load("fashion-standard").net.eval()))  # type: ignore[no-untyped-call]
    assert shares(frozen, tmp_path, CHANGES[:1]) == plain[:1]


def test_weights_without_values_are_an_error() -> None:
    with pytest.raises(HoldfastError, match="meta device"):
        wrap(nn.Sequential(nn.Flatten(), nn.Linear(784, 10, device="meta")), name="empty", shape=(1, 28, 28))


def test_a_module_that_exits_is_an_error() -> None:
    def leaving(net: nn.Module, images: Tensor) -> object:
        raise SystemExit(3)

    with pytest.raises(HoldfastError):
        wrap(Written(leaving), name="leaving", shape=(1, 28, 28))


MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "none": nullcontext,
}


@pytest.mark.parametrize("mode", MODES)
def test_validation_runs_in_any_mode_of_torch(mode: str, plain: list[float], tmp_path: Path) -> None:
    own = Written(lambda net, images: net(images)).train()
    with MODES[mode]():
        assert shares(own, tmp_path) == plain
        attacked = holdfast.attack(own, *images(), CHANGES[1])
        assert attacked.accuracy.value == plain[1]
    assert own.training


def test_another_default_type_changes_no_number(plain: list[float], tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert shares(Written(lambda net, images: net(images)), tmp_path) == plain
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "options",
    [
        *({"samples": True}, {"samples": 2.5}, {"samples": "5"}, {"seed": 1.5}, {"seed": "a"}, {"batch_size": 2.5}),
        *({"precision": "a"}, {"logits": 3}, {"name": "a\nb"}, {"name": "a\udc80"}, {"name": "a" * 999}),
    ],
)
def test_an_option_of_another_type_is_refused(options: dict[str, object], tmp_path: Path) -> None:
    given = {"name": "mine"} | options
    with pytest.raises(Misuse):
        evaluate(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), images(), store=str(tmp_path), **given)  # type: ignore[arg-type]


def test_a_whole_number_of_numpy_is_one(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    (outcome,) = evaluate(
        net, images(), name="mine", samples=np.int64(5), seed=np.int32(1), store=str(tmp_path), watcher=Watcher()
    )
    assert outcome.rows is not None
    assert len(outcome.rows) == 5
