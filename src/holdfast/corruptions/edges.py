"""Edges, distances to them and histograms, as OpenCV has them, for batches of 8-bit layers (n, 1, height, width)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.defocus_blur import mirrored

TAN_22 = 0.41421356  # of 22.5°: below it a gradient counts as horizontal, above 1 / it as vertical
STEPS = (
    *((0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.4), (1, -1, 1.4)),
    *((1, 2, 2.1969), (2, 1, 2.1969), (1, -2, 2.1969), (2, -1, 2.1969)),
)
SHADES = 256


def edges(layers: Tensor, low: float, high: float) -> Tensor:
    """Where edges are (Canny, 3x3 Sobel, sum of absolute gradients): true on thin lines."""
    wide = F.pad(layers, (1,) * 4, mode="replicate")
    smooth, slope = layers.new_tensor([1.0, 2.0, 1.0]), layers.new_tensor([-1.0, 0.0, 1.0])
    across = F.conv2d(wide, torch.outer(smooth, slope)[None, None])
    down = F.conv2d(wide, torch.outer(slope, smooth)[None, None])
    strength = across.abs() + down.abs()
    around = F.pad(strength, (1,) * 4)
    height, width = layers.shape[2:]

    def beside(y: int, x: int) -> Tensor:
        return around[:, :, 1 + y : 1 + y + height, 1 + x : 1 + x + width]

    flat, steep = down.abs() < across.abs() * TAN_22, down.abs() * TAN_22 > across.abs()
    rising = across * down < 0
    level = (strength > beside(0, -1)) & (strength >= beside(0, 1))
    upright = (strength > beside(-1, 0)) & (strength >= beside(1, 0))
    up = (strength > beside(-1, 1)) & (strength > beside(1, -1))
    falling = (strength > beside(-1, -1)) & (strength > beside(1, 1))
    ridge = torch.where(flat, level, torch.where(steep, upright, torch.where(rising, up, falling)))
    weak = ridge & (strength > low)
    return _grown(weak & (strength > high), weak)


def _grown(strong: Tensor, weak: Tensor) -> Tensor:
    """The strong places and the weak ones connected to them."""
    while True:
        more = (F.max_pool2d(strong.float(), 3, stride=1, padding=1) > 0) & weak
        if bool((more == strong).all()):
            return strong
        strong = more


def distances(marks: Tensor, most: float) -> Tensor:
    """How far every pixel is from the nearest mark, up to `most`, in steps of 1, √2 and √5 as OpenCV rounds them."""
    distance = torch.where(marks, 0.0, most)
    for _ in range(int(most)):
        nearer = distance
        wide = F.pad(distance, (2,) * 4, value=most)
        for y, x, length in STEPS:
            for sign in (1, -1):
                window = wide[:, :, 2 + sign * y :, 2 + sign * x :][:, :, : marks.shape[2], : marks.shape[3]]
                nearer = torch.minimum(nearer, window + length)
        if bool((nearer == distance).all()):
            break
        distance = nearer
    return distance


def box_mean(layers: Tensor) -> Tensor:
    """The mean over 3x3 pixels, mirrored at the border."""
    return F.avg_pool2d(mirrored(layers, 1), 3, stride=1)


def equalised(layers: Tensor) -> Tensor:
    """Layers of whole numbers from 0 to 255 with their histogram made even."""
    shades = layers.flatten(1).long()
    counts = shades.new_zeros(len(shades), SHADES).scatter_add_(1, shades, torch.ones_like(shades))
    below = counts.cumsum(dim=1)
    least = counts.gather(1, (counts > 0).int().argmax(dim=1, keepdim=True))
    rest = shades.shape[1] - least
    even = ((below - least) * (255.0 / rest.clamp_min(1))).round().clamp(0, 255)
    even = torch.where(rest == 0, torch.arange(SHADES, device=layers.device).float(), even)
    return even.gather(1, shades).view_as(layers)
