"""Numbers per sample, ready to be combined with images."""

from __future__ import annotations

from torch import Tensor


def wide(per_sample: Tensor, like: Tensor) -> Tensor:
    """One number per sample, shaped to combine with a tensor of samples."""
    return per_sample.view(-1, *[1] * (like.dim() - 1))
