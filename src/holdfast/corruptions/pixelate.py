"""Pixelation."""

from __future__ import annotations

from torch import Tensor

from holdfast.corruptions.axes import box, nearest
from holdfast.corruptions.ladder import LEVELS, Renderer, corruption


@corruption(
    "pixelate",
    category="digital",
    cifar=(0.95, 0.9, 0.85, 0.75, 0.65),
    imagenet=(0.6, 0.5, 0.4, 0.3, 0.25),
    version=2,
)
class Pixelate(Renderer):
    """Shrinks by the mean over boxes and enlarges again without smoothing, as an upsampled thumbnail looks.

    As in Pillow the rows are rounded to 8 bits before the columns.
    """

    def apply(self, images: Tensor, drawn: float) -> Tensor:
        (height, width), device = images.shape[2:], str(images.device)
        high, wide = max(1, int(height * drawn)), max(1, int(width * drawn))
        small = _half_up(images @ box(width, wide, device).T)
        small = _half_up(box(height, high, device) @ small)
        return small[:, :, nearest(high, height, device)][:, :, :, nearest(wide, width, device)]


def _half_up(images: Tensor) -> Tensor:
    """Images in 8 bits; boxes of two pixels often have a mean just between two shades, which Pillow rounds up."""
    return (images * LEVELS + 0.5 + 1e-4).floor() / LEVELS
