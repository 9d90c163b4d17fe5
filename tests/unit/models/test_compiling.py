"""A compiled version works in the background and is taken over only where it is as good and faster."""

from __future__ import annotations

import copy
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.aimed import gradient_of, leads
from holdfast.attacks.asked_model import AskedModel
from holdfast.core.registry import registry
from holdfast.models import TorchClassifier, compiling, fast, wrap
from holdfast.models.compiling import CACHE, Compilation, _name, asked
from holdfast.models.fast import FastModel, InFloat32


def made() -> TorchClassifier:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    return wrap(net, name="net", classes=3, channels=1)


class Ready:
    """A compilation that is over."""

    is_over, is_cached, error = True, False, "no such kernel"

    def __init__(self, made: Callable[[Tensor], Tensor] | None, images: Tensor, gradients: bool) -> None:
        self.made, self.images, self.gradients = made, images, gradients

    def start(self) -> Ready:
        return self

    def compiled(self, saves: float) -> Callable[[Tensor], Tensor] | None:
        return self.made


def version(seconds: float) -> FastModel:
    """A fast version with so many seconds ahead of it."""
    made_fast = FastModel(made(), torch.rand(8, 1, 8, 8), width=8, speed="auto")
    made_fast.expect(seconds, gradients=True)
    return made_fast


def improved(asked: FastModel, monkeypatch: pytest.MonkeyPatch, compiled: object, times: float = 0.5) -> FastModel:
    """After some rounds, when what is compiled takes so many `times` as long."""
    seconds = iter([1.0, times] * 4)
    monkeypatch.setattr(fast, "_seconds", lambda _: next(seconds))
    monkeypatch.setattr(fast, "Compilation", lambda _, images, *, gradients: Ready(compiled, images, gradients))  # type: ignore[arg-type]
    for _ in range(3):
        asked.improve(8, gradients=True)
    return asked


def test_what_is_compiled_is_taken_over_and_the_words_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = version(3600.0)
    improved(asked, monkeypatch, asked._uncompiled)
    assert (8, True) in asked.compiled
    assert asked.words.endswith(", compiled")
    assert asked.replays is None, "steps are recorded anew"


def test_what_is_not_used_stops_compiling_and_may_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Running] = []

    class Running(Ready):
        """A compilation under way."""

        is_over, is_cached, ended = False, False, False

        def cancel(self) -> None:
            self.ended = True

    def start(_: nn.Module, images: Tensor, *, gradients: bool) -> Ready:
        begun.append(Running(None, images, gradients))
        return begun[-1]

    monkeypatch.setattr(fast, "Compilation", start)
    asked = version(3600.0)
    for count in (1, 2):
        for _ in range(2):
            asked.improve(8, gradients=True)
        assert len(begun) == count
        asked.stop_compiling()
        assert begun[-1].ended
        assert asked.compiling is None
    asked.stop_compiling()


def test_without_much_ahead_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = version(10.0)
    improved(asked, monkeypatch, asked._uncompiled)
    assert not asked.compiled
    assert not asked.attempted


@pytest.mark.parametrize("fault", ["wrong logits", "wrong gradients", "failed", "slower"])
def test_what_is_unlike_failed_or_slower_is_not_used(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    asked = version(3600.0)

    def other(images: Tensor) -> Tensor:
        logits = asked._uncompiled(images)
        if fault == "wrong logits":
            return logits + 5 * torch.arange(3)
        return (logits.detach() * 2 - logits) if fault == "wrong gradients" else logits

    improved(asked, monkeypatch, None if fault == "failed" else other, 1.5 if fault == "slower" else 0.5)
    assert asked.attempted, "tried once"
    assert not asked.compiled
    assert "compiled" not in asked.words
    assert bool(asked.notes) == (fault != "slower")


def test_a_network_that_cannot_be_handed_over_is_told() -> None:
    net = nn.Flatten()
    net.forward = lambda images: images.flatten(1)  # type: ignore[method-assign]
    begun = Compilation(net, torch.rand(2, 1, 8, 8), gradients=True).start()
    assert begun.is_over
    assert begun.compiled(0.0) is None
    assert begun.error


def test_short_work_is_not_held_up_by_questions_about_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, built = version(10.0), []
    monkeypatch.setattr(fast, "Compilation", lambda *_, **__: built.append(1))
    for _ in range(3):
        asked.improve(8, gradients=True)
    assert not built


@pytest.mark.parametrize("at", ["begin", "take over"])
def test_whatever_fails_about_compiling_the_work_goes_on(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    asked = version(3600.0)

    def fails(*_: object, **__: object) -> Ready:
        raise PermissionError("the folder is closed")

    if at == "begin":
        monkeypatch.setattr(fast, "Compilation", fails)
    else:
        monkeypatch.setattr(fast, "Compilation", lambda _, images, *, gradients: Ready(None, images, gradients))
        monkeypatch.setattr(FastModel, "_take_over", fails)
    for _ in range(3):
        asked.improve(8, gradients=True)
    assert asked.notes == ["not compiled: PermissionError: the folder is closed"]
    assert not asked.compiled


def test_a_machine_that_begins_no_process_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: torch.device) -> compiling.Compiler:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(compiling, "_prepared", [])
    monkeypatch.setattr(compiling.Compiler, "started", fails)
    compiling.prepare(torch.device("cpu"))
    begun = Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).start()
    assert begun.compiled(0.0) is None
    assert "no more processes" in begun.error


