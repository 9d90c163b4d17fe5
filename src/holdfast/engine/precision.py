"""Whether a model's fast version may give an attack its gradients: tried on this model, at this radius, before it does.

The same short attack runs with gradients in float32 and with those of the fast version, on the same samples with the
same draws. What counts is the gain: how far the margin of the samples that are right at the start rises towards zero,
scored in float32. A fast version that gains less, or that is not faster, is not used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.budget import Budget
from holdfast.attacks.cascade import Cascade
from holdfast.attacks.course import kind_of
from holdfast.attacks.objectives import margin
from holdfast.attacks.search import Hunt
from holdfast.attacks.thresholds import Sweep
from holdfast.core.noise import Noise
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier
from holdfast.models.fast import FastModel

SAMPLES = 128  # right ones that a trial attacks
FEW = 32  # where the attack cannot be cut short
STEPS, QUERIES = 10, 64
LEAST_GAIN = 0.99  # of float32's; on EfficientNet-Lite0 bfloat16 gains 0.83 at 0.1/255 and 0.95 at 0.25/255
LEAST_PACE = 1.1  # of float32's
TIMED_WIDTH = 128  # samples that paces are measured on: enough to fill a device
FEW_PASSES = 5000  # need no measurement to be known as few
WORTH_SECONDS = 60.0  # of float32 gradients at most: preparing, trying and new batch sizes take about ten


@dataclass(frozen=True, slots=True)
class Trial:
    """What a short attack gained with the fast version: of float32's gain, on how many samples.

    `kind` is that of the loop, None where the attack has a loop of its own; `error` is the standard error of `gain`.
    """

    kind: Hashable
    gain: float
    error: float
    samples: int

    @property
    def is_weaker(self) -> bool:
        """Weaker than it may be by more than the noise of the trial explains."""
        return self.gain < LEAST_GAIN and self.gain + 2 * self.error < 1

    def __str__(self) -> str:
        return f"{100 * self.gain:.1f} % of float32's gain on {self.samples} samples"


def pace(model: Callable[[Tensor], Tensor], images: Tensor, width: int) -> float:
    """Forward and backward passes per second, of `width` images at once."""
    wide = _repeated(images, width)
    seconds = math.inf
    for _ in range(3):  # the first one chooses kernels
        leaf = wide.clone().requires_grad_()
        _wait(images)
        begun = time.perf_counter()
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)
        _wait(images)
        seconds = min(seconds, time.perf_counter() - begun)
    return len(wide) / seconds


def issuing_share(model: Callable[[Tensor], Tensor], images: Tensor, width: int) -> float:
    """The share of a pass, forward and backward, that the host takes to issue it; above a half the device waits."""
    leaf, shares = _repeated(images, width).clone().requires_grad_(), []
    for _ in range(3):
        _wait(images)
        begun = time.perf_counter()
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)
        issued = time.perf_counter()
        _wait(images)
        shares.append((issued - begun) / (time.perf_counter() - begun))
    return min(shares)


def recorded_pace(model: FastModel, images: Tensor, width: int) -> float:
    """The same from a CUDA graph; 0 where the model cannot be recorded."""
    leaf = _repeated(images, width).clone().requires_grad_()

    def both() -> None:
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)

    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    try:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            both()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            both()
    except Exception:  # noqa: BLE001 - models are other people's code
        torch.cuda.synchronize()
        return 0.0
    graph.replay()
    _wait(images)
    begun = time.perf_counter()
    graph.replay()
    _wait(images)
    return len(leaf) / (time.perf_counter() - begun)


def tried(model: TorchClassifier, fast: FastModel, attack: Attack, batch: Batch, width: int) -> list[Trial]:
    """A trial for every part of the attack that asks the fast version."""
    with torch.no_grad():
        start = torch.cat([margin(model(part), labels, labels) for part, labels in _pieces(batch, width)])
    right = (start < 0).nonzero().squeeze(1)[:SAMPLES]
    if not len(right):
        return []
    batch = Batch(batch.images[right], batch.labels[right], tuple(batch.ids[i] for i in right.tolist()))
    return [
        trial
        for part, radius in dict.fromkeys(short_parts(attack))
        if (trial := _tried(model, fast, part, radius, batch, start[right], width)) is not None
    ]


def short_parts(attack: Attack, radius: float = math.nan) -> Iterator[tuple[Attack, float]]:
    """The attacks that an attack is made of, cut short, each with its radius; a sweep's is its smallest."""
    own = attack.radius if math.isnan(radius) else radius
    if isinstance(attack, Cascade):
        for stage in attack.stages:
            yield from short_parts(stage.attack, own)
    elif isinstance(attack, Sweep):
        yield from short_parts(attack.attack, min(attack.radii))
    elif isinstance(attack, Budget):
        how = attack.climb
        yield Budget(replace(how, steps=min(how.steps, STEPS), restarts=1, targets=min(how.targets, 1)), own), own
    elif isinstance(attack, Hunt):
        yield Hunt(replace(attack.search, queries=min(attack.search.queries, QUERIES), restarts=1), own), own
    else:
        yield attack, own


def _tried(
    model: TorchClassifier, fast: FastModel, attack: Attack, radius: float, batch: Batch, start: Tensor, width: int
) -> Trial | None:
    if not math.isfinite(radius):  # nothing is confirmed there, so the model itself is asked throughout
        return None
    if not isinstance(attack, Budget | Hunt):
        batch, start = Batch(batch.images[:FEW], batch.labels[:FEW], batch.ids[:FEW]), start[:FEW]
    before = model.rough
    try:
        model.rough = None
        exact = _gain(model, attack, radius, batch, start, width)
        model.rough = fast
        quick = _gain(model, attack, radius, batch, start, width)
    finally:
        model.rough = before
    reached = float(exact.mean())
    if reached <= 0:
        return None
    spread = float((quick - exact).std()) / math.sqrt(len(start)) if len(start) > 1 else 0.0
    return Trial(_kind(attack), float(quick.mean()) / reached, spread / reached, len(start))


def _kind(attack: Attack) -> Hashable:
    if isinstance(attack, Budget):
        return kind_of(attack.climb)
    return kind_of(attack.search) if isinstance(attack, Hunt) else None


def _gain(model: TorchClassifier, attack: Attack, radius: float, batch: Batch, start: Tensor, width: int) -> Tensor:
    radii = torch.full_like(start, radius)
    made = attack.attempt(model, batch, Noise.of(0, batch.ids, batch.images.device), radii, width=width)
    ended = Batch(made.images, batch.labels, batch.ids)
    with torch.no_grad():
        end = torch.cat([margin(model(part), labels, labels) for part, labels in _pieces(ended, width)])
    return end.clamp_max(0.0) - start


def _repeated(images: Tensor, width: int) -> Tensor:
    return images[torch.arange(min(width, TIMED_WIDTH), device=images.device) % len(images)]


def _pieces(batch: Batch, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    for i in range(0, len(batch), width):
        yield batch.images[i : i + width], batch.labels[i : i + width]


def _wait(images: Tensor) -> None:
    if images.is_cuda:
        torch.cuda.synchronize(images.device)
