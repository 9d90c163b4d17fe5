"""A step in one pass over memory: on a GPU the arithmetic between two passes of the network waits for memory alone.

A step of APGD in the maximum norm reads or writes whole batches of images 47 times, operation by operation; the kernel
does so 9 times. It is used once it has given the same to the bit as the operations, on the device at hand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.attacks.steps import Point, State
from holdfast.attacks.threats.norm_ball import Linf

Moves = tuple[Tensor, Tensor, Tensor]  # where a step leads, where it began, and the gradient at the best point
LEAST = 2**21  # entries of a batch: with fewer, importing Triton takes longer than the kernel saves
_sound: dict[torch.device, bool] = {}  # whether the kernel gives what the operations give


def moved_in_linf(
    point: Point, state: State, better: Tensor, stalled: Tensor, carried: Tensor, plain: Callable[[], Moves]
) -> Moves:
    """What `plain` gives, from the kernel where it may be used. `carried`: the share of the last move that is kept."""
    images, here = point.scene.images, point.variable
    like = (images, here, point.gradient, point.best, state["best gradient"], state["before"])
    if here.numel() < LEAST or not here.is_cuda or type(point.threat) is not Linf or not all(map(_is_plain, like)):
        return plain()
    is_sound = _sound.get(here.device)
    if is_sound is False or (is_sound is None and torch.cuda.is_current_stream_capturing()):
        return plain()

    def in_one_pass() -> Moves:
        from holdfast.kernels.linf_step import linf_step

        scalars = better, stalled, state["length"].contiguous(), carried
        return linf_step(images, point.scene.radius.contiguous(), *like[1:], *scalars)

    if is_sound:
        return in_one_pass()
    made = plain()
    _sound[here.device] = _is_the_same(in_one_pass, made)
    return made


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.is_contiguous()


def _is_the_same(in_one_pass: Callable[[], Moves], made: Moves) -> bool:
    try:
        return all(torch.equal(one, other) for one, other in zip(in_one_pass(), made, strict=True))
    except Exception:  # noqa: BLE001 - no Triton here, or none that knows this device: the operations do as well
        return False
