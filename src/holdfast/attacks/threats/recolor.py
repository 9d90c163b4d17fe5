"""ReColor: one adversarial change of colours for the whole image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.adam import Smoothness, adam_on_margin
from holdfast.attacks.threat import Props, Scene
from holdfast.attacks.threats.latent import Latent
from holdfast.attacks.threats.whole_image import needs_colour
from holdfast.core.noise import Noise
from holdfast.core.registry import register

TABLE = (16, 32, 32)  # colours along L, u and v


@register(
    "attack",
    "recolor",
    source="Laidlaw & Feizi 2019, arXiv:1906.00001, as in perceptual-advex (Laidlaw et al. 2021, arXiv:2006.12655)",
    tags=("white box", "recolour", "colour"),
    later=("published",),
)
def recolor(
    *, radius: float = 0.06, steps: int = 20, rate: float | None = 0.001, published: bool = False
) -> GradientAttack:
    """Changes all colours by one smooth map of CIELUV that moves each by up to `radius`: Adam on the margin.

    The radius holds for L / 100, u / 200 and v / 200 alike. `steps` is 20 in perceptual-advex and MultiRobustBench, 100
    or 200 in OODRobustBench. `rate` is Adam's; none means radius / 18, as in MultiRobustBench: at the default, 20 steps
    reach no farther than 0.02. The objective is the margin less 0.0036 / radius times the roughness of the map; whether
    a sample is broken is decided by its class alone.
    Differs from the published code: colours outside the table (saturated reds and blues, in 8 % of CIFAR-10's images)
    move with their nearest neighbour inside and are not cut to the table's border, so that radius 0 changes nothing;
    valid colours are a matter of the image, which is cut to them, and not of the table, which there moves towards them
    before the first step; a sample stops at its first success and the best map is kept, not the last. `published` is as
    strong as the published code: every step on every sample, the last map.
    """
    return adam_on_margin(Recolour(), Smoothness(0.0036), radius, steps, rate, published=published)


@dataclass(frozen=True, slots=True)
class Recolour(Latent):
    """A table of how far colours move, 16 x 32 x 32 of them in CIELUV scaled to [0, 1]; between them, trilinear."""

    name: ClassVar[str] = "recolour"

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        """Where each pixel lies in the table, and what the way to CIELUV and back loses by rounding."""
        needs_colour(images, self.name)
        colours = to_luv(images)
        return {"colours": colours, "lost": images - to_rgb(colours)}

    def shape(self, images: Tensor) -> tuple[int, ...]:  # noqa: ARG002
        return (3, *TABLE)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        nodes = table_of(variable)
        return self.ball.nearest(variable, scene.radius, -nodes, 1.0 - nodes)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        colours = scene.props["colours"]
        at = (2.0 * colours - 1.0).flip(1).movedim(1, -1)[:, None]
        moves = F.grid_sample(variable, at, mode="bilinear", padding_mode="border", align_corners=True)[:, :, 0]
        return (to_rgb(colours + moves) + scene.props["lost"]).clamp(0.0, 1.0)


def table_of(like: Tensor) -> Tensor:
    """The colours of the table itself."""
    axes = [torch.linspace(0.0, 1.0, count, dtype=like.dtype, device=like.device) for count in TABLE]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"))


# sRGB to XYZ (IEC 61966-2-1, four digits) and back; CIELUV with white at u' = 0.1978, v' = 0.4683, Y = 1
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9504))
RGB = torch.tensor(XYZ, dtype=torch.float64).inverse().tolist()
WHITE_U, WHITE_V = 0.1978, 0.4683
DARK, SLOPE = (6 / 29) ** 3, (29 / 3) ** 3  # below this luminance, lightness is linear in it
LEAST_V = 0.01  # no visible colour has a smaller v'; what lies beyond is cut to valid colours anyway
BLACK = 1e-2  # 13 · L below which chromaticity has no meaning


def to_luv(images: Tensor) -> Tensor:
    """RGB in [0, 1] to (L / 100, u / 200 + 1/2, v / 200 + 1/2)."""
    light = torch.where(images < 0.04045, images / 12.92, ((images.clamp_min(0.04045) + 0.055) / 1.055) ** 2.4)
    x, y, z = mixed(XYZ, light)
    total = (x + 15.0 * y + 3.0 * z).clamp_min(1e-10)
    lightness = torch.where(y < DARK, SLOPE * y, 116.0 * y.clamp_min(DARK) ** (1 / 3) - 16.0)
    u = 13.0 * lightness * (4.0 * x / total - WHITE_U)
    v = 13.0 * lightness * (9.0 * y / total - WHITE_V)
    return torch.stack([lightness / 100.0, u / 200.0 + 0.5, v / 200.0 + 0.5], dim=1)


def to_rgb(colours: Tensor) -> Tensor:
    """The way back, cut to valid RGB channel by channel."""
    lightness, u, v = colours.unbind(dim=1)
    lightness, u, v = 100.0 * lightness, 200.0 * u - 100.0, 200.0 * v - 100.0
    scale = (13.0 * lightness).clamp_min(BLACK)
    u, v = u / scale + WHITE_U, (v / scale + WHITE_V).clamp_min(LEAST_V)
    y = torch.where(lightness <= 8.0, lightness / SLOPE, ((lightness + 16.0) / 116.0) ** 3)
    x, z = y * 9.0 * u / (4.0 * v), y * (12.0 - 3.0 * u - 20.0 * v) / (4.0 * v)
    light = torch.stack(mixed(RGB, torch.stack([x, y, z], dim=1).clamp(0.0, 1.1)), dim=1)
    steep = 1.055 * light.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(light <= 0.0031308, 12.92 * light, steep).clamp(0.0, 1.0)


def mixed(matrix: Sequence[Sequence[float]], channels: Tensor) -> list[Tensor]:
    """A matrix times every pixel, number by number: a matrix product might round to fewer digits on a GPU."""
    one, two, three = channels.unbind(dim=1)
    return [a * one + b * two + c * three for a, b, c in matrix]
