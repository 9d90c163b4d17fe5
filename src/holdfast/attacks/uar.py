"""What the attacks of "Testing robustness against unforeseen adversaries" share."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.attacks.balls import Ball, Linf
from holdfast.attacks.budget import Budget
from holdfast.attacks.loop import Climb
from holdfast.attacks.objectives import cross_entropy
from holdfast.attacks.steps import Steepest, Step
from holdfast.attacks.threats import Props, Scene, Threat
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise

KANG = "Kang et al. 2019, arXiv:1908.08016"
LEVELS = 255.0  # radii published in grey levels are divided by this
GREY, COLOUR = 1, 3
Table = tuple[float, ...] | tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Latent:
    """A threat whose variable is not the image: it lies in a norm ball of its own, in the units of the radius.

    `cap` limits every entry, whatever the radius.
    """

    ball: Ball = field(default_factory=Linf)
    cap: float = math.inf

    def shape(self, images: Tensor) -> tuple[int, ...]:
        """The shape of one sample's variable."""
        raise NotImplementedError

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        return {}

    def identity(self, scene: Scene) -> Tensor:
        return scene.images.new_zeros(len(scene), *self.shape(scene.images))

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        spread = self.ball.spread(self.shape(scene.images), scene.radius, noise, draw, border=border)
        return self.project(scene, spread)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        cap = variable.new_full((), self.cap)
        return self.ball.nearest(variable, scene.radius, -cap, cap)

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG002
        return self.ball.steepest(gradient)

    def size(self, scene: Scene, variable: Tensor) -> Tensor:  # noqa: ARG002
        return self.ball.norm(variable)


@dataclass(frozen=True, slots=True)
class Headlong(Climb):
    """A climb that attacks images the model is wrong about, too: what a threat leaves at rest may set them right."""

    @property
    def looks_first(self) -> bool:
        return False


def unforeseen(
    threat: Threat, radius: float, steps: int, restarts: int, *, share: float | None = None, step: Step | None = None
) -> Budget:
    """The recipe of the paper: a random start, cross-entropy, steps of radius / √steps; `share` or `step` overrule."""
    if steps < 1 or (share is not None and not share > 0):
        raise Misuse(f"steps and share are more than zero, got {steps} and {share}")
    how = step or Steepest(1 / math.sqrt(steps) if share is None else share)
    climb = Headlong if getattr(threat, "residue", "") else Climb
    return Budget(climb(threat, cross_entropy, how, steps, restarts), radius)


def need_grey_or_colour(images: Tensor, what: str) -> None:
    if images.shape[1] not in (GREY, COLOUR):
        raise HoldfastError(f"{what} needs grey or colour images, these have {images.shape[1]} channels")


def constant(values: Table, like: Tensor) -> Tensor:
    """A small table where `like` lies. It is brought there once: a copy to a GPU stops the queue."""
    return _constant(values, like.dtype, like.device)


@functools.lru_cache(maxsize=32)
def _constant(values: Table, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
