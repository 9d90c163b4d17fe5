"""Weather: fog, snow and frost, whose photographs come with `imagecorruptions`, or are drawn."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.blurs import enlarged, smeared, trimmed
from holdfast.corruptions.colour import COLOUR, luma
from holdfast.corruptions.ladder import LEVELS, corruption
from holdfast.corruptions.plasma import plasma, side_for, stretched


class Cloud(NamedTuple):
    """A cloud from 0 to 1 for each sample, (n, 1, height, width), and how thick it is."""

    cloud: Tensor
    strength: float


@corruption(
    "fog",
    category="weather",
    cifar=((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
    imagenet=((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
)
class Fog:
    """Adds a fractal cloud, then scales back to the brightest pixel of the image.

    From level to level of the fractal the wibbles count decay² times less: the published generator applies its
    shrinking factor twice.
    """

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Cloud:
        strength, decay = level
        height, width = images.shape[2:]
        side = side_for(max(height, width))
        wibble = noise.uniform("wibble", (side, side)) * 2 - 1
        cloud = stretched(plasma(wibble, decay=decay**2))
        return Cloud(cloud[:, None, :height, :width], strength)

    def apply(self, images: Tensor, drawn: Cloud) -> Tensor:
        brightest = images.amax(dim=(1, 2, 3), keepdim=True)
        return (images + drawn.strength * drawn.cloud) * (brightest / (brightest + drawn.strength))


class Flakes(NamedTuple):
    """A layer of falling snow for each sample, (n, 1, height, width), and how much of the image stays as it is."""

    layer: Tensor
    kept: float


@corruption(
    "snow",
    category="weather",
    cifar=(
        (0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95),
        (0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8),
    ),
    imagenet=(
        (0.1, 0.3, 3.0, 0.5, 10.0, 4.0, 0.8),
        (0.2, 0.3, 2.0, 0.5, 12.0, 4.0, 0.7),
        (0.55, 0.3, 4.0, 0.9, 12.0, 8.0, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12.0, 8.0, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12.0, 12.0, 0.55),
    ),
)
class Snow:
    """Flakes that fall to one side, the same again turned upside down, and colours that go pale behind them."""

    def draw(self, images: Tensor, level: tuple[float, ...], noise: Noise) -> Flakes:
        mean, spread, zoom, threshold, radius, sigma, kept = level
        height, width = images.shape[2:]
        high, wide = math.ceil(height / zoom), math.ceil(width / zoom)
        grains = noise.normal("flakes", (1, high, wide)) * spread + mean
        flakes = trimmed(enlarged(grains, zoom), height, width)
        flakes = torch.where(flakes < threshold, 0.0, flakes).clamp_max(1.0)
        angle = (noise.uniform("angle", ()) / 2 - 0.75) * math.pi
        layer = smeared(flakes, angle, radius=radius, sigma=sigma)
        return Flakes((layer * LEVELS).round() / LEVELS, kept)

    def apply(self, images: Tensor, drawn: Flakes) -> Tensor:
        layer, kept = drawn
        pale = torch.maximum(images, 1.5 * luma(images) + 0.5)
        return kept * images + (1 - kept) * pale + (layer + layer.flip(2, 3))


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


NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
SIDE = 512
WARMTH = (0.82, 0.94, 1.0)  # of drawn frost: bluish white


class Frosts(NamedTuple):
    """Pictures (3, height, width; uint8) and, in words, where they come from."""

    pictures: tuple[Tensor, ...]
    words: str


@functools.lru_cache(maxsize=4)
def frosts(device: str) -> Frosts:
    """The photographs of the installed package, else drawn ones."""
    folder = installed()
    if folder is None:
        return Frosts(tuple(picture.to(device) for picture in painted()), "drawn, since `imagecorruptions` is absent")
    pictures = []
    for name in NAMES:
        with Image.open(folder / name) as file:
            pictures.append(torch.from_numpy(np.array(file.convert("RGB"))).permute(2, 0, 1).contiguous().to(device))
    return Frosts(tuple(pictures), "photographs of `imagecorruptions`")


@functools.cache
def photographs_digest() -> str:
    """A digest of the photographs; nothing where there are none."""
    folder = installed()
    if folder is None:
        return ""
    content = b"".join((folder / name).read_bytes() for name in NAMES)
    return f"photographs {hashlib.sha256(content).hexdigest()[:12]}"


def installed() -> Path | None:
    """The folder with the photographs; the package itself is not imported, since it fails on current setuptools."""
    spec = importlib.util.find_spec("imagecorruptions")
    for location in spec.submodule_search_locations or () if spec else ():
        folder = Path(location) / "frost"
        if all((folder / name).is_file() for name in NAMES):
            return folder
    return None


def painted() -> list[Tensor]:
    """Five pictures of ridged clouds: thin bright needles where a fractal changes sign, over a dim pane."""
    noise = Noise.of(0, [f"frost {i}" for i in range(len(NAMES))])
    coarse = stretched(plasma(noise.uniform("coarse", (SIDE, SIDE)) * 2 - 1, decay=2.0))
    fine = stretched(plasma(noise.uniform("fine", (SIDE, SIDE)) * 2 - 1, decay=1.4))
    needles = (1 - (2 * fine - 1).abs()).clamp(0, 1) ** 3
    light = (0.15 + 0.5 * coarse + 0.6 * needles).clamp(0, 1)
    warmth = light.new_tensor(WARMTH).view(1, 3, 1, 1)
    return list((light[:, None] * warmth * LEVELS).round().to(torch.uint8))
