"""Attacks that warp the whole image by a matrix: affine and perspective."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.threats.flow import pixel_centres, sampled
from holdfast.attacks.threats.whole_image import WholeImage, register_whole_image

FLAT = 1e-6  # what is nearer to the horizon than this is nowhere


def warped(images: Tensor, change: Tensor) -> Tensor:
    """Images moved by the matrix identity + change, in pixels from the centre of the first; outside lies black.

    The change is of the matrix's first entries, row by row: of six for an affine map, of eight for any perspective. A
    place p of the result shows the place M⁻¹p of the image. The adjugate serves as the inverse: both give the same
    place, since a common factor of homogeneous coordinates has no meaning.
    """
    change = F.pad(change, (0, 9 - change.shape[1])).view(-1, 3, 3)
    first, second, third = (change + torch.eye(3, dtype=change.dtype, device=change.device)).unbind(dim=1)
    columns = (torch.linalg.cross(second, third), torch.linalg.cross(third, first), torch.linalg.cross(first, second))
    back = torch.stack(columns, dim=2)[:, :, :, None, None]
    x, y = pixel_centres(images)
    across, down, depth = (back[:, :, 0] * x + back[:, :, 1] * y + back[:, :, 2]).unbind(dim=1)
    depth = torch.where(depth.abs() < FLAT, FLAT, depth)
    return sampled(images, torch.stack([across / depth, down / depth], dim=1))


PIXELS = "The matrix acts on pixels counted from the first, as in the source, which has 32 × 32 of them."

register_whole_image(
    "affine",
    WholeImage(name="affine", numbers=6, renderer=warped, starts_above=True),
    0.05,
    summary="Warps the image by an affine map whose six numbers may each move by `radius`.",
    units=PIXELS,
)
register_whole_image(
    "perspective",
    WholeImage(name="perspective", numbers=8, renderer=warped, starts_above=True),
    0.001,
    summary="Tilts the image by a perspective map whose eight numbers may each move by `radius`.",
    units=PIXELS,
)
