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
from holdfast.corruptions.jpeg_tensors import through_jpeg
from holdfast.corruptions.ladder import Renderer, corruption

LARGE = 48 * 48  # pixels: from here on a call of Pillow per image costs less than tensors on a CPU


@corruption("jpeg", category="digital", cifar=(80, 65, 58, 50, 40), imagenet=(25, 18, 15, 10, 7))
class Jpeg(Renderer):
    """Saves the image as JPEG of low quality and reads it back (Pillow's defaults, 4:2:0).

    On a GPU, and for small images, the same arithmetic runs on tensors, equal to the bit.
    """

    def apply(self, images: Tensor, drawn: int) -> Tensor:
        if images.shape[1] not in (1, 3):
            raise HoldfastError(f"JPEG needs 1 or 3 channels, got {images.shape[1]}")
        pixels = (images.detach() * 255.0).round().clamp(0, 255)
        large = pixels[0, 0].numel() > LARGE and images.device.type == "cpu"
        coded = _through_pillow(pixels, drawn) if large else through_jpeg(pixels, drawn)
        return coded.to(images.dtype) / 255.0


def _through_pillow(pixels: Tensor, quality: int) -> Tensor:
    """The same to the bit as `through_jpeg`, and faster for large images on a CPU."""
    stored = pixels.to(torch.uint8).permute(0, 2, 3, 1).numpy()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # Pillow lets go of the interpreter while it codes
        coded = np.stack(list(pool.map(lambda image: _round_trip(image, quality), stored)))
    return torch.from_numpy(coded).permute(0, 3, 1, 2)


def _round_trip(pixels: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer)).reshape(pixels.shape)
