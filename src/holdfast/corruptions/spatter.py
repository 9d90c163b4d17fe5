"""Spatter."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.colour import tinted
from holdfast.corruptions.defocus_blur import mirrored
from holdfast.corruptions.ladder import LEVELS, corruption

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
EMBOSS = ((-2.0, -1.0, 0.0), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0))
FAR = 20.0  # pixels: beyond that from an edge, a drop is flat
SOLID = 0.8


class Drops(NamedTuple):
    """How much of each pixel is covered, (n, 1, height, width), and whether by mud rather than water."""

    cover: Tensor
    mud: bool


@corruption(
    "spatter",
    category="weather",
    cifar=(
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1.0, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    imagenet=(
        (0.65, 0.3, 4.0, 0.69, 0.6, 0),
        (0.65, 0.3, 3.0, 0.68, 0.6, 0),
        (0.65, 0.3, 2.0, 0.68, 0.5, 0),
        (0.65, 0.3, 1.0, 0.65, 1.5, 1),
        (0.67, 0.4, 1.0, 0.65, 1.5, 1),
    ),
    extra=True,
)
class Spatter:
    """Drops on the lens: water that shines at severities 1 to 3, mud that covers at 4 and 5."""

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Drops:
        mean, spread, sigma, threshold, strength, mud = level
        liquid = blurred(noise.normal("liquid", (1, *images.shape[2:])) * spread + mean, sigma)
        if mud:
            cover = blurred((liquid > threshold).float(), strength)
            return Drops(torch.where(cover < SOLID, 0.0, cover), mud=True)
        layer = (torch.where(liquid < threshold, 0.0, liquid) * LEVELS).floor().clamp(0, LEVELS)
        shine = layer * relief(layer)
        most = shine.amax(dim=(1, 2, 3), keepdim=True)
        return Drops(shine / torch.where(most == 0, 1.0, most) * strength, mud=False)

    def apply(self, images: Tensor, drawn: Drops) -> Tensor:
        cover, mud = drawn
        colour = tinted(cover, MUD if mud else WATER, images.shape[1])
        return images * (1 - cover) + colour if mud else images + colour


def relief(layer: Tensor) -> Tensor:
    """How drops catch the light: lit from one side, by the distance to their rims."""
    distance = distances(edges(layer, 50.0, 150.0), FAR)
    even = equalised(box_mean(distance).floor())
    lit = F.conv2d(mirrored(even, 1), layer.new_tensor(EMBOSS)[None, None]).clamp(0, LEVELS)
    return box_mean(lit).round()


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
