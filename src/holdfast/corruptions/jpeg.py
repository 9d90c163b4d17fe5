"""JPEG compression."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.core.noise import Noise
from holdfast.corruptions.ladder import Level, corruption


@corruption("jpeg", category="digital", cifar=(80, 65, 58, 50, 40), imagenet=(25, 18, 15, 10, 7))
class Jpeg:
    """Saves the image as JPEG of low quality and reads it back (Pillow's defaults, 4:2:0)."""

    def draw(self, images: Tensor, level: Level, noise: Noise) -> Tensor:  # noqa: ARG002
        return images.new_full((len(images),), float(level))  # type: ignore[arg-type]

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        if images.shape[1] not in (1, 3):
            raise HoldfastError(f"JPEG needs 1 or 3 channels, got {images.shape[1]}")
        pixels = (images.detach() * 255.0).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        qualities = [int(quality) for quality in drawn]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # Pillow lets go of the interpreter while it codes
            coded = np.stack(list(pool.map(_round_trip, pixels, qualities)))
        return torch.from_numpy(coded).to(images.device).permute(0, 3, 1, 2).to(images.dtype) / 255.0


def _round_trip(pixels: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer)).reshape(pixels.shape)
