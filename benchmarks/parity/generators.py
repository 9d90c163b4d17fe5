"""The published generators of corruptions, imported from a checkout, with what has changed around them mended.

They were written for older versions of their libraries (`multichannel`, `np.float_`, `pkg_resources`) and one of them
for ImageMagick, which is not needed: its motion blur is taken from the other. Nothing of theirs is kept here.
"""

from __future__ import annotations

import io
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
from PIL import Image

NAMES = {
    "gaussian-noise": "gaussian_noise",
    "shot-noise": "shot_noise",
    "impulse-noise": "impulse_noise",
    "defocus-blur": "defocus_blur",
    "glass-blur": "glass_blur",
    "motion-blur": "motion_blur",
    "zoom-blur": "zoom_blur",
    "snow": "snow",
    "frost": "frost",
    "fog": "fog",
    "brightness": "brightness",
    "contrast": "contrast",
    "elastic-transform": "elastic_transform",
    "pixelate": "pixelate",
    "jpeg": "jpeg_compression",
    "speckle-noise": "speckle_noise",
    "gaussian-blur": "gaussian_blur",
    "spatter": "spatter",
    "saturate": "saturate",
}
RENAMED = {
    "multichannel=True": "channel_axis=-1",
    "scipy.ndimage.interpolation": "scipy.ndimage",
    "np.float_)": "np.float64)",
    "np.fromstring": "np.frombuffer",
}
Generator = Callable[[Any, int], Any]  # image, severity


def of_package(folder: Path) -> dict[str, Generator]:
    """Those of `imagecorruptions`, from the folder that holds the package's `corruptions.py`."""
    module = _module(folder / "corruptions.py", "imagecorruptions_peer", keep="")
    return {ours: getattr(module, theirs) for ours, theirs in NAMES.items()}


def of_scripts(file: Path, package: Path) -> dict[str, Generator]:
    """Those of `make_cifar_c.py` or `make_imagenet_c.py`; motion blur, also of snow, is the package's."""
    other = _module(package / "corruptions.py", "imagecorruptions_peer", keep="")
    module = _module(file, file.stem, keep="# /////////////// End Distortions ///////////////")
    module.MotionImage = _motion_of(other)
    found = {ours: getattr(module, theirs) for ours, theirs in NAMES.items()}
    return {name: _inside(generator, file.parent) for name, generator in found.items()}


def as_bytes(generator: Generator, pixels: Any, severity: int) -> Any:
    """One image (HWC, uint8) through a generator, and to 8 bits as published: by truncation."""
    return np.uint8(generator(Image.fromarray(pixels), severity))


def _inside(generator: Generator, folder: Path) -> Generator:
    """Frost is read from the current folder there."""

    def called(image: Any, severity: int) -> Any:
        before = Path.cwd()
        os.chdir(folder)
        try:
            return generator(image, severity)
        finally:
            os.chdir(before)

    return called


def _motion_of(other: Any) -> type:
    class MotionImage:
        """In place of ImageMagick's."""

        def __init__(self, blob: bytes) -> None:
            self.pixels = np.array(Image.open(io.BytesIO(blob)))

        def motion_blur(self, radius: float, sigma: float, angle: float) -> None:
            self.pixels = other._motion_blur(self.pixels, int(radius), sigma, angle)

        def make_blob(self) -> bytes:
            buffer = io.BytesIO()
            Image.fromarray(np.clip(np.round(self.pixels), 0, 255).astype(np.uint8)).save(buffer, "PNG")
            return buffer.getvalue()

    return MotionImage


def _module(path: Path, name: str, *, keep: str) -> Any:
    """The module at a path, up to a line where given, with old names of other libraries put back."""
    if not path.is_file():
        raise SystemExit(f"nothing to compare with: there is no {path}")
    torchvision = ("torchvision", "torchvision.transforms", "torchvision.datasets", "torchvision.models")
    for missing in (*torchvision, "wand", "wand.image", "wand.api", "wand.color"):
        sys.modules.setdefault(missing, MagicMock())
    sys.modules["wand.image"].Image = object
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, inside: str(path.parent / inside)  # type: ignore[attr-defined]
    sys.modules["pkg_resources"] = resources
    text = path.read_text()
    text = text.partition(keep)[0] if keep else text
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    text = re.sub(r"^import torch.*$|^from torch.*$", "", text, flags=re.MULTILINE)
    module = types.ModuleType(name)
    module.__dict__.update(__file__=str(path), torch=MagicMock(), trn=MagicMock(), dset=MagicMock(), data=MagicMock())
    text = re.sub(r"^class DistortImageFolder.*?(?=^# ///)", "", text, flags=re.MULTILINE | re.DOTALL)
    exec(compile(text, str(path), "exec"), module.__dict__)  # the user's own checkout
    return module
