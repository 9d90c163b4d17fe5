"""What the attacks of "Testing robustness against unforeseen adversaries" share."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.steps import Point, State, Steepest, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import HoldfastError, Misuse

KANG = "Kang et al. 2019, arXiv:1908.08016"
LEVELS = 255.0  # radii published in grey levels are divided by this
GREY, COLOUR = 1, 3
Table = tuple[float, ...] | tuple[tuple[float, ...], ...]


def unforeseen(
    threat: Threat,
    radius: float,
    steps: int,
    restarts: int,
    *,
    share: float | None = None,
    step: Step | None = None,
    published: bool = False,
) -> GradientAttack:
    """The recipe of the paper: a random start, cross-entropy, steps of radius / √steps; `share` or `step` overrule.

    As `published` every sample, also one that is wrong already, takes every step, and the last point is scored.
    """
    if steps < 1 or (share is not None and not share > 0):
        raise Misuse(f"steps and share are more than zero, got {steps} and {share}")
    how = step or Steepest(share_of(steps, share))
    return GradientAttack(
        *(threat, cross_entropy, how, steps, restarts),
        keep="last" if published else "strongest",
        stop_when_broken=not published,
        radius=radius,
    )


def share_of(steps: int, share: float | None) -> float:
    """What a step is of the radius: 1 / √steps unless said otherwise."""
    return 1 / math.sqrt(max(1, steps)) if share is None else share


@dataclass(frozen=True, slots=True)
class StepsInRadii(Step):
    """Sign steps of `share` · radius times the half range of the variable, which is the radius here.

    The published fog, snow and Gabor noise have variables of range 1 or 2 whatever the radius, and move them by a share
    of the radius in its own units: wibbles of fog jump from end to end, flakes hardly move.
    """

    share: float

    def advance(self, point: Point, state: State) -> Tensor:  # noqa: ARG002
        direction = point.ascent(point.variable, point.gradient)
        return point.project(point.variable + wide(self.share * point.scene.radius.square(), direction) * direction)


@dataclass(frozen=True, slots=True)
class FarFirstPass(Step):
    """Another step, whose first gradient is taken at the start times the radius, as in the published JPEG attacks.

    The variable that starts is that multiple; the first step goes from the start itself.
    """

    step: Step

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:
        return self.step.fresh(threat, scene, variable)

    def advance(self, point: Point, state: State) -> Tensor:
        here = point.variable
        start = here / wide(point.scene.radius.clamp_min(TINY), here)
        return self.step.advance(replace(point, variable=torch.where(wide(point.taken == 0, here), start, here)), state)


def need_grey_or_colour(images: Tensor, what: str) -> None:
    if images.shape[1] not in (GREY, COLOUR):
        raise HoldfastError(f"{what} needs grey or colour images, these have {images.shape[1]} channels")


def constant(values: Table, like: Tensor) -> Tensor:
    """A small table where `like` lies. It is brought there once: a copy to a GPU stops the queue."""
    return _constant(values, like.dtype, like.device)


@functools.cache  # kept for good: recorded steps know it by its place in memory
def _constant(values: Table, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
