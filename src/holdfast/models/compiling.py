"""A network compiled for one batch length, by a process of its own: the uncompiled one works until that is ready.

The process fills the compiler's cache on disk; compiling the same network again, here or in a later process, then takes
a few seconds. Compiling in a thread would keep the interpreter and the device's queue from the work in front. Half of
what a new process takes goes into importing the compiler, so one that has done so waits where it is likely to be
needed (`prepare`): 30 s for a ResNet-50 on an H200 without it, 14 in a process that has compiled before. On a GPU a
thread of this process imports it too, while the device is busy, so that nothing waits for that when it takes over.

Such a process ends when the one that began it does, however that ends, or lets go of it: its input is then closed.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.core.home import data_home
from holdfast.core.refs import digest

CACHE = "TORCHINDUCTOR_CACHE_DIR"
WAITING = 120.0  # seconds that a prepared process waits for a network
HERE = (
    30.0  # seconds to be saved before a network is compiled in the process that uses it: it holds that up for 15 to 25
)
UNREAD = 4  # exit code of a process that cannot read the network it was given
LAST_SECONDS = 10.0  # a killed process has to give its memory on the device back
Function = Callable[[Tensor], Tensor]
_prepared: list[Compiler] = []  # at most one, which has not been given a network yet
_warming: list[threading.Thread] = []  # at most one in the life of a process


@dataclass(eq=False, slots=True, weakref_slot=True)
class Compiler:
    """A process that compiles one network: the one in the file whose path it reads from its input."""

    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    made_for: tuple[str, str]  # the device and the cache

    @classmethod
    def started(cls, device: torch.device) -> Compiler:
        folder = tempfile.TemporaryDirectory(prefix="holdfast-compiling-", ignore_cleanup_errors=True)
        path = os.pathsep.join([entry or str(Path.cwd()) for entry in sys.path])
        made_for = str(device), str(cache_folder())
        with (Path(folder.name) / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.models.compiling", str(device)],
                env={**os.environ, "PYTHONPATH": path, CACHE: made_for[1]},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the caller, which ends it
            )
        made = cls(process, folder, made_for)
        weakref.finalize(made, _end, process, folder, os.getpid())
        return made

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def give(self, path: Path) -> None:
        """What it is to compile; a process that has ended meanwhile says so by its exit code."""
        assert self.process.stdin is not None, "it reads from a pipe"
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{path}\n".encode())
            self.process.stdin.flush()  # not closed: see `end_with_the_caller`

    def last_words(self) -> str:
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = (Path(self.folder.name) / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else "it ended without a word"

    def cancel(self) -> None:
        if not self.is_over:
            self.process.kill()
            self.process.wait()


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str], owner: int) -> None:
    """Nobody has a use for this process any more, or this one ends; a fork leaves its parent's alone."""
    if os.getpid() == owner:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LAST_SECONDS)
        folder.cleanup()


def prepare(device: torch.device) -> None:
    """Starts a process that imports the compiler and waits for a network; without one, nothing is compiled."""
    if not _prepared or _prepared[0].is_over:
        with contextlib.suppress(OSError, RuntimeError):
            _prepared[:] = [Compiler.started(torch.empty(0, device=device).device)]  # with its number
    if device.type == "cuda" and not _warming:
        _warming.append(threading.Thread(target=warm_up, args=(device,)))
        _warming[0].start()


def warm_up(device: torch.device) -> None:
    """Imports the compiler here, once the other process has compiled something small: that is then in the cache."""
    with contextlib.suppress(Exception):  # whatever is the matter, the compiler is imported later
        small, last = _small(device), time.monotonic() + WAITING
        while not small.is_cached and time.monotonic() < last and threading.main_thread().is_alive():
            time.sleep(0.1)
        if small.is_cached and threading.main_thread().is_alive():
            if device.type == "cuda":
                torch.cuda.set_device(small.images.device)  # of this thread; it has a number
            small.compiled_here(quietly=False)


def _taken(device: torch.device) -> Compiler:
    """The process that waits, where there is one for this device and cache, or a new one."""
    waiting = _prepared.pop() if _prepared else None
    if waiting is not None and not waiting.is_over and waiting.made_for == (str(device), str(cache_folder())):
        return waiting
    if waiting is not None:
        waiting.cancel()
    return Compiler.started(device)


