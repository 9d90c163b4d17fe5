"""Blurs: Gaussian, defocus, motion, zoom and glass."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.axes import blurred
from holdfast.corruptions.ladder import Renderer, corruption, quantised


@corruption(
    "gaussian-blur", category="blur", cifar=(0.4, 0.6, 0.7, 0.8, 1.0), imagenet=(1.0, 2.0, 3.0, 4.0, 6.0), extra=True
)
class GaussianBlur(Renderer):
    """Blurs by a Gaussian, cut off at four standard deviations."""

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        return blurred(images, drawn)


LEAST = 8  # pixels from the centre of the kernel to its edge
SMALL = 64  # pixels: up to here a direct sum is quicker than a Fourier transform


@corruption(
    "defocus-blur",
    category="blur",
    cifar=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
    imagenet=((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)),
)
class DefocusBlur:
    """Spreads every pixel over a disk, as a lens out of focus does."""

    def draw(self, images: Tensor, level: tuple[float, float], noise: Noise) -> Tensor:  # noqa: ARG002
        return disk(*level).to(images)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        reach = len(drawn) // 2
        wide = mirrored(images, reach)
        if max(images.shape[2:]) <= SMALL:
            channels = images.shape[1]
            return F.conv2d(wide, drawn.expand(channels, 1, *drawn.shape), groups=channels)
        size = wide.shape[2:]
        product = torch.fft.rfft2(wide) * torch.fft.rfft2(drawn.flip(0, 1), s=size)
        spread: Tensor = torch.fft.irfft2(product, s=size)
        return spread[:, :, 2 * reach :, 2 * reach :]


@functools.cache
def disk(radius: float, sigma: float) -> Tensor:
    """The disk as a kernel: at least 17 pixels wide, its edge softened by a small Gaussian, mirrored at the border."""
    reach = int(max(radius, LEAST))
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    inside = (offsets[:, None] ** 2 + offsets**2 <= radius**2).double()
    around = torch.arange(-2, 3, dtype=torch.float64) if radius > LEAST else torch.arange(-1, 2, dtype=torch.float64)
    soft = torch.exp(-(around**2) / (2 * sigma**2))
    soft = soft / soft.sum()
    wide = mirrored((inside / inside.sum())[None, None], len(around) // 2)
    return F.conv2d(F.conv2d(wide, soft.view(1, 1, -1, 1)), soft.view(1, 1, 1, -1))[0, 0].float()


def mirrored(images: Tensor, reach: int) -> Tensor:
    """Images with a border that mirrors them about their outermost pixels, again and again where they are small."""
    if reach < min(images.shape[2:]):
        return F.pad(images, (reach,) * 4, mode="reflect")
    for axis in (2, 3):
        period = max(1, 2 * images.shape[axis] - 2)
        sources = torch.arange(-reach, images.shape[axis] + reach, device=images.device).remainder(period)
        images = images.index_select(axis, torch.minimum(sources, period - sources))
    return images


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

    def draw(self, images: Tensor, level: tuple[float, float], noise: Noise) -> Motion:  # noqa: ARG002
        return Motion((noise.uniform("angle", ()) - 0.5) * (math.pi / 2), *level)

    def apply(self, images: Tensor, drawn: Motion) -> Tensor:
        return smeared(images, drawn.angle, radius=drawn.radius, sigma=drawn.sigma)


def smeared(images: Tensor, angle: Tensor, *, radius: float, sigma: float) -> Tensor:
    """Images (n, c, height, width) smeared to one side, each at its own angle in radians, 0 along the rows.

    A half Gaussian of `sigma`, at 2 · `radius` + 1 places one pixel apart, rounded to whole pixels; beyond the border
    lies the border's colour. What would come from farther than the image is long is left out and not made up for.
    """
    height, width = images.shape[2:]
    steps = torch.arange(int(radius) * 2 + 1, dtype=torch.float64)
    weights = torch.exp(-steps.square() / (2 * sigma**2))
    weights = weights / weights.sum()
    turn = angle.double().cpu()[:, None]
    down = -torch.ceil(steps * torch.sin(turn) - 0.5).long()
    across = -torch.ceil(steps * torch.cos(turn) - 0.5).long()
    inside = ((down.abs() < height) & (across.abs() < width)).cummin(dim=1).values
    weights = weights * inside
    return (_one_by_one if images.device.type == "cpu" else _together)(images, down, across, weights.float())


def _one_by_one(images: Tensor, down: Tensor, across: Tensor, weights: Tensor) -> Tensor:
    """Copies as windows on a wider image: quick where a call costs little."""
    height, width = images.shape[2:]
    margin = [int(edge) for edge in (across.amax(), -across.amin(), down.amax(), -down.amin())]
    left, right, top, bottom = (max(0, edge) for edge in margin)
    wide = F.pad(images, (left, right, top, bottom), mode="replicate")
    total = torch.zeros_like(images)
    for i, shifts in enumerate(zip(down.tolist(), across.tolist(), weights.tolist(), strict=True)):
        for y, x, weight in zip(*shifts, strict=True):
            if weight:
                window = wide[i, :, top - y : top - y + height, left - x : left - x + width]
                total[i].add_(window, alpha=weight)
    return total


def _together(images: Tensor, down: Tensor, across: Tensor, weights: Tensor) -> Tensor:
    """Each copy of all images at once: few calls, for a GPU."""
    height, width = images.shape[2:]
    down, across, weights = (part.to(images.device) for part in (down, across, weights))
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    samples = torch.arange(len(images), device=images.device)[:, None, None]
    total, source = torch.zeros_like(images), images.permute(0, 2, 3, 1)
    for step in range(down.shape[1]):
        y = (rows - down[:, step, None]).clamp(0, height - 1)
        x = (columns - across[:, step, None]).clamp(0, width - 1)
        window = source[samples, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)
        total += weights[:, step, None, None, None] * window
    return total


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
