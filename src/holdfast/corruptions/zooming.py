"""Zooming into the centre of an image, at the same size."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor


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