def test_a_cache_that_takes_no_files_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE, str(tmp_path / "file"))  # no folder can be made below a file
    monkeypatch.setattr(compiling, "_compiled", lambda net, *_, **__: net)
    assert Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).compiled_here() is not None


class Broken(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        raise RuntimeError("no such kernel")


def test_the_other_process_gives_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(Broken, "__module__", "test_compiling")
    monkeypatch.setitem(sys.modules, "test_compiling", sys.modules[__name__])
    begun = Compilation(Broken(), torch.rand(2, 1, 8, 8), gradients=False).start()
    assert begun.compiled(0.0) is None
    assert "no such kernel" in begun.error
    assert not begun.is_cached


def test_what_no_other_process_can_read_is_compiled_here_where_that_saves_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network of a script or a notebook: its class has no file that another process could import."""
    monkeypatch.setenv(CACHE, str(tmp_path))
    monkeypatch.setattr(compiling, "_compiled", lambda net, *_, **__: net)
    monkeypatch.setattr(Broken, "__module__", "notebook")
    monkeypatch.setitem(sys.modules, "notebook", sys.modules[__name__])
    with_a_function = nn.Flatten()
    with_a_function.scale = lambda values: values  # type: ignore[assignment]
    for net, why in ((Broken(), "notebook"), (with_a_function, "lambda")):
        begun = Compilation(net, torch.rand(2, 1, 8, 8), gradients=False).start()
        assert begun.compiled(compiling.HERE) is None
        assert why in begun.error
        assert begun.compiled(compiling.HERE + 1) is net
        assert not begun.error


def test_what_another_process_cannot_compile_is_not_tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False)
    monkeypatch.setattr(begun, "_compiler", Ended())
    assert begun.compiled(1e9) is None
    assert begun.error == "no such kernel"


class Ended:
    """A process that could not compile what it was given."""

    process = type("Process", (), {"wait": staticmethod(lambda: 1)})

    def last_words(self) -> str:
        return "no such kernel"


def test_a_prepared_process_is_taken_and_only_once() -> None:
    compiling.prepare(torch.device("cpu"))
    (waiting,) = compiling._prepared
    compiling.prepare(torch.device("cpu"))
    assert compiling._prepared == [waiting], "one is enough"
    first, second = (Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).start() for _ in range(2))
    assert first._compiler is waiting
    assert second._compiler is not waiting
    assert first._compiler is not None
    assert Path(first._compiler.folder.name, "net.pt").exists()
    for begun in (first, second):
        begun.cancel()


def test_a_process_prepared_for_another_cache_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.prepare(torch.device("cpu"))
    (waiting,) = compiling._prepared
    monkeypatch.setenv(CACHE, str(tmp_path))
    begun = Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).start()
    assert begun._compiler is not waiting
    assert waiting.is_over
    begun.cancel()


def test_the_compiler_is_imported_here_once_the_cache_has_something_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    compiled: list[bool] = []
    monkeypatch.setattr(Compilation, "compiled_here", lambda _, *, quietly: compiled.append(quietly))
    monkeypatch.setattr(compiling, "WAITING", 0.0)
    compiling.warm_up(torch.device("cpu"))
    assert not compiled, "the other process is to do the work"
    compiling._small(torch.device("cpu"))._mark.touch()
    compiling.warm_up(torch.device("cpu"))
    assert compiled == [False], "what is warned of belongs to the main thread"


def test_a_gpu_is_warmed_up_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[torch.device] = []
    empty = torch.empty
    monkeypatch.setattr(compiling, "_prepared", [])
    monkeypatch.setattr(compiling, "_warming", [])
    monkeypatch.setattr(compiling, "warm_up", warmed.append)
    monkeypatch.setattr(torch, "empty", lambda *given, device: empty(*given))
    monkeypatch.setattr(compiling.Compiler, "started", lambda _: (_ for _ in ()).throw(OSError("no more processes")))
    for device in ("cpu", "cuda", "cuda"):
        compiling.prepare(torch.device(device))
    for thread in compiling._warming:
        thread.join()
    assert warmed == [torch.device("cuda")]


def test_a_prepared_process_that_is_given_nothing_ends_well() -> None:
    compiling.prepare(torch.device("cpu"))
    waiting = compiling._prepared.pop()
    assert waiting.process.stdin is not None
    waiting.process.stdin.close()
    assert waiting.process.wait(60) == 0


class Endless(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        time.sleep(600)
        return images


@pytest.mark.slow  # a process imports torch
def test_a_process_ends_with_the_one_that_began_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed as that may be, nothing else closes the pipe between them."""
    monkeypatch.setenv(CACHE, str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(Endless, "__module__", "test_compiling")
    monkeypatch.setitem(sys.modules, "test_compiling", sys.modules[__name__])
    begun = Compilation(Endless(), torch.rand(2, 1, 8, 8), gradients=False).start()
    assert begun._compiler is not None
    assert begun._compiler.process.stdin is not None
    begun._compiler.process.stdin.close()
    assert begun._compiler.process.wait(120) == 1


def test_a_process_that_nobody_has_a_use_for_is_ended() -> None:
    begun = Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).start()
    assert begun._compiler is not None
    process, folder = begun._compiler.process, Path(begun._compiler.folder.name)
    del begun
    gc.collect()
    assert process.poll() is not None
    assert not folder.exists()


def test_a_process_that_waited_in_vain_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a network just as it ends, it must not pass for one that has compiled it."""
    monkeypatch.setattr(compiling.select, "select", lambda *_: ([], [], []))
    with pytest.raises(SystemExit, match="no network"):
        compiling.compile_what_is_given(torch.device("cpu"))


@pytest.mark.parametrize(("text", "several"), [("fab-linf:radius=0.1", True), ("pgd-linf", False)])
def test_an_attack_on_all_classes_asks_what_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, text: str, several: bool
) -> None:
    """It goes back several times through one pass, and what is compiled can do so once."""

    def once(images: Tensor) -> Tensor:
        raise RuntimeError("compiled with non-empty donated buffers")

    model = made()
    model.fast = FastModel(model, torch.rand(8, 1, 8, 8), width=8, speed="auto")
    model.fast.expect(3600.0, gradients=True)
    model.fast.compiled[8, True] = once
    asked_model = AskedModel(model, registry.build(registry.bind("attack", text)))
    assert model.fast.several == several
    monkeypatch.setattr(fast, "Compilation", lambda *_, **__: pytest.fail("nothing to begin"))
    images = torch.rand(8, 1, 8, 8, requires_grad=True)
    if several:
        model.fast.improve(8, gradients=True)
        assert (
            len(gradient_of(leads(asked_model(images), torch.zeros(8, dtype=torch.int64), torch.zeros(8)), images)) == 8
        )
    else:
        with pytest.raises(RuntimeError, match="donated"):
            asked_model(images)


def test_cancelling_ends_the_other_process() -> None:
    begun = Compilation(nn.Flatten(), torch.rand(2, 1, 8, 8), gradients=False).start()
    begun.cancel()
    assert begun.is_over


def test_one_name_for_one_network_and_shape() -> None:
    def name(net: nn.Module, n: int, gradients: bool = True) -> str:
        return _name(net, torch.rand(n, 1, 8, 8), gradients)

    net, same = made().net, copy.deepcopy(made().net)
    nn.init.zeros_(next(same.parameters()))
    assert name(net, 8) == name(same, 8), "weights do not matter"
    others = {name(net, 4), name(net, 8, gradients=False), name(nn.Sequential(net, nn.ReLU()), 8), name(net, 8)}
    assert len(others) == 4


def test_a_layer_in_float32_shows_its_weights(tmp_path: Path) -> None:
    layer = InFloat32(nn.Conv2d(1, 2, 3))
    assert layer.weight.shape == (2, 1, 3, 3)
    with pytest.raises(AttributeError):
        _ = layer.nothing
    torch.save(layer, tmp_path / "layer.pt")
    again = torch.load(tmp_path / "layer.pt", weights_only=False)
    torch.testing.assert_close(again(torch.ones(1, 1, 4, 4)), layer(torch.ones(1, 1, 4, 4)))


def test_asked_gives_logits_and_their_scaled_gradient() -> None:
    images = torch.rand(2, 1, 1, 3)
    logits, gradient = asked(lambda given: given.flatten(1), images, gradients=True, scale=4.0)
    assert gradient is not None
    torch.testing.assert_close(gradient.flatten(1), 4 * logits.softmax(1))
    assert asked(lambda given: given.flatten(1), images, gradients=False)[1] is None
