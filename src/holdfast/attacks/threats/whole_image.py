"""Changes of a whole image by a few numbers, such as its hue or its tilt; operations on colours are kornia's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import cross_entropy
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.steps import Steepest
from holdfast.attacks.threat import Props, Scene
from holdfast.attacks.threats.flow import pixel_centres, sampled
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


def turned(images: Tensor, angle: Tensor) -> Tensor:
    """Images with their hue turned by an angle in radians; a full turn is 2π."""
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    sixths = hue(images, value, chroma) + wide(angle * (3.0 / math.pi), images)
    # how far each channel lies below the value: red, green and blue see the same wheel from three sides
    sides = torch.arange(5, 0, -2, dtype=images.dtype, device=images.device)[:, None, None]
    side = (sixths + sides).remainder(6.0)
    return value - chroma * torch.minimum(side, 4.0 - side).clamp(0.0, 1.0)


def hue(images: Tensor, value: Tensor, chroma: Tensor) -> Tensor:
    """The place on the wheel of colours in sixths of a turn, red at 0; any place where there is no colour."""
    red, green, blue = images[:, :1], images[:, 1:2], images[:, 2:]
    least = chroma.clamp_min(TINY)
    near_blue = (red - green) / least + 4.0
    near_green = torch.where(green == value, (blue - red) / least + 2.0, near_blue)
    return torch.where(red == value, (green - blue) / least, near_green)


def saturated(images: Tensor, change: Tensor) -> Tensor:
    """Images with their saturation times 1 + change, at most full; hue and value stay.

    At fixed hue and value, what a channel lacks to the value is proportional to the saturation: no way through HSV.
    """
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    full = value / chroma.clamp_min(TINY)
    return value - (value - images) * (1.0 + wide(change, images)).clamp_min(0.0).minimum(full)


def brightened(images: Tensor, change: Tensor) -> Tensor:
    """Images with the same added to every channel."""
    return (images + wide(change, images)).clamp(0.0, 1.0)


def contrasted(images: Tensor, change: Tensor) -> Tensor:
    """Images times 1 + change: distances from black grow, not those from the mean."""
    return (images * (1.0 + wide(change, images))).clamp(0.0, 1.0)


register_whole_image(
    "hue-attack",
    WholeImage(name="hue", numbers=1, renderer=turned, colour=True),
    0.25,
    summary="Turns the hue of the whole image by an angle of up to `radius`.",
    units="The radius is in radians: π reaches every hue.",
)
register_whole_image(
    "saturation-attack",
    WholeImage(name="saturation", numbers=1, renderer=saturated, colour=True),
    0.25,
    summary="Scales the saturation of the whole image by a factor in 1 ± `radius`.",
    units="Saturation is that of HSV and at most full.",
)
register_whole_image(
    "brightness-attack",
    WholeImage(name="brightness", numbers=1, renderer=brightened, grows=True),
    0.15,
    summary="Adds up to `radius` to every channel of the whole image.",
    units="Images only grow brighter, as in the source.",
)
register_whole_image(
    "contrast-attack",
    WholeImage(name="contrast", numbers=1, renderer=contrasted),
    0.25,
    summary="Scales the whole image by a factor in 1 ± `radius`.",
    units="The factor applies to distances from black, as in the source, not from the mean.",
)


FLAT = 1e-6  # what is nearer to the horizon than this is nowhere


def warped(images: Tensor, change: Tensor) -> Tensor:
    """Images moved by the matrix identity + change, in pixels from the centre of the first; outside lies black.

    The change is of the matrix's first entries, row by row: of six for an affine map, of eight for any perspective. A
    place p of the result shows the place M⁻¹p of the image. The adjugate serves as the inverse: both give the same
    place, since a common factor of homogeneous coordinates has no meaning.
    """
    change = F.pad(change, (0, 9 - change.shape[1])).view(-1, 3, 3)
    first, second, third = (change + torch.eye(3, dtype=change.dtype, device=change.device)).unbind(dim=1)
    columns = (torch.linalg.cross(second, third), torch.linalg.cross(third, first), torch.linalg.cross(first, second))
    back = torch.stack(columns, dim=2)[:, :, :, None, None]
    x, y = pixel_centres(images)
    across, down, depth = (back[:, :, 0] * x + back[:, :, 1] * y + back[:, :, 2]).unbind(dim=1)
    depth = torch.where(depth.abs() < FLAT, FLAT, depth)
    return sampled(images, torch.stack([across / depth, down / depth], dim=1))


PIXELS = "The matrix acts on pixels counted from the first, as in the source, which has 32 × 32 of them."

register_whole_image(
    "affine",
    WholeImage(name="affine", numbers=6, renderer=warped, starts_above=True),
    0.05,
    summary="Warps the image by an affine map whose six numbers may each move by `radius`.",
    units=PIXELS,
)
register_whole_image(
    "perspective",
    WholeImage(name="perspective", numbers=8, renderer=warped, starts_above=True),
    0.001,
    summary="Tilts the image by a perspective map whose eight numbers may each move by `radius`.",
    units=PIXELS,
)
