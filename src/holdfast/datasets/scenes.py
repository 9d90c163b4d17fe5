"""Drawn landscapes in colour: something to look at where no photograph may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import digest
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard, Images
from holdfast.datasets.in_memory import numbered

VERSION = 1
CLASSES = ("house", "tree", "boat")
FINE = 2  # drawn at twice the size, then averaged: smooth edges
SKIES = (((96, 160, 224), (214, 232, 244)), ((70, 60, 120), (250, 170, 110)), ((120, 190, 210), (250, 240, 200)))

Colour = tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Scenes:
    """Images drawn when they are asked for."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    seed: int

    def images(self, index: Sequence[int]) -> Images:
        import torch

        positions = [int(position) for position in index]
        chances = Noise.of(self.seed, [self.ids[position] for position in positions]).uniform("scene", (32,)).numpy()
        pixels = np.zeros((len(positions), 3, *self.card.size), dtype=np.uint8)
        for row, (position, chance) in enumerate(zip(positions, chances, strict=True)):
            scene = _drawn(CLASSES[self.labels[position]], chance, self.card.size[0])
            pixels[row] = np.asarray(scene).transpose(2, 0, 1)
        return Images(torch.from_numpy(pixels), {})


@register("dataset", "scenes", version=VERSION, tags=("built", "colour"))
def scenes(*, n: int = 60, size: int = 224, seed: int = 0) -> Scenes:
    """Drawn landscapes with a house, a tree or a boat, in colour at any size: for trials and contact sheets."""
    if n < 1 or size < 8:
        raise Misuse(f"`scenes` needs n of at least 1 and size of at least 8, got n={n} and size={size}")
    card = DatasetCard("scenes", CLASSES, 3, (size, size), digest(["scenes", VERSION, n, size, seed]), licence="CC0")
    labels = np.arange(n, dtype=np.int64) % len(CLASSES)
    return Scenes(card, numbered(range(n), width=5, prefix="scene-"), labels, seed)


def _drawn(what: str, chance: NDArray[np.float32], size: int) -> Image.Image:
    side = size * FINE
    top, bottom = SKIES[int(chance[0] * len(SKIES))]
    blend = np.linspace(0, 1, side)[:, None, None]
    sky = np.broadcast_to((1 - blend) * np.array(top) + blend * np.array(bottom), (side, side, 3))
    image = Image.fromarray(sky.astype(np.uint8))
    pen = ImageDraw.Draw(image)
    sun_x, sun_y, sun = (0.1 + 0.8 * chance[1]) * side, (0.1 + 0.15 * chance[2]) * side, 0.06 * side
    pen.ellipse((sun_x - sun, sun_y - sun, sun_x + sun, sun_y + sun), fill=(255, 236, 150))
    for layer, colour in enumerate(((110, 134, 150), (86, 126, 96), (70, 130, 62))):
        phase, height = chance[3 + 2 * layer], 0.5 + 0.11 * layer
        x = np.linspace(0, 1, 64)
        hill = height + (0.07 - 0.02 * layer) * np.sin(2 * np.pi * (x * (1.2 + layer * 0.6) + phase))
        outline = [(float(a * side), float(b * side)) for a, b in zip(x, hill, strict=True)]
        pen.polygon([(0, side), *outline, (side, side)], fill=colour)
    THINGS[what](pen, side, 0.3 + 0.4 * float(chance[9]), chance)
    return image.resize((size, size), Image.Resampling.BOX)


def _house(pen: Any, side: int, x: float, chance: NDArray[np.float32]) -> None:
    wall: Colour = (200 + int(50 * chance[10]), 180, 140)
    _box(pen, side, x - 0.16, 0.56, x + 0.16, 0.82, wall)
    pen.polygon([(a * side, b * side) for a, b in ((x - 0.2, 0.57), (x, 0.4), (x + 0.2, 0.57))], fill=(160, 60, 48))
    _box(pen, side, x - 0.04, 0.68, x + 0.04, 0.82, (96, 60, 40))
    for left in (x - 0.13, x + 0.07):
        _box(pen, side, left, 0.62, left + 0.07, 0.69, (120, 180, 220))
    for row in range(6):  # courses of the wall
        y = 0.57 + 0.045 * row
        pen.line([((x - 0.16) * side, y * side), ((x + 0.16) * side, y * side)], fill=(150, 130, 100), width=FINE)


def _tree(pen: Any, side: int, x: float, chance: NDArray[np.float32]) -> None:
    _box(pen, side, x - 0.025, 0.58, x + 0.025, 0.86, (104, 72, 44))
    for blob in range(9):
        turn, reach = 2 * np.pi * chance[10 + blob], 0.11 * chance[20 + blob]
        a, b, r = x + 1.3 * reach * np.cos(turn), 0.46 + reach * np.sin(turn), 0.08
        green: Colour = (40 + int(50 * chance[10 + blob]), 110 + int(70 * chance[20 + blob]), 48)
        pen.ellipse([value * side for value in (a - r, b - r, a + r, b + r)], fill=green)


def _boat(pen: Any, side: int, x: float, chance: NDArray[np.float32]) -> None:
    _box(pen, side, 0, 0.72, 1, 1, (52, 112, 168))
    for wave in range(12):
        y, left = 0.75 + 0.02 * wave, float(chance[10 + wave]) - 0.1
        pen.line([(left * side, y * side), ((left + 0.2) * side, y * side)], fill=(150, 196, 226), width=FINE)
    hull = ((x - 0.2, 0.72), (x + 0.2, 0.72), (x + 0.13, 0.8), (x - 0.13, 0.8))
    pen.polygon([(a * side, b * side) for a, b in hull], fill=(150, 44, 40))
    _box(pen, side, x - 0.01, 0.38, x + 0.01, 0.72, (80, 60, 44))
    for reach, colour in ((-0.15, (250, 246, 236)), (0.11, (236, 200, 90))):
        sail = ((x + reach / 8, 0.4), (x + reach, 0.69), (x + reach / 8, 0.69))
        pen.polygon([(a * side, b * side) for a, b in sail], fill=colour)


THINGS = {"house": _house, "tree": _tree, "boat": _boat}


def _box(pen: Any, side: int, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
    pen.rectangle([value * side for value in (left, top, right, bottom)], fill=colour)
