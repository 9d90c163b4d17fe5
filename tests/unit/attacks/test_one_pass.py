"""The kernel of a step gives what the operations give, to the bit; where it does not, it is not used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor

from holdfast.attacks import one_pass
from holdfast.attacks.one_pass import Moves, moved_in_linf
from holdfast.attacks.recipes import automatic
from holdfast.attacks.recipes.automatic import Automatic
from holdfast.attacks.steps import Point, State
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L2, Ball, Linf

SHAPES = [(5, 3, 9, 7), (2, 1, 50, 50), (3, 3, 32, 32), (1, 1, 1, 1)]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The kernels, interpreted where there is no GPU."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton", reason="Triton comes with torch for GPUs")
    yield importlib.import_module("holdfast.kernels.linf_step")
    if not torch.cuda.is_available():
        sys.modules.pop("holdfast.kernels.linf_step", None)


def drawn(shape: tuple[int, ...], seed: int, device: str, threat: Ball | None = None) -> tuple[Point, State]:
    """Samples somewhere in an attack: at different steps, some that go back, some at their best."""
    draw = torch.Generator().manual_seed(seed)

    def some(*size: int) -> Tensor:
        return torch.rand(*size, generator=draw).to(device)

    n = shape[0]
    images, radius = some(*shape).round(decimals=1), 0.3 * some(n)
    wide = radius.view(-1, 1, 1, 1)
    here, best, before = ((2 * some(*shape) - 1) * wide for _ in range(3))
    gradient = torch.where(some(*shape) < 0.1, 0.0, some(*shape) - 0.5)
    taken, loss = (3 * some(n)).long(), some(n)
    scene = Scene(images, radius)
    point = Point(threat or Linf(), scene, here, gradient, loss, loss > 2, taken, best, loss)
    state = {"length": 2 * radius, "best gradient": some(*shape) - 0.5, "before": before}
    return point, state


def choices(n: int, seed: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed + 1000)
    better, stalled = (torch.rand(n, generator=draw).to(device) < 0.5 for _ in range(2))
    return better, stalled, automatic.CARRIED * (torch.rand(n, generator=draw).to(device) < 0.7).float()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_gives_what_the_operations_give(kernels: ModuleType, shape: tuple[int, ...], seed: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    point, state = drawn(shape, seed, device)
    better, stalled, carried = choices(shape[0], seed, device)
    plain = automatic._moved(point, state, better, stalled, carried)
    tensors = point.variable, point.gradient, point.best, state["best gradient"], state["before"]
    scalars = better, stalled, state["length"], carried
    for one, other in zip(
        kernels.linf_step(point.scene.images, point.scene.radius, *tensors, *scalars), plain, strict=True
    ):
        assert torch.equal(one, other)


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True  # type: ignore[assignment]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Moves, list[str]]]:
    """What a step makes, and which ways were taken, where the kernel does as it is told."""
    monkeypatch.setattr(one_pass, "_sound", {})
    monkeypatch.setattr(one_pass, "LEAST", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    def step(kernel: Callable[..., Moves], threat: Ball | None = None) -> tuple[Moves, list[str]]:
        made = ModuleType("kernels")
        ways: list[str] = []

        def told(*given: Tensor) -> Moves:
            ways.append("kernel")
            return kernel(*given)

        made.linf_step = told  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "holdfast.kernels.linf_step", made)
        point, state = drawn((4, 3, 8, 8), 0, "cpu", threat)
        point = Point(**{**{name: getattr(point, name) for name in point.__slots__}, "variable": gpu(point.variable)})
        better, stalled, carried = choices(4, 0, "cpu")

        def plain() -> Moves:
            ways.append("plain")
            return automatic._moved(point, state, better, stalled, carried)

        return moved_in_linf(point, state, better, stalled, carried, plain), ways

    return step


def gpu(tensor: Tensor) -> Tensor:
    return tensor.as_subclass(OnGpu)  # type: ignore[arg-type]


def faithful(*given: Tensor) -> Moves:
    images, radius, here, gradient, best, best_gradient, before, better, stalled, length, carried = given
    point = Point(Linf(), Scene(images, radius), here, gradient, radius, better, better, best, radius)
    state = {"length": length, "best gradient": best_gradient, "before": before}
    return automatic._moved(point, state, better, stalled, carried)


def off_by_little(*given: Tensor) -> Moves:
    moved, begun, kept = faithful(*given)
    moved.view(-1)[7] += 1e-7
    return moved, begun, kept


def missing(*_: Tensor) -> Moves:
    raise ModuleNotFoundError("triton")


def test_a_kernel_that_gives_the_same_is_used_from_then_on(on_gpu: Callable[..., tuple[Moves, list[str]]]) -> None:
    first, ways = on_gpu(faithful)
    assert ways == ["plain", "kernel"], "the first time both, and compared"
    second, ways = on_gpu(faithful)
    assert ways == ["kernel"]
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("kernel", [off_by_little, missing])
def test_a_kernel_that_gives_something_else_is_not_used(
    on_gpu: Callable[..., tuple[Moves, list[str]]], kernel: Callable[..., Moves]
) -> None:
    _, ways = on_gpu(kernel)
    assert ways == ["plain", "kernel"]
    _, ways = on_gpu(kernel)
    assert ways == ["plain"]


def test_while_steps_are_recorded_nothing_is_compared(
    on_gpu: Callable[..., tuple[Moves, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert on_gpu(faithful)[1] == ["plain"]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    on_gpu(faithful)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert on_gpu(faithful)[1] == ["kernel"]


def test_other_norms_few_images_and_cpus_take_the_operations(
    on_gpu: Callable[..., tuple[Moves, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_gpu(faithful, L2())[1] == ["plain"]
    monkeypatch.setattr(one_pass, "LEAST", 1000)
    assert on_gpu(faithful)[1] == ["plain"]
    step, (point, state) = Automatic(20), drawn((2, 3, 8, 8), 1, "cpu")
    whole = step.fresh(Linf(), point.scene, point.variable) | state
    step.advance(point, whole)
    assert not one_pass._sound
