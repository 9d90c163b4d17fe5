"""Whether a model's fast version may give an attack its gradients: tried on this model, at this radius, before it does.

The same short attack runs with gradients in float32 and with those of the fast version, on the same samples with the
same draws. What counts is the gain: how far the margin of the samples that are right at the start rises towards zero,
scored in float32. A fast version that gains less, or that is not faster, is not used. A smaller gain does not count
where no verdict can depend on it: samples that end so close to the boundary are attacked again in float32 anyway
(`AskedModel.close_to_boundary`), or the attack is far from breaking anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from holdfast.attacks.asked_model import CLOSE, kind_of
from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.recipes.cascade import Cascade
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.attacks.search import RandomSearch
from holdfast.core.noise import Noise
from holdfast.core.rounding import percent
from holdfast.core.types import Batch, Classifier, exact_version_of
from holdfast.models import TorchClassifier
from holdfast.models.fast import FastModel

SAMPLES = 128  # right ones that a trial attacks
FEW = 32  # where the attack cannot be cut short
STEPS, QUERIES = 10, 64
LEAST_GAIN = 0.99  # of float32's; on EfficientNet-Lite0 bfloat16 gains 0.83 at 0.1/255 and 0.95 at 0.25/255
LEAST_PACE = 1.1  # of float32's
MISSED = 0.98  # quantile over samples of what the fast version gains less
LONGER = 2.0  # how much more a whole attack may gain less than a short one
FAR = 10.0  # times its gain in float32: a sample that this would not break is out of the attack's reach
FEW_PASSES = 5000  # need no measurement to be known as few
WORTH_SECONDS = 8.0  # of float32 gradients: preparing and trying a fast version take one to four
WORTH_GROUPED = 200.0  # where convolutions are grouped: EfficientNet-Lite0 takes 7 s to make, 9 to compile, for 1.6x
WORTH_MADE = 1.0  # of float32 gradients, where the fast version is there: it is tried for every attack
TRIAL_GAIN = 0.4  # of float32's time that a fast version is taken to save: 1.6 times its pace on EfficientNet-Lite0
TRIAL_SECONDS = 0.15  # of a part, however fast the model: of the steps of a small network a GPU waits for the host
TRIAL_COST = 1.5  # times the short attack in float32: it is made with the fast version too


@dataclass(frozen=True, slots=True)
class Trial:
    """What a short attack gained with the fast version: of float32's gain, on how many samples.

    `kind` is that of the loop, None where the attack has a loop of its own; `error` is the standard error of `gain`;
    `decides`: whether gaining less could change which samples are broken.
    """

    kind: Hashable
    gain: float
    error: float
    samples: int
    decides: bool = True

    @property
    def is_weaker(self) -> bool:
        """Weaker than it may be by more than the noise of the trial explains, where that matters."""
        return self.decides and self.gain < LEAST_GAIN and self.gain + 2 * self.error < 1

    def __str__(self) -> str:
        return f"{percent(self.gain)} % of float32's gain on {self.samples} samples"


def trial_seconds(attack: Attack, pace: float) -> float:
    """What a trial of an attack costs at most where the model takes so many passes to the images per second."""
    parts = [part for part, _ in dict.fromkeys(short_parts(attack))]
    return sum(TRIAL_SECONDS + TRIAL_COST * SAMPLES * part.cost.backwards / pace for part in parts)


def worth_seconds(net: nn.Module) -> float:
    """How long float32 must be expected to take before a fast version is made."""
    grouped = any(isinstance(part, nn.Conv2d) and part.groups > 1 for part in net.modules())
    return WORTH_GROUPED if grouped else WORTH_SECONDS


def pace(model: Callable[[Tensor], Tensor], images: Tensor) -> float:
    """Forward and backward passes per second, of all these images at once."""
    seconds = math.inf
    for _ in range(2):  # the first one chooses kernels
        leaf = images.clone().requires_grad_()
        _wait(images)
        begun = time.perf_counter()
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)
        _wait(images)
        seconds = min(seconds, time.perf_counter() - begun)
    return len(images) / seconds


def issuing_share(model: Callable[[Tensor], Tensor], images: Tensor) -> float:
    """The share of a pass, forward and backward, that the host takes to issue it; above a half the device waits."""
    leaf, shares = images.clone().requires_grad_(), []
    for _ in range(3):
        _wait(images)
        begun = time.perf_counter()
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)
        issued = time.perf_counter()
        _wait(images)
        shares.append((issued - begun) / (time.perf_counter() - begun))
    return min(shares)


def recorded_pace(model: FastModel, images: Tensor) -> float:
    """The same from a CUDA graph; 0 where the model cannot be recorded."""
    leaf = images.clone().requires_grad_()

    def both() -> None:
        with torch.enable_grad():
            torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)

    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    try:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            both()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
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


@dataclass(frozen=True, slots=True)
class Reference:
    """What a part of an attack, cut short, gained with float32's gradients, per sample."""

    attack: Attack
    radius: float
    batch: Batch
    start: Tensor
    gain: Tensor

    @property
    def unbroken(self) -> float:
        """The share of the samples that it left unbroken."""
        return float((self.start + self.gain < 0).float().mean())


