"""The device: which one, how many samples it takes at once, and what to do when that was too many."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import platform
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow
import torch

import holdfast
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Classifier, DatasetCard
from holdfast.models.classifier import float32_by_default

CPU_WIDTH = 128  # fastest of 32…512 for the bundled models on two cores; larger images take fewer
CPU_PIXELS = 128 * 32 * 32
GPU_MOST = 1024
GPU_PIXELS = 256 * 224 * 224  # more at once are no quicker (ResNet-50, ViT-S, ConvNeXt-T), and padding costs more
GPU_SHARE = 0.5  # of free memory: attacks hold several copies of a batch

Result = TypeVar("Result")


def pick_device(name: str = "auto") -> torch.device:
    """The device asked for, or the best there is, ready for work."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        hint = "use --device auto, cpu or cuda"
        raise Misuse(f"no device `{name}` here: {str(error).splitlines()[0]}", hint=hint) from error
    if device.type == "cpu":
        keep_freed_memory()
    return device


@functools.cache
def keep_freed_memory() -> None:
    """Has the C library keep freed memory for the next batch, where it is glibc; other libraries stay as they are.

    By default glibc returns each large tensor to the system and takes it back zeroed, page by page: 15 to 33 %
    of the time of an attack on a small network.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2  # malloc.h
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(top_pad, 64 * 2**20)


def made_current(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """The device as torch's current one for a while: streams, and with them recorded steps, are of that."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{device.type}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def installed_versions() -> dict[str, str]:
    """What a run was measured with."""
    return {
        "holdfast": holdfast.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pyarrow": pyarrow.__version__,
        "python": platform.python_version(),
    }


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Float32 throughout, with gradients, whatever the caller works in: `no_grad`, `autocast`, another default type.

    No TF32 in convolutions or products, so that numbers agree between devices.
    Nor cuDNN's attention, which fast versions would take: its float16 gradients are NaN for some images (4 % of them
    for a ViT on an H200, torch 2.11), those of the other kernels are not.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(torch.backends.cuda.enable_cudnn_sdp, torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
        torch.backends.cuda.enable_cudnn_sdp(False)
        for context in (tf32(allowed=False), float32_by_default(), torch.inference_mode(False), torch.enable_grad()):
            stack.enter_context(context)
        for each in ("cpu", "cuda"):
            if torch.is_autocast_enabled(each):
                stack.enter_context(torch.autocast(each, enabled=False))
        yield


@contextlib.contextmanager
def tf32(*, allowed: bool = True) -> Iterator[None]:
    """Products of float32 matrices in TF32 or not, in convolutions and elsewhere.

    The caller may have chosen by torch's older settings or by those since 2.9. A newer one stands above the older ones,
    and torch refuses to read the older ones after a newer one was set.
    """
    newer = [setting for setting in _precision_settings() if hasattr(setting, "fp32_precision")]
    chosen = [setting.fp32_precision for setting in newer]
    try:
        older = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:
        older = True, "highest"  # as torch begins
    for setting, value in zip(newer, chosen, strict=True):
        if value not in ("none", "ieee"):
            setting.fp32_precision = "none"
    torch.backends.cudnn.allow_tf32 = allowed
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = older[0]
        torch.set_float32_matmul_precision(older[1])
        for setting, value in zip(newer, chosen, strict=True):
            if setting.fp32_precision != value:
                setting.fp32_precision = value


def _precision_settings() -> list[Any]:
    backends = torch.backends
    parts = [getattr(each, part, None) for each in (backends.cudnn, backends.mkldnn) for part in ("conv", "rnn")]
    return [
        backends,
        backends.cudnn,
        backends.mkldnn,
        *parts,
        backends.cuda.matmul,
        getattr(backends.mkldnn, "matmul", None),
    ]


class Width:
    """How many samples go through the model at once; halves itself when memory runs out."""

    def __init__(self, value: int) -> None:
        assert value >= 1, f"a width is 1 or more, got {value}"
        self.value = value

    @classmethod
    def for_model(cls, model: Classifier, dataset: DatasetCard, device: torch.device) -> Width:
        """A width that fits: by image size on a CPU, by measured memory on a GPU."""
        pixels = dataset.size[0] * dataset.size[1]
        if device.type != "cuda":
            return cls(_power_of_two(min(CPU_WIDTH, max(8, CPU_PIXELS // pixels))))
        probe = torch.zeros(8, dataset.channels, *dataset.size, device=device, requires_grad=model.card.differentiable)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        logits = model(probe)
        if logits.requires_grad:
            torch.autograd.grad(logits.sum(), probe)
        each = max(1, (torch.cuda.max_memory_allocated(device) - before) // 8)
        free, _ = torch.cuda.mem_get_info(device)
        return cls(_power_of_two(max(1, min(GPU_MOST, GPU_PIXELS // pixels, int(GPU_SHARE * free / each)))))

    def recovering(
        self, work: Callable[[int], Result], note: Callable[[str], None], release: Callable[[], None] = lambda: None
    ) -> Result:
        """Does the work at this width, at half of it after running out of memory, and so on down to one sample.

        `release` lets go of memory that the work can do without.
        """
        while True:
            try:
                return work(self.value)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if self.value == 1:
                    raise HoldfastError(
                        "out of memory with a single sample in the batch",
                        hint="use a device with more memory, smaller images, or a smaller model",
                    ) from error
                self.value = max(1, self.value // 2)
            release()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            note(f"out of memory: going on with {self.value} samples at a time")


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return "out of memory" in text or "can't allocate memory" in text


def _power_of_two(value: int) -> int:
    return 1 << (max(1, value).bit_length() - 1)
