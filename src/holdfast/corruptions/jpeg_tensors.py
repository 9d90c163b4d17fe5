"""What a JPEG file keeps of images, on their own device, to the bit as libjpeg codes and decodes them.

Every step there is integer arithmetic: colours in 16-bit fractions, chroma halved with a bias that alternates, a cosine
transform in 13-bit fractions, division by the table with rounding away from zero, and the triangle filter back. All of
it fits float64 without rounding, which GPUs multiply fast; the entropy code loses nothing and is left out.
"""

from __future__ import annotations

import functools
import io

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

BLOCK = 8
# red, green, blue to luma, blueness, redness, in 1/65536
TO_YCC = ((19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329))
YCC_OFFSET = (1 << 15, (128 << 16) + (1 << 15) - 1, (128 << 16) + (1 << 15) - 1)
RED, BLUE, GREEN = 91881, 116130, (-22554, -46802)  # what redness, blueness and both add, in 1/65536
# half of every row of the cosine transform in 1/8192; the other half mirrors it, with a minus in odd rows
HALVES = (
    *((8192, 8192, 8192, 8192), (11363, 9633, 6437, 2260), (10703, 4433, -4433, -10703), (9633, -2259, -11362, -6436)),
    *(
        (8192, -8192, -8192, 8192),
        (6437, -11362, 2261, 9633),
        (4433, -10704, 10704, -4433),
        (2260, -6436, 9633, -11363),
    ),
)
WAVES = tuple((*half, *((-1) ** row * value for value in half[::-1])) for row, half in enumerate(HALVES))


def through_jpeg(pixels: Tensor, quality: int) -> Tensor:
    """Images of 8 bits (n, 1 or 3, height, width; values 0 to 255) saved with 4:2:0 and read back."""
    height, width = pixels.shape[2:]
    tables = _tables(quality, pixels.shape[1])
    if pixels.shape[1] == 1:
        return _plane(pixels.double(), tables[0])
    planes = _coloured(pixels.double())
    luma = _plane(planes[:, :1], tables[0])
    chroma = _plane(_halved(planes[:, 1:]), tables[1])[:, :, :, : -(-width // 2)]
    blue, red = (_doubled(chroma)[:, :, :height, :width] - 128).unbind(1)
    added = (
        _shifted(RED * red, 16),
        _shifted(GREEN[0] * blue + GREEN[1] * red, 16),
        _shifted(BLUE * blue, 16),
    )
    return (luma + torch.stack(added, dim=1)).clamp(0, 255)


def _coloured(pixels: Tensor) -> Tensor:
    mixed = torch.einsum("oc,nchw->nohw", pixels.new_tensor(TO_YCC), pixels)
    return ((mixed + pixels.new_tensor(YCC_OFFSET).view(-1, 1, 1)) / (1 << 16)).floor()


def _halved(planes: Tensor) -> Tensor:
    """Means of two by two pixels, whose halves go down and up in turns; whole blocks across, as libjpeg pads first."""
    height, width = planes.shape[2:]
    across = -(-width // (2 * BLOCK)) * 2 * BLOCK
    planes = F.pad(planes, (0, across - width, 0, height % 2), mode="replicate")
    bias = torch.arange(across // 2, device=planes.device) % 2 + 1
    return ((4 * F.avg_pool2d(planes, 2) + bias) / 4).floor()


def _doubled(planes: Tensor) -> Tensor:
    """Twice the size both ways: three parts of the nearer pixel, one of the farther; narrow ones are repeated."""
    if planes.shape[3] <= 2:
        return planes.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    around = F.pad(planes, (1, 1, 1, 1), mode="replicate")
    here, above, below = around[:, :, 1:-1], around[:, :, :-2], around[:, :, 2:]
    rows = torch.stack((3 * here + above, 3 * here + below), dim=3).flatten(2, 3)
    here, left, right = rows[..., 1:-1], rows[..., :-2], rows[..., 2:]
    return (torch.stack((3 * here + left + 8, 3 * here + right + 7), dim=4) / 16).floor().flatten(3)


def _plane(planes: Tensor, table: tuple[tuple[int, ...], ...]) -> Tensor:
    """Planes (n, planes, height, width) through transform and table, and back."""
    height, width = planes.shape[2:]
    planes = F.pad(planes, (0, -width % BLOCK, 0, -height % BLOCK), mode="replicate")
    down, across = (side // BLOCK for side in planes.shape[2:])
    blocks = planes.view(*planes.shape[:2], down, BLOCK, across, BLOCK).transpose(3, 4) - 128
    waves, steps = blocks.new_tensor(WAVES), blocks.new_tensor(table)
    scaled = _shifted(waves @ _shifted(blocks @ waves.T, 11), 15)  # eight times the coefficients
    kept = ((scaled.abs() + 4 * steps) / (8 * steps)).floor() * scaled.sign() * steps
    back = _shifted(_shifted(waves.T @ kept, 11) @ waves, 18) + 128
    return back.clamp(0, 255).transpose(3, 4).flatten(4).flatten(2, 3)[:, :, :height, :width]


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Values / 2^bits, rounded, halves up."""
    return ((values + (1 << bits - 1)) / (1 << bits)).floor()


@functools.lru_cache(maxsize=256)
def _tables(quality: int, channels: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Steps of quantisation by row and column of frequencies, luma and chroma, as the installed library writes them."""
    buffer = io.BytesIO()
    Image.new("L" if channels == 1 else "RGB", (BLOCK, BLOCK)).save(buffer, "JPEG", quality=quality)
    scaled = Image.open(buffer).quantization  # type: ignore[attr-defined]
    return tuple(
        tuple(tuple(table[row * BLOCK : (row + 1) * BLOCK]) for row in range(BLOCK))
        for _, table in sorted(scaled.items())
    )