@dataclass(frozen=True, slots=True)
class References:
    """The parts of an attack in float32; `right`: the share of all samples that are right at the start."""

    parts: tuple[Reference, ...]
    right: float

    @property
    def unbroken(self) -> float:
        """The share of all samples that the attack has to go on with to its end, as far as short parts can tell."""
        return self.right * min((part.unbroken for part in self.parts), default=1.0)


def references(
    model: Classifier,
    attack: Attack,
    batch: Batch,
    width: int,
    *,
    parts: int | None = None,
    known: References | None = None,
) -> References:
    """The parts of the attack, all or the first so many, run in float32 on samples that are right at the start.

    `known`: the first of them, where these were run before.
    """
    if not len(batch):
        return References((), 0.0)
    start = _margins(model, batch, width)
    right = (start < 0).nonzero().squeeze(1)
    share = len(right) / len(start)
    batch, start = batch.take(right[:SAMPLES]), start[right[:SAMPLES]]
    # without a radius nothing is confirmed, so the model itself is asked throughout
    short = [(part, radius) for part, radius in dict.fromkeys(short_parts(attack)) if math.isfinite(radius)]
    run = short[:parts] if len(right) else []
    before = known.parts if known is not None else ()
    return References((*before, *(_reference(model, *part, batch, start, width) for part in run[len(before) :])), share)


def _reference(model: Classifier, attack: Attack, radius: float, batch: Batch, start: Tensor, width: int) -> Reference:
    if not isinstance(attack, GradientAttack | RandomSearch):
        rows = torch.arange(min(FEW, len(batch)), device=start.device)
        batch, start = batch.take(rows), start[rows]
    return Reference(attack, radius, batch, start, _gain(model, model, attack, radius, batch, start, width))


def tried(model: TorchClassifier, fast: FastModel, reference: References, width: int) -> list[Trial]:
    """A trial for every part of the attack that asks the fast version."""
    return [trial for part in reference.parts if (trial := _tried(model, fast, part, width)) is not None]


def _tried(model: TorchClassifier, fast: FastModel, known: Reference, width: int) -> Trial | None:
    before, exact = model.fast, exact_version_of(model) or model
    try:
        model.fast = fast
        quick = _gain(model, exact, known.attack, known.radius, known.batch, known.start, width)
    finally:
        model.fast = before
    reached, n = float(known.gain.mean()), len(known.start)
    if reached <= 0:
        return None
    spread = float((quick - known.gain).std()) / math.sqrt(n) if n > 1 else 0.0
    decides = not _is_far(known) and not _is_covered(known, quick, fast.error)
    return Trial(_kind(known.attack), float(quick.mean()) / reached, spread / reached, n, decides)


def _is_far(known: Reference) -> bool:
    """Whether the attack is far from breaking any sample."""
    return bool((known.start + FAR * known.gain < 0).all())


def _is_covered(known: Reference, quick: Tensor, error: float) -> bool:
    """Whether a sample that the fast version may miss ends where the attack is run again in float32."""
    if not isinstance(known.attack, GradientAttack) or known.attack.keep == "smallest":
        return False
    missed = float((known.gain - quick).clamp_min(0.0).quantile(MISSED))
    return LONGER * missed <= CLOSE * error


def short_parts(attack: Attack, radius: float = math.nan) -> Iterator[tuple[Attack, float]]:
    """The attacks that an attack is made of, cut short, each with its radius; a sweep's is its smallest."""
    own = attack.radius if math.isnan(radius) else radius
    if isinstance(attack, Cascade):
        for stage in attack.stages:
            yield from short_parts(stage.attack, own)
    elif isinstance(attack, Sweep):
        yield from short_parts(attack.attack, min(attack.radii))
    elif isinstance(attack, GradientAttack):
        steps, targets = min(attack.steps, STEPS), min(attack.targets, 1)
        yield replace(attack, steps=steps, restarts=1, targets=targets, radius=own), own
    elif isinstance(attack, RandomSearch):
        yield replace(attack, queries=min(attack.queries, QUERIES), restarts=1, radius=own), own
    else:
        yield attack, own


def _kind(attack: Attack) -> Hashable:
    return kind_of(attack) if isinstance(attack, GradientAttack | RandomSearch) else None


def _gain(
    model: Classifier,
    exact: Callable[[Tensor], Tensor],
    attack: Attack,
    radius: float,
    batch: Batch,
    start: Tensor,
    width: int,
) -> Tensor:
    """How far the attack raises the margin of each sample towards zero."""
    radii = torch.full_like(start, radius)
    result = attack.attempt(model, batch, Noise.of(0, batch.ids, batch.images.device), radii, width=width)
    return _margins(exact, Batch(result.images, batch.labels, batch.ids), width).clamp_max(0.0) - start


def _margins(model: Callable[[Tensor], Tensor], batch: Batch, width: int) -> Tensor:
    parts = [slice(i, i + width) for i in range(0, len(batch), width)]
    with torch.no_grad():
        return torch.cat([_margin(model(batch.images[p]), batch.labels[p]) for p in parts])


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Zero where the answer is not finite, which counts as wrong."""
    return torch.where(logits.isfinite().all(dim=1), margin(logits, labels, labels), 0.0)


def _wait(images: Tensor) -> None:
    if images.is_cuda:
        torch.cuda.synchronize(images.device)
