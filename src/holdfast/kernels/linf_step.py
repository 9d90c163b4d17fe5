"""A step of APGD in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


def linf_step(
    images: Tensor,
    radius: Tensor,
    here: Tensor,
    gradient: Tensor,
    best: Tensor,
    best_gradient: Tensor,
    before: Tensor,
    better: Tensor,
    stalled: Tensor,
    length: Tensor,
    carried: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where a step of APGD in the maximum norm leads, where it began, and the gradient at the best point.

    Images and what is like them have one order of memory, without gaps; the others hold one number per sample.
    """
    moved, begun, kept = (torch.empty_like(here) for _ in range(3))
    if not here.numel():
        return moved, begun, kept
    count = here[0].numel()
    _linf_step[(len(here) * triton.cdiv(count, BLOCK),)](
        *(images, radius, here, gradient, best, best_gradient, before),
        *(better.view(torch.uint8), stalled.view(torch.uint8), length, carried, moved, begun, kept, count),
        block=BLOCK,
    )
    return moved, begun, kept


@triton.jit  # type: ignore[untyped-decorator]
def _linf_step(  # type: ignore[no-untyped-def]
    images,
    radius,
    here,
    gradient,
    best,
    best_gradient,
    before,
    better,
    stalled,
    length,
    carried,
    moved,
    begun,
    kept,
    count,
    block: tl.constexpr,
):
    blocks = tl.cdiv(count, block)
    sample = (tl.program_id(0) // blocks).to(tl.int64)
    entries = (tl.program_id(0) % blocks) * block + tl.arange(0, block)
    inside = entries < count
    at = sample * count + entries

    is_better, is_stalled = tl.load(better + sample) != 0, tl.load(stalled + sample) != 0
    reach, step, share = tl.load(radius + sample), tl.load(length + sample), tl.load(carried + sample)
    new = tl.load(gradient + at, mask=inside)
    steepest = tl.where(is_better, new, tl.load(best_gradient + at, mask=inside))
    tl.store(kept + at, steepest, mask=inside)

    origin = tl.where(is_stalled, tl.load(best + at, mask=inside), tl.load(here + at, mask=inside))
    way = tl.where(is_stalled, steepest, new)
    sign = tl.where(way > 0, 1.0, 0.0) - tl.where(way < 0, 1.0, 0.0)
    pixel = tl.load(images + at, mask=inside)
    low, high = -pixel, 1.0 - pixel
    ahead = tl.minimum(tl.maximum(origin + step * sign, -reach), reach)
    ahead = tl.minimum(tl.maximum(ahead, low), high)
    drift = share * (origin - tl.load(before + at, mask=inside))
    far = (ahead - (ahead - origin) * share) + drift
    far = tl.minimum(tl.maximum(far, -reach), reach)
    tl.store(moved + at, tl.minimum(tl.maximum(far, low), high), mask=inside)
    tl.store(begun + at, origin, mask=inside)
