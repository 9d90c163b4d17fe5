"""A network while it learns: logits with gradients to the weights, and the same network frozen for attacks on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from holdfast.core.types import ModelCard
from holdfast.models.classifier import TorchClassifier

Forward = Callable[[Tensor], Tensor]


class LearningModel(TorchClassifier):
    """A classifier whose weights change. As a classifier it answers as its attackers see it.

    `mixed`: bfloat16 arithmetic with weights in float32. `compile` makes both ways through the network faster; they are
    compiled apart because they differ in mode and in what has gradients.
    """

    def __init__(self, net: nn.Module, card: ModelCard, *, mixed: bool) -> None:
        super().__init__(net, card)
        self.mixed = mixed
        self.learning: Forward = self._plain
        self.attacked_pass: Forward = self._plain
        self.weights: list[Tensor] = [weight for weight in net.parameters() if weight.requires_grad]

    def compile_passes(self) -> None:
        """Has both passes compiled for the shapes they are first asked with."""
        import torch._dynamo  # takes seconds, and few need it

        torch._dynamo.reset()  # models before this one are done, and the compiler keeps few

        self.learning = torch.compile(lambda images: self._plain(images), dynamic=False)
        self.attacked_pass = torch.compile(lambda images: self._plain(images), dynamic=False)

    def without_compiling(self) -> None:
        self.learning = self.attacked_pass = self._plain

    def _logits(self, images: Tensor) -> Tensor:
        return self.attacked_pass(images)

    def _plain(self, images: Tensor) -> Tensor:
        if not self.mixed:
            return super()._logits(images)
        with torch.autocast(images.device.type, torch.bfloat16, cache_enabled=False):
            logits: Tensor = self.net(images.contiguous(memory_format=torch.channels_last))
        return logits.float()

    @contextlib.contextmanager
    def attacked(self) -> Iterator[None]:
        """In evaluation mode and without gradients to the weights; in training mode again afterwards."""
        self.eval()
        for weight in self.weights:
            weight.requires_grad_(False)
        try:
            yield
        finally:
            self.train()
            for weight in self.weights:
                weight.requires_grad_(True)
