"""The batch lengths that a network is asked with on a GPU: few, since each new one costs its libraries time.

cuDNN looks for kernels anew for every length: 0.1 s for a ResNet-50, 3 to 4 s for the depthwise convolutions of an
EfficientNet in float16, 1.7 s for those of a ConvNeXt. So a batch is padded to a length in use, and a new length is
taken into use once the padding that it saves would have paid for it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

TIMED = 2  # passes of a new length that are waited for: the first, which looks for kernels, and a usual one
LEAST = 16  # samples; shorter lengths are not quicker

Result = TypeVar("Result")


class Lengths:
    """Lengths in use, with the seconds of a forward pass at each; `cost`: of taking a new one into use."""

    def __init__(self, *, cost: float = 0.0) -> None:
        self.cost = cost
        self.passes: dict[int, int] = defaultdict(int)
        self.seconds: dict[int, float] = {}
        self.wasted: dict[int, float] = defaultdict(float)
        self.each = 0.0  # seconds per sample, as it was measured first

    def fit(self, count: int, passes: int = 1) -> int:
        """The length for so many samples, which are about to take so many passes."""
        longer = [length for length in self.seconds if length >= count]
        if not longer:
            return count
        length = min(longer, key=lambda one: self.seconds[one])
        for shorter in _between(count, length):
            self.wasted[shorter] += passes * max(0.0, self.seconds[length] - self.each * shorter)
            if self.wasted[shorter] > self.cost:
                return shorter
        return length

    def timed(self, length: int, work: Callable[[], Result]) -> Result:
        """Does a pass of this length, and takes down what it cost while that is not known."""
        known = self.passes[length]
        self.passes[length] += 1
        if known >= TIMED:
            return work()
        _wait()
        begun = time.perf_counter()
        result = work()
        _wait()
        seconds = time.perf_counter() - begun
        if known:
            self.cost = max(self.cost, self.seconds[length] - seconds)
            self.each = self.each or seconds / length
        self.seconds[length] = seconds
        return result

    def forget(self, length: int) -> None:
        """Passes of this length are to be timed again: they are made in another way from now on."""
        self.passes[length] = 1


def padded(images: Tensor, length: int) -> Tensor:
    """The images with copies of the last one, up to this length."""
    spare = length - len(images)
    return torch.cat([images, images[-1:].detach().expand(spare, *images.shape[1:])]) if spare > 0 else images


class Padded:
    """A model that is asked in few lengths."""

    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        self.model, self.lengths = model, Lengths()

    def __call__(self, images: Tensor) -> Tensor:
        if not len(images):
            return self.model(images)
        length = self.lengths.fit(len(images))
        return self.lengths.timed(length, lambda: self.model(padded(images, length)))[: len(images)]


def is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _between(count: int, length: int) -> list[int]:
    """Lengths worth a thought from a count up to a length in use: four to each doubling, the shortest first."""
    sizes, size = [], LEAST
    while size < length:
        sizes += [size // 4 * part for part in (4, 5, 6, 7) if count <= size // 4 * part < length]
        size *= 2
    return sizes


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
