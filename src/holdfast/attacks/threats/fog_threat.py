"""Fog whose clouds are chosen to mislead."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.uar import KANG, LEVELS, StepsInRadii, share_of, unforeseen
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.latent import Latent
from holdfast.core.registry import register
from holdfast.corruptions.plasma import plasma, side_for, stretched
from holdfast.corruptions.zoom_blur import trimmed

MARGIN = 16  # pixels of the plasma on every side that are not used
DECAY = 2.0
ENDS = 0.9994  # of the highest clouds over the image: from here on they are among the highest of a batch of 100
SHARED = 25.0  # how often it takes its own gradient of that end: in a batch the few there take those of all samples


@dataclass(frozen=True, slots=True)
class FogThreat(Latent):
    """Clouds of the radius in grey levels over the image, and every channel scaled by one over (maximum + radius).

    The variable is the plasma's wibble. Only its shape counts: clouds are stretched to their full range. `published`:
    two of the four points of a mean lie a cell too far, and the range is the widest that clouds over the image can
    have, which is what a batch of samples comes to.
    """

    name: ClassVar[str] = "fog"
    change_at_zero: ClassVar[str] = "every channel is stretched so that its maximum is white"
    published: bool = False

    def shape(self, images: Tensor) -> tuple[int, ...]:
        side = side_for(max(images.shape[2:]) + 2 * MARGIN)
        return (side, side)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        images = scene.images
        clouds = trimmed(self._clouds(scene, variable)[:, None], *images.shape[2:])
        reach = wide(scene.radius / LEVELS, images)
        peak = images.amax(dim=(2, 3), keepdim=True)
        return (images + reach * clouds) / (peak + reach).clamp_min(TINY)

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        """As published the radius itself: clouds grow with it and not with the wibbles."""
        return scene.radius if self.published else self.ball.norm(variable)

    def _clouds(self, scene: Scene, variable: Tensor) -> Tensor:
        if not self.published:
            return stretched(plasma(variable, decay=DECAY))
        wibble = variable / wide(scene.radius, variable).clamp_min(TINY)
        field = plasma(wibble, decay=DECAY, away=2)
        height, width = scene.images.shape[2:]
        peak = _peak(variable.shape[-1], height, width)
        low, high = field.amin(dim=(1, 2), keepdim=True), field.amax(dim=(1, 2), keepdim=True)
        low, high = -_end(-low, peak), _end(high, peak)
        return (field - low) / (high - low)


def _end(highest: Tensor, peak: float) -> Tensor:
    """The end of the range. In a published batch its gradient, the sum of all samples', goes to those that reach it."""
    shares = highest.detach() >= ENDS * peak
    return highest.detach().clamp_min(peak) + torch.where(shares, SHARED * (highest - highest.detach()), 0.0)


@functools.cache
def _peak(side: int, height: int, width: int) -> float:
    """The highest that published wibbles make a cloud over the image: with every wibble at its end."""
    clouds = plasma(torch.ones(1, side, side), decay=DECAY, away=2)
    return float(trimmed(clouds[:, None], height, width).amax())


@register("attack", "fog-attack", version=2, source=KANG, tags=("white box", "fog"), later=("published",))
def fog_attack(
    *, radius: float = 25.0, steps: int = 20, share: float | None = None, restarts: int = 1, published: bool = False
) -> GradientAttack:
    """Sign steps on the wibbles of fractal fog of `radius` grey levels (of 255) over the image.

    `share` of the radius per step; none means 1 / √steps. 20 steps and radii of 2.5 to 50 as in MultiRobustBench; the
    paper takes 200 steps. At radius 0 what is left is that every channel is stretched to white.
    Differs from the published code: clouds are stretched per sample, not over the batch; a point's mean takes its true
    neighbours (there two of the four are a cell too far); steps are a share of the range of a wibble (there they have
    the size of the radius in grey levels, so that every wibble jumps to an end); a map is large enough for every image
    size; a sample stops at its first success, and the best point is kept, not the last. `published` does all of this as
    the published code does, but for the range of a batch, on which its strength depends: the range of all clouds that
    can lie over the image, whose gradient a sample at its ends takes, comes to that of batches of 100.
    """
    step = StepsInRadii(2 * share_of(steps, share)) if published else None
    threat = FogThreat(published=published)
    return unforeseen(threat, radius, steps, restarts, share=share, step=step, published=published)
