"""Changes of a whole image by a few numbers, such as its hue or its tilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threat import Props, Scene
from holdfast.attacks.threats.latent import Latent
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register

DAI = "Dai et al. 2023 (MultiRobustBench), arXiv:2302.10980"
COLOURS = 3

DOC = """{summary}

Projected gradient ascent with sign steps of 2 · radius / (steps - 2) on the cross-entropy, from a random start. {units}
Differs from the published code: {start}a sample stops at its first success, and the best point is kept, not the last.
With `published` every sample takes every step, and the last point is scored.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeImage(Latent):
    """Numbers that each may move by the radius, and a renderer: images and one row of numbers per sample → images.

    Zero changes nothing. `grows`: the numbers may not be negative; `starts_above`: at the start. `colour`: the renderer
    needs red, green and blue.
    """

    is_low_dimensional: ClassVar[bool] = True
    name: str
    numbers: int
    renderer: Callable[[Tensor, Tensor], Tensor]
    grows: bool = False
    starts_above: bool = False
    colour: bool = False

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        if self.colour:
            needs_colour(images, self.name)
        return {}

    def shape(self, images: Tensor) -> tuple[int, ...]:  # noqa: ARG002
        return (self.numbers,)

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        spread = self.ball.spread((self.numbers,), scene.radius, noise, draw, border=border)
        return self.project(scene, spread.abs() if self.grows or self.starts_above else spread)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        far = variable.new_full((), torch.inf)
        return self.ball.nearest(variable, scene.radius, torch.zeros_like(far) if self.grows else -far, far)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        return self.renderer(scene.images, variable)


def register_whole_image(name: str, threat: WholeImage, default: float, *, summary: str, units: str) -> None:
    """Registers the attack that changes these numbers, with a radius from the middle of the published grid.

    A threat that starts above zero does so as published alone.
    """

    def whole_image(
        *, radius: float = default, steps: int = 20, restarts: int = 1, published: bool = False
    ) -> GradientAttack:
        how, step = replace(threat, starts_above=published and threat.starts_above), Steepest(2.0 / max(steps - 2, 1))
        return GradientAttack(
            *(how, cross_entropy, step, steps, restarts),
            keep="last" if published else "strongest",
            stop_when_broken=not published,
            radius=radius,
        )

    start = "the random start lies on both sides of the identity, not on one; " if threat.starts_above else ""
    whole_image.__doc__ = DOC.format(summary=summary, units=units, start=start)
    tags = ("white box", threat.name, "colour") if threat.colour else ("white box", threat.name)
    register("attack", name, source=DAI, tags=tags, later=("published",))(whole_image)


def needs_colour(images: Tensor, what: str) -> None:
    """Refuses images without red, green and blue."""
    if images.shape[1] != COLOURS:
        raise Misuse(
            f"`{what}` changes colours, and images with {images.shape[1]} channels have none",
            hint="choose an attack without the tag `colour`, or images in red, green and blue",
        )
