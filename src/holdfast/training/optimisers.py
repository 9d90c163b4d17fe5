"""SGD and AdamW, their schedules, and averages of weights: exponential, or uniform over the ends of the last epochs.

The rate is a tensor on the device, so that a recorded step follows the schedule. Updates go over all weights at once
(`torch._foreach_…`): a small network has as many tensors as a large one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from holdfast.attacks.recipes.adam import unbiased
from holdfast.training.recipes import Recipe

# notation of 1711.05101, Algorithm 2, with the usual values
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
DROP = 0.1  # of the rate at a milestone
WARM_UP = 0.05  # of all steps, before the cosine


class Optimiser(Protocol):
    """Changes the weights in place. `state`: all its tensors, in a fixed order."""

    rate: Tensor

    @property
    def state(self) -> list[Tensor]: ...

    def step(self, gradients: Sequence[Tensor]) -> None: ...


class Sgd:
    """Stochastic gradient descent with Nesterov momentum and weight decay in the gradient."""

    def __init__(self, weights: Sequence[Tensor], *, momentum: float, weight_decay: float) -> None:
        self.weights, self.momentum, self.weight_decay = list(weights), momentum, weight_decay
        self.rate = torch.zeros((), device=self.weights[0].device)
        self.velocity = [torch.zeros_like(weight) for weight in self.weights]

    @property
    def state(self) -> list[Tensor]:
        return self.velocity

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        slopes = torch._foreach_add(list(gradients), self.weights, alpha=self.weight_decay)
        torch._foreach_mul_(self.velocity, self.momentum)
        torch._foreach_add_(self.velocity, slopes)
        torch._foreach_add_(slopes, self.velocity, alpha=self.momentum)
        torch._foreach_mul_(slopes, self.rate)
        torch._foreach_sub_(self.weights, slopes)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101)."""

    def __init__(self, weights: Sequence[Tensor], *, weight_decay: float) -> None:
        self.weights, self.weight_decay = list(weights), weight_decay
        device = self.weights[0].device
        self.rate, self.age = torch.zeros((), device=device), torch.zeros((), device=device)
        self.mean = [torch.zeros_like(weight) for weight in self.weights]
        self.square = [torch.zeros_like(weight) for weight in self.weights]

    @property
    def state(self) -> list[Tensor]:
        return [self.age, *self.mean, *self.square]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        slopes = list(gradients)
        self.age += 1
        torch._foreach_mul_(self.weights, 1.0 - self.rate * self.weight_decay)
        torch._foreach_mul_(self.mean, BETA_1)
        torch._foreach_add_(self.mean, slopes, alpha=1 - BETA_1)
        torch._foreach_mul_(self.square, BETA_2)
        torch._foreach_addcmul_(self.square, slopes, slopes, value=1 - BETA_2)
        spread = torch._foreach_sqrt(self.square)
        torch._foreach_mul_(spread, unbiased(BETA_2, self.age).rsqrt())
        torch._foreach_add_(spread, EPSILON)
        moved = torch._foreach_div(self.mean, spread)
        torch._foreach_mul_(moved, self.rate / unbiased(BETA_1, self.age))
        torch._foreach_sub_(self.weights, moved)


def optimiser_of(recipe: Recipe, weights: Sequence[Tensor]) -> Optimiser:
    if recipe.optimiser == "adamw":
        return AdamW(weights, weight_decay=recipe.weight_decay)
    return Sgd(weights, momentum=recipe.momentum, weight_decay=recipe.weight_decay)


def rate_at(recipe: Recipe, step: int, total: int) -> float:
    """The learning rate of a step, counted from 0, of `total`."""
    done = (step + 0.5) / total
    if recipe.schedule == "piecewise":
        return recipe.rate * DROP ** sum(done >= milestone for milestone in recipe.milestones)
    if recipe.schedule == "cyclic":
        rising = done / recipe.peak if recipe.peak else 1.0
        return recipe.rate * min(rising, (1.0 - done) / (1.0 - recipe.peak) if recipe.peak < 1 else 1.0)
    if recipe.schedule == "cosine":
        falling = 0.5 * (1.0 + math.cos(math.pi * max(0.0, done - WARM_UP) / (1.0 - WARM_UP)))
        return recipe.rate * min(done / WARM_UP, falling)
    return recipe.rate


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
