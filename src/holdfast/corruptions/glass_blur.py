"""Glass blur."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.ladder import corruption, quantised


class Shuffle(NamedTuple):
    """Blur, reach, and for each round (n, rounds, places) which neighbour every place takes its colour from."""

    sigma: float
    reach: int
    choices: Tensor


@corruption(
    "glass-blur",
    category="blur",
    cifar=((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    imagenet=((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
)
class GlassBlur:
    """Blurs, lets every pixel take the colour of a random neighbour, and blurs again, as frosted glass does.

    The pixels take their turns from the bottom right to the top left, so that a colour may travel on. As published
    (there, what is written as a swap of two pixels of a colour image copies one over the other, and so it is here,
    also for grey images). The turns are the same, only that those too far apart to meet are taken at once.
    """

    at_once = 1 << 23

    def draw(self, images: Tensor, level: tuple[float, int, int], noise: Noise) -> Shuffle:
        sigma, reach, rounds = level
        pixels = sum(len(step) for step in turns(*images.shape[2:], reach, "cpu"))
        choices = noise.integers("neighbours", (rounds, pixels), low=0, high=(2 * reach) ** 2)
        return Shuffle(sigma, reach, choices)

    def apply(self, images: Tensor, drawn: Shuffle) -> Tensor:
        soft = quantised(blurred(images, drawn.sigma), "truncate")
        height, width = images.shape[2:]
        around = torch.arange(-drawn.reach, drawn.reach, device=images.device)
        beside = (around[:, None] * width + around).flatten()
        offsets = beside.index_select(0, drawn.choices.flatten()).view_as(drawn.choices)
        sources = torch.arange(height * width, device=images.device).repeat(len(images), 1)
        steps = turns(height, width, drawn.reach, str(images.device))
        lengths = [len(step) for step in steps]
        for taken in offsets.unbind(dim=1):
            for pixels, apart in zip(steps, torch.split(taken, lengths, dim=1), strict=True):
                sources.index_copy_(1, pixels, sources.gather(1, pixels + apart))
        shuffled = soft.flatten(2).gather(2, sources[:, None].expand(-1, images.shape[1], -1)).view_as(images)
        return blurred(shuffled, drawn.sigma)


@functools.lru_cache(maxsize=16)
def turns(height: int, width: int, reach: int, device: str) -> tuple[Tensor, ...]:
    """Which places take their turn together: a front that leans, so that no place reads what another then writes.

    Row by row from the bottom and from right to left, a row starts when the one below is `reach` + 1 places ahead.
    """
    rows, columns = range(height - reach, reach, -1), range(width - reach, reach, -1)
    fronts: dict[int, list[int]] = {}
    for down, row in enumerate(rows):
        for left, column in enumerate(columns):
            fronts.setdefault(down * (reach + 1) + left, []).append(row * width + column)
    return tuple(torch.tensor(fronts[time], device=device) for time in sorted(fronts))