class Compilation:
    """A network on its way to being compiled for images of one shape, with or without gradients."""

    def __init__(self, net: nn.Module, images: Tensor, *, gradients: bool) -> None:
        self.net, self.images, self.gradients = net, images, gradients
        self.error = ""
        self.was_handed = True
        self._mark = cache_folder() / f"{_name(net, images, gradients)}.compiled"
        self._compiler: Compiler | None = None

    @property
    def is_cached(self) -> bool:
        """Whether a process on this machine has compiled this network for this shape."""
        try:
            return self._mark.exists()
        except OSError:  # a folder that is closed to us
            return False

    def start(self) -> Compilation:
        """Begins; a network that cannot be handed to another process is an `error`."""
        if self.is_cached:
            return self
        compiler = None
        try:
            compiler = _taken(self.images.device)
            handed = Path(compiler.folder.name) / "net.pt"
            torch.save((self.net, tuple(self.images.shape), self.gradients, _precision()), handed)
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be pickled
            if compiler is not None:
                compiler.cancel()
            self.error, self.was_handed = in_one_line(error), False
            return self
        compiler.give(handed)
        self._compiler = compiler
        return self

    @property
    def is_over(self) -> bool:
        return self._compiler is None or self._compiler.is_over

    def compiled(self, saves: float) -> Function | None:
        """What was compiled, taken from the cache; None, and an `error`, where there is nothing.

        What no other process can read, as a class of a script, is compiled here if that `saves` seconds enough.
        """
        if self._compiler is not None and (code := self._compiler.process.wait()) != 0:
            self.error, self.was_handed = self._compiler.last_words(), code != UNREAD
        if not self.was_handed and saves > HERE:
            self.error = ""
        return None if self.error else self.compiled_here()

    def compiled_here(self, *, quietly: bool = True) -> Function | None:
        """The network compiled in this process: seconds where it is cached, else up to half a minute."""
        try:
            with _quietly() if quietly else contextlib.nullcontext():
                function = _compiled(self.net, self.images, gradients=self.gradients)
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be compiled
            self.error = in_one_line(error)
            return None
        with contextlib.suppress(OSError):
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        return function

    def cancel(self) -> None:
        if self._compiler is not None:
            self._compiler.cancel()


def asked(function: Function, images: Tensor, *, gradients: bool, scale: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """Logits, and where gradients are wanted that of a sum over them, scaled."""
    with torch.set_grad_enabled(gradients):
        leaf = images.detach().clone().requires_grad_(gradients)
        logits = function(leaf)
        gradient = torch.autograd.grad(scale * logits.logsumexp(1).sum(), leaf)[0] if gradients else None
    return logits.detach(), gradient


def in_half(net: nn.Module, images: Tensor) -> Tensor:
    """Logits of a network with layers in float16."""
    with torch.autocast(images.device.type, torch.float16, cache_enabled=False):
        logits: Tensor = net(images.contiguous(memory_format=torch.channels_last))
    return logits.float()


def cache_folder() -> Path:
    """Where the compiler keeps its work: it outlives this process, and a restart."""
    return Path(os.environ.get(CACHE, data_home().parent / "compiled"))


def _compiled(net: nn.Module, images: Tensor, *, gradients: bool) -> Function:
    os.environ.setdefault(CACHE, str(cache_folder()))
    import torch._dynamo  # takes seconds, and few need it

    config = torch._dynamo.config
    for name in ("recompile_limit", "cache_size_limit"):
        if hasattr(config, name):
            setattr(config, name, max(64, getattr(config, name)))
    function: Function = torch.compile(lambda given: in_half(net, given), dynamic=False)
    for _ in range(2):
        asked(function, images, gradients=gradients)
    return function


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings; not for threads, which share what is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _small(device: torch.device) -> Compilation:
    """Something to compile that takes little beside importing the compiler."""
    return Compilation(nn.SiLU(), torch.zeros(2, 3, 8, 8, device=device), gradients=True)


def _name(net: nn.Module, images: Tensor, gradients: bool) -> str:
    device = torch.cuda.get_device_name(images.device) if images.is_cuda else "cpu"
    shapes = [[name, list(value.shape), str(value.dtype)] for name, value in net.state_dict().items()]
    code = getattr(net, "code", "")  # of a network that was traced
    return digest([torch.__version__, device, repr(net), code, shapes, list(images.shape), gradients])


def _precision() -> tuple[bool, str, bool]:
    """What the compiler's result depends on beside the network."""
    attention: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision(), attention


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"


def compile_file(handed: str, device: torch.device) -> None:
    """Compiles what another process handed over; that finds it in the cache."""
    try:
        net, shape, gradients, precision = torch.load(handed, weights_only=False)
    except Exception as error:  # noqa: BLE001 - what loading runs is other people's code
        sys.stderr.write(in_one_line(error))
        sys.exit(UNREAD)
    torch.backends.cudnn.allow_tf32 = precision[0]
    torch.set_float32_matmul_precision(precision[1])
    torch.backends.cuda.enable_cudnn_sdp(precision[2])
    with _quietly():
        _compiled(net, torch.rand(shape, device=device), gradients=gradients)


def compile_what_is_given(device: torch.device) -> None:
    """Imports the compiler by compiling something small, then compiles the network of the file that is named to it."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
        _small(device).compiled_here()
    ready, _, _ = select.select([sys.stdin], [], [], WAITING)
    if not ready:
        sys.exit(f"no network came in {WAITING:g} s")
    handed = sys.stdin.readline().strip()
    if handed:  # nothing: the process that asked has no use for it
        threading.Thread(target=end_with_the_caller, daemon=True).start()
        compile_file(handed, device)


def end_with_the_caller() -> None:
    """Ends this process once the other end of its input is closed: by the caller, or because that has ended."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    compile_what_is_given(torch.device(sys.argv[1]))
