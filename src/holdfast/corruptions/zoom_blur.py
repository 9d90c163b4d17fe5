"""Zoom blur."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.ladder import Renderer, corruption


@corruption(
    "zoom-blur",
    category="blur",
    cifar=((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
    imagenet=((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
)
class ZoomBlur(Renderer):
    """The mean of the image and of closer and closer views of its centre, as when moving towards the scene.

    A level is how many views and how far apart; the first is the image once more. The published lists end one view
    later than written at severities 1 (ImageNet) and 1 and 2 (CIFAR), by rounding, and so do these.
    """

    def apply(self, images: Tensor, drawn: tuple[int, float]) -> Tensor:
        count, step = drawn
        if images.device.type == "cpu":
            images = images.contiguous(memory_format=torch.channels_last)  # resizes twice as fast
        total = 2 * images
        apart = (1 + step) - 1  # the rounding of the published list decides a size here and there
        for view in range(1, count):
            total += zoomed(images, 1 + view * apart)
        return (total / (count + 1)).contiguous()


def zoomed(images: Tensor, factor: float) -> Tensor:
    """The centre, enlarged (bilinear, corner on corner) and trimmed to the size of the image."""
    height, width = images.shape[2:]
    high, wide = math.ceil(height / factor), math.ceil(width / factor)
    top, left = (height - high) // 2, (width - wide) // 2
    middle = images[:, :, top : top + high, left : left + wide]
    return trimmed(enlarged(middle, factor), height, width)


def enlarged(images: Tensor, factor: float) -> Tensor:
    size = [round(side * factor) for side in images.shape[2:]]
    return F.interpolate(images, size=size, mode="bilinear", align_corners=True)


def trimmed(images: Tensor, height: int, width: int) -> Tensor:
    """The middle `height` x `width`."""
    top, left = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
    return images[:, :, top : top + height, left : left + width]
