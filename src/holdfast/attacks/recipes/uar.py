"""What the attacks of "Testing robustness against unforeseen adversaries" share."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy
from holdfast.attacks.steps import Steepest, Step
from holdfast.attacks.threat import Threat
from holdfast.core.errors import HoldfastError, Misuse

KANG = "Kang et al. 2019, arXiv:1908.08016"
LEVELS = 255.0  # radii published in grey levels are divided by this
GREY, COLOUR = 1, 3
Table = tuple[float, ...] | tuple[tuple[float, ...], ...]


def unforeseen(
    threat: Threat, radius: float, steps: int, restarts: int, *, share: float | None = None, step: Step | None = None
) -> GradientAttack:
    """The recipe of the paper: a random start, cross-entropy, steps of radius / √steps; `share` or `step` overrule."""
    if steps < 1 or (share is not None and not share > 0):
        raise Misuse(f"steps and share are more than zero, got {steps} and {share}")
    how = step or Steepest(1 / math.sqrt(steps) if share is None else share)
    return GradientAttack(threat, cross_entropy, how, steps, restarts, radius=radius)


def need_grey_or_colour(images: Tensor, what: str) -> None:
    if images.shape[1] not in (GREY, COLOUR):
        raise HoldfastError(f"{what} needs grey or colour images, these have {images.shape[1]} channels")


def constant(values: Table, like: Tensor) -> Tensor:
    """A small table where `like` lies. It is brought there once: a copy to a GPU stops the queue."""
    return _constant(values, like.dtype, like.device)


@functools.lru_cache(maxsize=32)
def _constant(values: Table, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
