"""The smallest change that takes a point onto a hyperplane without leaving a box, exactly, in each norm.

A change d of weight w meets the plane where ⟨w, d⟩ = gap. Only the entries' directions are free to choose from the sign
of w, so with u = |d| and c = how far the box lets each entry go: the smallest u in [0, c] with ⟨|w|, u⟩ = |gap|. Where
the box lets none reach the plane, all go as far as they can.

Every tensor's last dimension holds the entries; the others are samples, and those of `weight` broadcast over those of
the box: one plane may be met from several points.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.attacks.shapes import TINY, may_stop_early

ROUNDS = 20  # the search needs two or three on images, and seventeen at most were seen; it ends early on a CPU
GPU_ROUNDS = 6  # a GPU cannot ask; after too few the change ends short of the plane, never beyond
EXACT = 1e-6  # of the gap: what sums of float32 can tell
FEW = 256  # entries that are nearly always enough in l1, and quicker to find than a whole order
BLOCK = 1 << 17  # entries at once on a CPU: they stay in a core's cache

Nearest = Callable[[Tensor, Tensor, Tensor], Tensor]


def onto_plane(norm: str, weight: Tensor, gap: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The smallest change in [low, high], which hold zero, whose product with `weight` is `gap`."""
    rows = max(1, BLOCK // max(1, low[0].numel())) if not low.is_cuda else len(low)
    parts = [torch.split(part, rows) for part in (weight, gap, low, high)]
    return torch.cat([_onto_plane(NEAREST[norm], *part) for part in zip(*parts, strict=True)])


def dual_norm(norm: str, weight: Tensor) -> Tensor:
    """By how much the product with `weight` rises per unit of change in `norm`, at most."""
    match norm:
        case "linf":
            return weight.abs().sum(dim=-1)
        case "l2":
            return weight.square().sum(dim=-1).sqrt()
        case "l1":
            return weight.abs().amax(dim=-1)
    raise AssertionError(f"no dual of `{norm}`")


def _onto_plane(nearest: Nearest, weight: Tensor, gap: Tensor, low: Tensor, high: Tensor) -> Tensor:
    # in units of the largest weight, so that no scale of the logits under- or overflows
    scale = weight.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny)
    weight = weight / scale
    gap = gap[..., None] / scale
    way = weight.sign() * torch.where(gap < 0, -1.0, 1.0)
    steep = weight.abs()
    room = torch.where(way > 0, high, -low).clamp_min(0.0)
    reach = _product(steep, room)
    needed = gap.abs().minimum(reach)
    moved = torch.where(gap.abs() < reach, nearest(steep, needed, room), room)
    return moved * way


def _nearest_linf(steep: Tensor, needed: Tensor, room: Tensor) -> Tensor:
    """u = min(t, c) for one t."""
    return _water_level(steep, torch.ones_like(steep), needed, room)


def _nearest_l2(steep: Tensor, needed: Tensor, room: Tensor) -> Tensor:
    """u = min(t · |w|, c) for one t."""
    return _water_level(steep, steep, needed, room)


def _water_level(steep: Tensor, rate: Tensor, needed: Tensor, room: Tensor) -> Tensor:
    """min(t · rate, room) at the t where its product with `steep` is what is wanted.

    The product is concave in t and linear between the points where an entry runs out of room, so Newton's steps from
    zero never go too far, and end exactly once the right entries are out of room.
    """
    gain = steep * rate
    level = needed / gain.sum(dim=-1, keepdim=True).clamp_min(TINY)
    for _ in range(GPU_ROUNDS if steep.is_cuda else ROUNDS):
        raised = rate * level
        missing = needed - _product(steep, raised.minimum(room))
        short = missing > EXACT * needed
        if may_stop_early(~short):
            break
        slope = _product(gain, (raised < room).to(gain.dtype))
        level = torch.where(short & (slope > 0), level + missing / slope.clamp_min(TINY), level)
    return (rate * level).minimum(room)


def _nearest_l1(steep: Tensor, needed: Tensor, room: Tensor) -> Tensor:
    """The steepest entries go as far as they can, in turn, until it is enough."""
    steep, entries = steep.expand_as(room), room.shape[-1]
    if room.is_cuda:
        return _steepest_first(steep, needed, room, entries)
    moved = _steepest_first(steep, needed, room, min(FEW, entries))
    short = (_product(steep, moved) < needed * (1 - EXACT)).squeeze(-1)
    if bool(short.any()):
        moved[short] = _steepest_first(steep[short], needed[short], room[short], entries)
    return moved


def _steepest_first(steep: Tensor, needed: Tensor, room: Tensor, most: int) -> Tensor:
    """As `_nearest_l1`, by the `most` steepest entries."""
    top = steep.topk(most, dim=-1)
    space = room.gather(-1, top.indices)
    brought = top.values * space
    before = brought.cumsum(dim=-1) - brought
    used = ((needed - before).clamp_min(0.0) / top.values.clamp_min(TINY)).minimum(space)
    return torch.zeros_like(room).scatter(-1, top.indices, used)


def _product(one: Tensor, other: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(one, other)
    return product.unsqueeze(-1)


NEAREST: dict[str, Nearest] = {"linf": _nearest_linf, "l2": _nearest_l2, "l1": _nearest_l1}
