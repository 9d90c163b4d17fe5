"""JPEG: changes to the coefficients that a JPEG file would store, in units of its quantisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.uar import (
    COLOUR,
    KANG,
    LEVELS,
    FarFirstPass,
    constant,
    need_grey_or_colour,
    share_of,
    unforeseen,
)
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State, Steepest, Step
from holdfast.attacks.threat import Props, Scene
from holdfast.attacks.threats.balls import L1, L2, Linf, farthest_in_l1
from holdfast.attacks.threats.latent import Latent
from holdfast.core.noise import Noise
from holdfast.core.registry import register

BLOCK = 8
CAP = 2.0  # the most a coefficient may move for l1 and l2
# quantisation at quality 50 (ITU-T T.81, tables K.1 and K.2), one row per vertical frequency
LUMA = (
    *((16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55)),
    *((14, 13, 16, 24, 40, 57, 69, 56), (14, 17, 22, 29, 51, 87, 80, 62)),
    *((18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92)),
    *((49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99)),
)
CHROMA = (
    *((17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99)),
    *((24, 26, 56, 99, 99, 99, 99, 99), (47, 66, 99, 99, 99, 99, 99, 99)),
    *((99,) * 8 for _ in range(4)),
)
# JFIF: rows make luma, blueness and redness of red, green and blue, and back
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
TO_RGB = ((1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0))


class BlockLayout(NamedTuple):
    """How many blocks of coefficients cover an image: luma, and each of two chroma planes of half the size."""

    luma: tuple[int, int]
    chroma: tuple[int, int] | None

    @classmethod
    def of(cls, images: Tensor) -> BlockLayout:
        colour = images.shape[1] == COLOUR
        unit = 2 * BLOCK if colour else BLOCK
        down, across = (math.ceil(side / unit) for side in images.shape[2:])
        return cls((2 * down, 2 * across), (down, across)) if colour else cls((down, across), None)

    @property
    def luma_size(self) -> int:
        return math.prod(self.luma) * BLOCK**2

    @property
    def size(self) -> int:
        return self.luma_size + (2 * math.prod(self.chroma) * BLOCK**2 if self.chroma else 0)


@dataclass(frozen=True, slots=True)
class JpegThreat(Latent):
    """Half the variable is added to the coefficients of JPEG at quality 50, where 1 is a quantisation step.

    Nothing is rounded. Chroma has half the resolution; grey images have luma alone. An image whose sides are no
    multiples of 16 (grey: 8) is continued by its last rows and columns, which are cut off again. `published`: a random
    start is given times the radius, for `FarFirstPass`, and a projection goes onto the ball, then onto the box.
    """

    change_at_zero: ClassVar[str] = "colour images lose every other row and column of their chroma (4:2:0)"
    published: bool = False

    @property
    def name(self) -> str:
        return f"jpeg-{self.ball.name}"

    def shape(self, images: Tensor) -> tuple[int, ...]:
        return (BlockLayout.of(images).size,)

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        need_grey_or_colour(images, "JPEG")
        return {}

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        spread = self.ball.spread(self.shape(scene.images), scene.radius, noise, draw, border=border)
        return spread * wide(scene.radius, spread) if self.published else self.project(scene, spread)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        cap = variable.new_full((), self.cap)
        if self.published:
            far = variable.new_full((), torch.inf)
            return self.ball.nearest(variable, scene.radius, -far, far).clamp(-cap, cap)
        return self.ball.nearest(variable, scene.radius, -cap, cap)

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        images, layout = scene.images, BlockLayout.of(scene.images)
        height, width = images.shape[2:]
        change = variable / (2 * LEVELS)
        luma = _pixels(change[:, : layout.luma_size].view(-1, 1, *layout.luma, BLOCK, BLOCK), LUMA)
        if layout.chroma is None:
            return (images + luma[:, :, :height, :width]).clamp(0.0, 1.0)
        chroma = _pixels(change[:, layout.luma_size :].view(-1, 2, *layout.chroma, BLOCK, BLOCK), CHROMA)
        down, right = luma.shape[2] - height, luma.shape[3] - width
        planes = _mixed(F.pad(images, (0, right, 0, down), mode="replicate"), TO_YCC)
        coarse = F.avg_pool2d(planes[:, 1:], 2) + chroma
        fine = coarse.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        changed = _mixed(torch.cat((planes[:, :1] + luma, fine), dim=1), TO_RGB)
        return changed[:, :, :height, :width].clamp(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class FrankWolfe(Step):
    """Towards corners of the l1 ball, so no step size: after t steps the variable is the mean of t corners.

    Each is the farthest point along the gradient where it was taken. The first step leaves the start behind (weight
    1 / t, as Kang et al. 2019 use it; Frank & Wolfe 1956). Where a gradient is zero every corner is as good, and the
    sample stays. A coefficient has room up to the cap from zero, or in the published code from where it stands.
    """

    def advance(self, point: Point, state: State) -> Tensor:  # noqa: ARG002
        threat, here, gradient = point.threat, point.variable, point.gradient
        assert isinstance(threat, JpegThreat), "corners are those of a ball cut by a cap"
        middle = here if threat.published else torch.zeros_like(here)
        corner = farthest_in_l1(gradient, point.scene.radius, -threat.cap - middle, threat.cap - middle)
        leads = gradient.flatten(1).abs().amax(dim=1) > 0
        return here.lerp(corner, wide(torch.where(leads, 1.0 / (point.taken + 1.0), 0.0), here))


def _pixels(coefficients: Tensor, table: tuple[tuple[int, ...], ...]) -> Tensor:
    """Quantised coefficients (n, planes, down, across, 8, 8) as planes of pixels: the inverse cosine transform."""
    frequency = torch.arange(BLOCK, device=coefficients.device, dtype=coefficients.dtype)
    waves = ((2 * frequency + 1) * frequency[:, None] * (math.pi / (2 * BLOCK))).cos() / 2
    waves = torch.cat((waves[:1] / math.sqrt(2), waves[1:]))  # a row per frequency, orthonormal
    blocks = waves.T @ (coefficients * constant(table, coefficients)) @ waves
    return blocks.transpose(3, 4).flatten(4).flatten(2, 3)


def _mixed(planes: Tensor, matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.einsum("oc,nchw->nohw", constant(matrix, planes), planes)


DOC = """{steps} on JPEG coefficients: {allowed}.

