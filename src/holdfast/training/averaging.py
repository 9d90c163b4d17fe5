"""Averages of weights over training: exponential at every step, or uniform over the ends of the last epochs."""

from __future__ import annotations

import torch
from torch import nn

from holdfast.training.recipes import Recipe

EARLY = 10  # steps: at first an average forgets faster, so that the first weights do not stay in it


class AveragedWeights:
    """A running average of a network's weights and buffers; `share`: what is kept of it at the next step."""

    def __init__(self, net: nn.Module) -> None:
        state = net.state_dict()
        self.names = [name for name, tensor in state.items() if tensor.is_floating_point()]
        self.sources = [state[name] for name in self.names]
        self.tensors = [tensor.clone() for tensor in self.sources]
        self.share = torch.zeros((), device=self.tensors[0].device)

    @torch.no_grad()
    def follow(self) -> None:
        """Moves the average towards the weights as they are now."""
        torch._foreach_mul_(self.tensors, self.share)
        torch._foreach_add_(self.tensors, torch._foreach_mul(self.sources, 1.0 - self.share))

    def write_to(self, net: nn.Module) -> None:
        """Puts the average into a network of the same shape; whole numbers stay as they are."""
        state = net.state_dict()
        for name, tensor in zip(self.names, self.tensors, strict=True):
            state[name].copy_(tensor)


def share_at(recipe: Recipe, step: int) -> float:
    """What an exponential average keeps at a step, counted from 0."""
    return min(recipe.average, (step + 1) / (step + 1 + EARLY))
