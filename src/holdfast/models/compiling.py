"""A network compiled for one batch length, by a process of its own: the uncompiled one works until that is ready.

The process fills the compiler's cache on disk; compiling the same network again, here or in a later process, then takes
a few seconds. Compiling in a thread would keep the interpreter and the device's queue from the work in front.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.core.home import data_home
from holdfast.core.refs import digest

CACHE = "TORCHINDUCTOR_CACHE_DIR"
Function = Callable[[Tensor], Tensor]
_running: weakref.WeakSet[Compilation] = weakref.WeakSet()


class Compilation:
    """A network on its way to being compiled for images of one shape, with or without gradients."""

    def __init__(self, net: nn.Module, images: Tensor, *, gradients: bool) -> None:
        self.net, self.images, self.gradients = net, images, gradients
        self.error = ""
        self._mark = cache_folder() / f"{_name(net, images, gradients)}.compiled"
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-compiling-")

    @property
    def is_cached(self) -> bool:
        """Whether a process on this machine has compiled this network for this shape."""
        return self._mark.exists()

    def start(self) -> Compilation:
        """Begins; a network that cannot be handed to another process is an `error`."""
        if self.is_cached:
            return self
        handed = Path(self._folder.name) / "net.pt"
        try:
            where = tuple(self.images.shape), str(self.images.device)
            torch.save((self.net, *where, self.gradients, _precision()), handed)
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be pickled
            self.error = _first_line(error)
            return self
        path = os.pathsep.join([entry or str(Path.cwd()) for entry in sys.path])
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.models.compiling", str(handed)],
                env={**os.environ, "PYTHONPATH": path, CACHE: str(cache_folder())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        _running.add(self)
        return self

    @property
    def is_over(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def compiled(self) -> Function | None:
        """What was compiled, taken from the cache; None, and an `error`, where there is nothing."""
        if self._process is not None and self._process.wait() != 0:
            lines = (Path(self._folder.name) / "log").read_text(errors="replace").strip().splitlines()
            self.error = lines[-1][:160] if lines else "it ended without a word"
        return None if self.error else self.compiled_here()

    def compiled_here(self) -> Function | None:
        """The network compiled in this process: seconds where it is cached, else up to half a minute."""
        try:
            function = _compiled(self.net, self.images, gradients=self.gradients)
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be compiled
            self.error = _first_line(error)
            return None
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        self._mark.touch()
        return function

    def cancel(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


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
    with _prepared():
        function: Function = torch.compile(lambda given: in_half(net, given), dynamic=False)
        for _ in range(2):
            asked(function, images, gradients=gradients)
    return function


@contextlib.contextmanager
def _prepared() -> Iterator[None]:
    os.environ.setdefault(CACHE, str(cache_folder()))
    import torch._dynamo  # takes seconds, and few need it

    config = torch._dynamo.config
    for name in ("recompile_limit", "cache_size_limit"):
        if hasattr(config, name):
            setattr(config, name, max(64, getattr(config, name)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _name(net: nn.Module, images: Tensor, gradients: bool) -> str:
    device = torch.cuda.get_device_name(images.device) if images.is_cuda else "cpu"
    shapes = [[name, list(value.shape), str(value.dtype)] for name, value in net.state_dict().items()]
    code = getattr(net, "code", "")  # of a network that was traced
    return digest([torch.__version__, device, repr(net), code, shapes, list(images.shape), gradients])


def _precision() -> tuple[bool, str, bool]:
    """What the compiler's result depends on beside the network."""
    attention: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision(), attention


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"


@atexit.register
def _cancel_all() -> None:
    for compilation in list(_running):
        compilation.cancel()


def compile_file(handed: str) -> None:
    """Compiles what another process handed over; that finds it in the cache."""
    net, shape, device, gradients, precision = torch.load(handed, weights_only=False)
    torch.backends.cudnn.allow_tf32 = precision[0]
    torch.set_float32_matmul_precision(precision[1])
    torch.backends.cuda.enable_cudnn_sdp(precision[2])
    _compiled(net, torch.rand(shape, device=device), gradients=gradients)


if __name__ == "__main__":
    compile_file(sys.argv[1])
