"""Motion blur."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import Level, corruption
from holdfast.corruptions.smear import smeared


class Motion(NamedTuple):
    """The direction of each sample, in radians, and the shape of the trail."""

    angle: Tensor
    radius: float
    sigma: float


@corruption(
    "motion-blur",
    category="blur",
    cifar=((6.0, 1.0), (6.0, 1.5), (6.0, 2.0), (8.0, 2.0), (9.0, 2.5)),
    imagenet=((10.0, 3.0), (15.0, 5.0), (15.0, 8.0), (15.0, 12.0), (20.0, 15.0)),
)
class MotionBlur:
    """Smears to one side, in a random direction within 45° of the rows, as a moving camera does."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Motion:  # noqa: ARG002
        assert isinstance(level, tuple)
        return Motion((noise.uniform("angle", ()) - 0.5) * (math.pi / 2), *level)

    def apply(self, images: Tensor, drawn: Motion) -> Tensor:
        return smeared(images, drawn.angle, radius=drawn.radius, sigma=drawn.sigma)
