"""Training on several devices at once, one process each, as torch's own launcher starts them (`torchrun`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.core.errors import Misuse


class Processes:
    """The processes that train one model together: each takes its part of every batch, and gradients are averaged."""

    def __init__(self, device: torch.device) -> None:
        self.count, self.rank = _number("WORLD_SIZE", 1), _number("RANK", 0)
        missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if self.count > 1 and missing:
            problem = f"WORLD_SIZE is {self.count}, and {missing[0]} is not set"
            raise Misuse(problem, hint="start several processes with torchrun, or unset WORLD_SIZE")
        self.device = device
        if self.count > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        self.is_first = self.rank == 0

    @property
    def reduce(self) -> Callable[[Sequence[Tensor]], None] | None:
        return None if self.count == 1 else self._average

    def _average(self, gradients: Sequence[Tensor]) -> None:
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        for gradient, part in zip(gradients, torch.split(flat, [each.numel() for each in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def of_first(self, value: float) -> float:
        """What the first process measured: statistics of norms differ between processes, and so may what they say."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def end(self) -> None:
        """Waits for the others and closes the connection: one that is cut at exit may abort a process."""
        if self.count > 1:
            dist.barrier()
            dist.destroy_process_group()

    def part_of(self, batch: int) -> int:
        if batch % self.count:
            raise Misuse(f"a batch of {batch} cannot be shared by {self.count} processes", hint="change `batch`")
        return batch // self.count

    def own(self, index: Tensor) -> Tensor:
        part = len(index) // self.count
        return index[self.rank * part : (self.rank + 1) * part]


def is_first_process() -> bool:
    return _number("RANK", 0) == 0


def _number(name: str, default: int) -> int:
    """A variable that torchrun sets."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise Misuse(f"{name} is `{text}`, which is no number of a process", hint=f"unset {name}")
    return int(text)
