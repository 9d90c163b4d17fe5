"""The model under examination: each pass the probes share is made once, and the first one is watched."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.types import Classifier
from holdfast.models.lengths import padded

NOISE, NOISY = 2 / 255, 8
TOGETHER = 8  # images: batches on a GPU are multiples of it
BACKWARDS = ("grad", "backward", "_engine_run_backward")  # the last one is where all others end, however imported


class ProbeResult(NamedTuple):
    """The report of a probe: a level and an explanation in plain words."""

    level: str
    explanation: str


error, warning, note = (functools.partial(ProbeResult, level) for level in ("error", "warning", "note"))


class Gradients(NamedTuple):
    """Gradients at the images of the cross-entropy and of the margin, None where none arrives, and the logits seen."""

    cross_entropy: Tensor | None
    margin: Tensor | None
    logits: Tensor | None = None


@dataclass(eq=False)
class Subject:
    """A classifier with the images it is examined on.

    `majority`: the share of the commonest label, where known. `flags`: those raised so far, since some make later
    probes meaningless: a random model differs in every other way, too. `backwards` and `calls`: the backward
    passes inside the first forward pass, and the calls of each part that has weights.
    """

    classifier: Classifier
    images: Tensor
    labels: Tensor
    was_training: bool
    majority: float | None = None
    flags: set[str] = field(default_factory=set, init=False)
    backwards: int = field(default=0, init=False)
    calls: Counter[str] = field(default_factory=Counter, init=False)
    wrote: bool = field(default=False, init=False)

    @functools.cached_property
    def output(self) -> Any:
        """What the model returns, whatever it is."""
        given = self.images.clone()
        with torch.no_grad(), watched(self):
            output = self.classifier(given)
        self.wrote = not torch.equal(given, self.images)
        return output

    @property
    def logits(self) -> Tensor:
        logits: Tensor = self.output
        return logits.float()

    @functools.cached_property
    def second_logits(self) -> Tensor:
        return self.logits_of(self.images)

    @functools.cached_property
    def gradients(self) -> Gradients:
        return self.gradients_at(self.images, self.labels)

    @functools.cached_property
    def noisy(self) -> Tensor:
        """Some images under noise of two grey levels: points such as an attack visits, off the grid of 8 bits."""
        random, few = torch.Generator().manual_seed(0), self.images[:NOISY]
        noise = torch.rand(few.shape, generator=random).to(few.device) * 2 - 1
        return (few + NOISE * noise).clamp(0, 1)

    @functools.cached_property
    def noisy_logits(self) -> Tensor:
        return self.logits_of(self.noisy)

    @functools.cached_property
    def noisy_gradients(self) -> Gradients:
        return self.gradients_at(self.noisy, self.labels[:NOISY])

    def gradients_at(self, images: Tensor, labels: Tensor) -> Gradients:
        if not self.classifier.card.differentiable:
            return Gradients(None, None)
        images = images.clone().requires_grad_(True)
        with torch.enable_grad():
            logits = self.classifier(images)
            if not logits.requires_grad:
                return Gradients(None, None, logits.float())
            logits = logits.float()
            loss = F.cross_entropy(logits, labels, reduction="sum")
            (first,) = torch.autograd.grad(loss, images, retain_graph=True, allow_unused=True)
            (second,) = torch.autograd.grad(margin_of(logits, labels).sum(), images, allow_unused=True)
        return Gradients(first, second, logits.detach())

    def calls_for_one(self, part: str) -> int:
        """How often one image goes through a part."""
        alone = Subject(self.classifier, self.images[:1], self.labels[:1], was_training=self.was_training)
        with watched(alone):
            alone.logits_of(alone.images)
        return alone.calls[part]

    def is_any(self, *names: str) -> bool:
        """Whether one of these flags was raised already."""
        return not self.flags.isdisjoint(names)

    def logits_of(self, images: Tensor) -> Tensor:
        """Logits of so many images: on a GPU several are padded, since each new batch length costs it time."""
        count = len(images)
        given = padded(images, TOGETHER * -(-count // TOGETHER)) if images.is_cuda and count > 1 else images
        with torch.no_grad():
            logits: Tensor = self.classifier(given.clone())
        return logits[:count].float() if given is not images else logits.float()


def margin_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The largest other logit minus the label's."""
    own = F.one_hot(labels, logits.shape[1]).bool()
    return logits.masked_fill(own, -torch.inf).amax(1) - logits[own]


ProbeFunction = Callable[[Subject], ProbeResult | None]


@contextmanager
def watched(subject: Subject) -> Iterator[None]:
    """Counts backward passes, and calls of every part that has weights, while inside."""

    def counting(name: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, args: subject.calls.update([name])  # noqa: ARG005 - the signature of a hook

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noted(*args: Any, **options: Any) -> Any:
            subject.backwards += 1
            return function(*args, **options)

        return noted

    originals = {name: getattr(torch.autograd, name) for name in BACKWARDS if hasattr(torch.autograd, name)}
    hooks = []
    if isinstance(subject.classifier, nn.Module):
        for name, part in subject.classifier.named_modules():
            if any(True for _ in part.parameters()) and not isinstance(part, torch.jit.ScriptModule):
                hooks.append(part.register_forward_pre_hook(counting(name or "the model itself")))
    try:
        for name, function in originals.items():
            setattr(torch.autograd, name, noting(function))
        yield
    finally:
        for name, function in originals.items():
            setattr(torch.autograd, name, function)
        for hook in hooks:
            hook.remove()
