"""Frost."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.colour import COLOUR, luma
from holdfast.corruptions.ladder import LEVELS, corruption
from holdfast.corruptions.photographs import frosts, photographs_digest

SMALL = 64  # pixels: for images up to this side the photographs are shrunk first, to a fifth
ROOM = 1.1  # how much larger than the image a photograph is made that is not


class Rime(NamedTuple):
    """A cut-out of a photograph of frost for each sample, and the weights of image and frost."""

    frost: Tensor
    image_weight: float
    frost_weight: float


@corruption(
    "frost",
    category="weather",
    cifar=((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    imagenet=((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
)
class Frost:
    """Looks through a frosted pane: the weighted sum of the image and of a random cut-out of a photograph of frost.

    The photographs are those of `imagecorruptions` where it is installed, five of its six as published; else frost is
    drawn. The run says which.
    """

    @property
    def facts(self) -> dict[str, str]:
        return {"frost": frosts("cpu").words}

    @property
    def source_in_key(self) -> str:
        """Names the photographs, by their content; nothing where frost is drawn."""
        return photographs_digest()

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Rime:
        height, width = images.shape[2:]
        photographs = [_fitting(picture, height, width) for picture in frosts(str(images.device)).pictures]
        which = noise.integers("photograph", (), low=0, high=len(photographs)).tolist()
        corners = noise.uniform("place", (2,)).tolist()
        cuts = []
        for i, (down, across) in zip(which, corners, strict=True):
            picture = photographs[i]
            top, left = int(down * (picture.shape[1] - height)), int(across * (picture.shape[2] - width))
            cuts.append(picture[:, top : top + height, left : left + width])
        frost = torch.stack(cuts).to(images.dtype) / LEVELS
        return Rime(frost if images.shape[1] == COLOUR else luma(frost), *level)

    def apply(self, images: Tensor, drawn: Rime) -> Tensor:
        return drawn.image_weight * images + drawn.frost_weight * drawn.frost


def _fitting(picture: Tensor, height: int, width: int) -> Tensor:
    """The photograph, larger than the image."""
    if max(height, width) <= SMALL:
        picture = picture[:, 2::5, 2::5]
    if picture.shape[1] > height and picture.shape[2] > width:
        return picture
    scale = ROOM * max(height / picture.shape[1], width / picture.shape[2])
    larger = F.interpolate(picture[None].float(), scale_factor=scale, mode="bicubic", align_corners=False)
    return larger[0].round().clamp(0, LEVELS).to(torch.uint8)
