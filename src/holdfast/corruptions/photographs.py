"""Photographs of frost: those that come with `imagecorruptions`, or drawn ones."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import LEVELS
from holdfast.corruptions.plasma import plasma, stretched

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
