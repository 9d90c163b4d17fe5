"""Numbers per sample, and numbers of samples."""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-12


def wide(per_sample: Tensor, like: Tensor) -> Tensor:
    """One number per sample, shaped to combine with a tensor of samples."""
    return per_sample.view(-1, *[1] * (like.dim() - 1))


def length(samples: Tensor) -> Tensor:
    """Euclidean length of each sample."""
    return samples.flatten(1).square().sum(dim=1).sqrt()


def largest(samples: Tensor) -> Tensor:
    """The largest entry of each sample by size, NaN where there is one."""
    if not samples.is_cuda:
        return samples.flatten(1).abs().amax(dim=1)  # a CPU takes the norm entry by entry, in fifteen times as long
    size: Tensor = torch.linalg.vector_norm(
        samples, ord=torch.inf, dim=tuple(range(1, samples.dim()))
    )  # in one reading
    return size


def parts_of(rows: Tensor, width: int) -> list[Tensor]:
    """Indices in parts of at most so many; none where there are none, so that no model meets an empty batch."""
    return [rows[i : i + width] for i in range(0, len(rows), width)]


def may_stop_early(condition: Tensor) -> bool:
    """Whether an iteration may end early. On a GPU it may not: asking would stop the queue to wait for the answer."""
    return not condition.is_cuda and bool(condition.all())


def mean_tensor(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).mean(dim=0)