The unit is half a quantisation step at quality 50. {size}
{radii}; the paper takes 200 steps.
At radius 0 what is left of a colour image is that its chroma has half the resolution.
Differs from the published code: {differs}
images of any size are continued by their last rows and columns, and grey ones have luma alone;
a sample stops at its first success, and the best point is kept, not the last. `published` is as strong as the
published code: {published}.
"""
EVERY_STEP = "every step on every sample, the last point"
AS_PUBLISHED = f"its first pass, its projection, {EVERY_STEP}"
SHARE = "`share` of the radius per step; none means 1 / √steps."


def register_jpeg(threat: JpegThreat, default: float, *, steps: str, allowed: str, radii: str, differs: str) -> None:
    """Registers `jpeg-NORM` with steepest steps."""

    def jpeg(
        *,
        radius: float = default,
        steps: int = 20,
        share: float | None = None,
        restarts: int = 1,
        published: bool = False,
    ) -> GradientAttack:
        step = FarFirstPass(Steepest(share_of(steps, share))) if published else None
        how = replace(threat, published=published)
        return unforeseen(how, radius, steps, restarts, share=share, step=step, published=published)

    words = {"size": SHARE, "radii": radii, "differs": differs, "published": AS_PUBLISHED}
    jpeg.__doc__ = DOC.format(steps=steps, allowed=allowed, **words)
    register("attack", threat.name, source=KANG, tags=("white box", threat.name), later=("published",))(jpeg)


register_jpeg(
    JpegThreat(Linf()),
    0.1,
    steps="Sign steps",
    allowed="each may move by `radius`",
    radii="20 steps and radii of 0.01 to 0.2 as in MultiRobustBench",
    differs="the first pass looks at the start itself, not at its multiple by the radius;",
)
register_jpeg(
    JpegThreat(L2(), CAP),
    2.0,
    steps="Normalised steps",
    allowed="all together may move by `radius` in Euclidean length, each by 2",
    radii="20 steps as in MultiRobustBench, which has no radii for it; those of the paper for CIFAR-10 are 0.25 to 8",
    differs="the first pass looks at the start itself, not at its multiple by the radius, and the projection is onto "
    "ball ∩ box exactly;",
)


def jpeg_l1(*, radius: float = 10.0, steps: int = 20, restarts: int = 1, published: bool = False) -> GradientAttack:
    step = FarFirstPass(FrankWolfe()) if published else FrankWolfe()
    threat = JpegThreat(L1(), CAP, published=published)
    return unforeseen(threat, radius, steps, restarts, step=step, published=published)


jpeg_l1.__doc__ = DOC.format(
    steps="Frank-Wolfe steps",
    allowed="their moves may add up to `radius`, each may move by 2",
    size="There is no step size.",
    radii="20 steps and radii of 1 to 20 as in MultiRobustBench",
    differs="corners are those of the set (there a coefficient's room is measured from where it stands), the first "
    "pass looks at the start itself, not at its multiple by the radius;",
    published=f"its corners, its first pass, {EVERY_STEP}",
)
register("attack", "jpeg-l1", source=KANG, tags=("white box", "jpeg-l1"), later=("published",))(jpeg_l1)
