"""The Square attack: random search by windows of one colour or one bump each, one recipe per norm."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.search import Proposal, RandomSearch
from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register

SCALE = 10_000
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # arXiv:1912.00049, in a search of SCALE queries
WORD = 31  # bits of a random whole number that a place or a sign is made of


@dataclass(frozen=True, slots=True)
class Sides:
    """How large a query's window is: a `share` of the image's area at first, halved again and again.

    `rescale` stretches the published schedule, which is for 10,000 queries, to the number that there are. `least` is
    the smallest side; `odd` rounds even sides up.
    """

    share: float
    queries: int
    rescale: bool = False
    least: int = 1
    odd: bool = False

    def level(self, query: int) -> int:
        """How often the area has been halved by then."""
        age = int(query / self.queries * SCALE) if self.rescale else query
        return sum(age > halving for halving in HALVINGS)

    def side(self, level: int, height: int, width: int) -> int:
        side = max(round(math.sqrt(self.share / 2**level * height * width)), self.least)
        return min(side + (self.odd and side % 2 == 0), height, width)


class Schedule(NamedTuple):
    """The levels of all queries and the sides of all levels, as tensors to look them up in."""

    levels: Tensor
    sides: Tensor


def schedule(sides: Sides, images: Tensor) -> Schedule:
    return _schedule(sides, images.shape[-2], images.shape[-1], str(images.device))


def starts(words: Tensor, side: Tensor, extent: int) -> Tensor:
    """Where along an axis windows of these sides begin: every place inside the image is as likely as the others."""
    return (words * (extent + 1 - side)) >> WORD


def cover(begin: Tensor, side: Tensor, extent: int) -> Tensor:
    """Which coordinates along an axis lie inside the windows, in a new last dimension."""
    along = torch.arange(extent, device=begin.device) - begin[..., None]
    return (along >= 0) & (along < side[..., None])


def signs(words: Tensor) -> Tensor:
    """One or minus one, by each word's highest bit."""
    return ((words >> (WORD - 1)) * 2 - 1).float()


def bump(side: int, *, power: int, fall: int) -> Tensor:
    """Two mounds of opposite sign, upright and lying: of length one, and as much above zero as below.

    `power` is that of the norm. A mound at distance d from its centre, counted as a king moves, is as high as the sum
    of (k + 1)⁻ᶠᵃˡˡ over all k ≥ d that the window has (arXiv:1912.00049, section 4.2, with fall 2).
    """

    def scaled(part: Tensor) -> Tensor:
        return part / part.abs().pow(power).sum().pow(1 / power)

    halves = scaled(_mound(side // 2, side, fall)), -scaled(_mound(side - side // 2, side, fall))
    upright = scaled(torch.cat(halves)).float()
    return torch.stack([upright, upright.T])


class Stamps(NamedTuple):
    """Bumps of every level, upright and on their side, to be put anywhere on an image by a single look-up."""

    table: Tensor
    grid: Tensor
    extent: tuple[int, int]

    def keys(self, level: Tensor, turned: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """The key of a bump whose window begins there."""
        height, width = self.extent
        return (((level * 2 + turned) * 2 + 1) * height - row) * 2 * width + width - column

    def at(self, key: Tensor) -> Tensor:
        """Images of one channel that are zero but for the bumps."""
        return self.table.take(key[:, None, None, None] + self.grid)


def stamps(sides: Sides, images: Tensor, *, power: int, fall: int) -> Stamps:
    height, width = images.shape[-2:]
    return _stamps(_all_sides(sides, height, width), height, width, str(images.device), power, fall)


@functools.lru_cache(maxsize=8)
def _schedule(sides: Sides, height: int, width: int, device: str) -> Schedule:
    levels = torch.tensor([sides.level(query) for query in range(sides.queries)], device=device)
    return Schedule(levels, torch.tensor(_all_sides(sides, height, width), device=device))


@functools.cache  # kept for good: recorded steps know it by its place in memory
def _stamps(sides: tuple[int, ...], height: int, width: int, device: str, power: int, fall: int) -> Stamps:
    """Each bump lies in the middle of a field of zeros four times the image: any crop of its size is a placement."""
    table = torch.zeros(len(sides), 2, 2 * height, 2 * width)
    for level, side in enumerate(sides):
        table[level, :, height : height + side, width : width + side] = bump(side, power=power, fall=fall)
    grid = torch.arange(height, device=device)[:, None] * 2 * width + torch.arange(width, device=device)
    return Stamps(table.to(device), grid, (height, width))


def _all_sides(sides: Sides, height: int, width: int) -> tuple[int, ...]:
    return tuple(sides.side(level, height, width) for level in range(len(HALVINGS) + 1))


def _mound(height: int, width: int, fall: int) -> Tensor:
    rows = (torch.arange(height) - height // 2).abs()
    columns = (torch.arange(width) - width // 2).abs()
    terms = torch.arange(1, max(height, width) // 2 + 2).double().pow(-fall)
    return terms.flip(0).cumsum(0).flip(0)[torch.maximum(rows[:, None], columns)]


ANDRIUSHCHENKO = "Andriushchenko et al. 2020, arXiv:1912.00049"
CROCE = "Croce & Hein 2021, arXiv:2103.01208"
TILES = 5  # along the shorter side of the image, at the start
Loss = Literal["margin", "ce"]


@dataclass(frozen=True, slots=True)
class Squares:
    """Paints a window in the strongest change that the radius allows, one sign per channel; starts from stripes."""

    sides: Sides

    def start(self, threat: Threat, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        _, channels, _, width = scene.images.shape
        stripes = signs(_words(noise, "start", (channels, 1, width), draw))
        return threat.project(scene, (stripes * wide(scene.radius, stripes)).expand_as(scene.images))

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        channels, height, width = scene.images.shape[1:]
        known = schedule(self.sides, scene.images)
        side = known.sides[known.levels[ages]]
        words = _words(noise, "windows", (ages.shape[1], 2 + channels), draw)
        return {
            "rows": cover(starts(words[..., 0], side, height), side, height),
            "columns": cover(starts(words[..., 1], side, width), side, width),
            "colour": signs(words[..., 2:]) * scene.radius[:, None, None],
        }

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:  # noqa: ARG002
        """Inside the ball by construction, so that projecting is cutting with the box."""
        here = _window(plan["rows"], plan["columns"])
        painted = _cut(scene, scene.images + plan["colour"][:, :, None, None])
        return torch.where(here, painted, best)


@dataclass(frozen=True, slots=True)
class Bumps:
    """Adds a bump to one window and clears another, whose length and all that is left of the radius it takes over.

    `power` is that of the norm. A bump falls off by `fall`; see `bump`.
    """

    sides: Sides
    power: Literal[1, 2]
    fall: int

    def start(self, threat: Threat, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        """Tiles with a bump each; in Euclidean length as far out as the radius allows."""
        tiles = self._tiles(scene, noise, draw)
        if self.power == 2:
            tiles = tiles * wide(scene.radius / length(tiles), tiles)
        return threat.project(scene, tiles)

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        channels, height, width = scene.images.shape[1:]
        known = schedule(self.sides, scene.images)
        level = known.levels[ages]
        side = known.sides[level]
        words = _words(noise, "windows", (ages.shape[1], 5 + channels), draw)
        extents = (height, width, height, width)
        row, column, other, another = (starts(words[..., i], side, extent) for i, extent in enumerate(extents))
        return {
            "stamp": self._stamps(scene).keys(level, words[..., 4] >> (WORD - 1), row, column),
            "signs": signs(words[..., 5:]),
            "rows": cover(row, side, height),
            "columns": cover(column, side, width),
            "cleared rows": cover(other, side, height),
            "cleared columns": cover(another, side, width),
        }

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:
        """In Euclidean length it comes out at the radius, so that projecting is cutting with the box."""
        here = _window(plan["rows"], plan["columns"])
        freed = here | _window(plan["cleared rows"], plan["cleared columns"])
        old = best * here
        added = self._stamps(scene).at(plan["stamp"]) * plan["signs"][:, :, None, None]
        new = torch.addcdiv(added, old, self._length(old) + TINY)
        spare = (scene.radius**self.power - self._length(best, 1).flatten() ** self.power).clamp_min(0.0)
        channels = best.shape[1]
        due = wide(spare / channels, best) + self._length(best * freed) ** self.power
        if self.power == 1:
            due = due * channels  # more than there is: the projection then leaves out the smallest entries
        painted = new.mul_(due ** (1 / self.power) / self._length(new).clamp_min(TINY))
        if self.power == 1:
            return threat.project(scene, torch.where(freed, painted, best))
        return torch.where(freed, _cut(scene, painted.add_(scene.images)), best)

    def _length(self, change: Tensor, first: Literal[1, 2] = 2) -> Tensor:
        """In the norm, of each channel or from the first dimension that is said."""
        length: Tensor = torch.linalg.vector_norm(change, self.power, dim=tuple(range(first, 4)), keepdim=True)
        return length

    def _stamps(self, scene: Scene) -> Stamps:
        return stamps(self.sides, scene.images, power=self.power, fall=self.fall)

    def _tiles(self, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        """Bumps side by side over the middle of the image, each turned and signed at random."""
        channels, height, width = scene.images.shape[1:]
        side = max(1, min(height, width) // TILES)
        down, across = height // side, width // side
        words = _words(noise, "start", (1 + channels, down, across), draw)
        pair = bump(side, power=self.power, fall=self.fall).to(scene.images.device)
        bumps = pair[words[:, :1] >> (WORD - 1)] * signs(words[:, 1:])[..., None, None]
        tiled = bumps.transpose(3, 4).reshape(len(scene), channels, down * side, across * side)
        top, left = (height - down * side) // 2, (width - across * side) // 2
        return F.pad(tiled, (left, width - across * side - left, top, height - down * side - top))


def _words(noise: Noise, purpose: str, shape: tuple[int, ...], draw: Tensor) -> Tensor:
    return noise.integers(purpose, shape, low=0, high=1 << WORD, draw=draw)


def _window(rows: Tensor, columns: Tensor) -> Tensor:
    return rows[:, None, :, None] & columns[:, None, None, :]


def _cut(scene: Scene, images: Tensor) -> Tensor:
    """What has changed, after these images were brought into the box, in place."""
    return images.clamp_(0.0, 1.0).sub_(scene.images)


DOC = """Random search by {what}, without gradients: {allowed}.

`queries` counts proposals; the start takes one more. `share`: of the image's area, that the first window covers. It is
halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000 queries, however many there are (as in AutoAttack);
`rescale` stretches that to the queries there are (as in the paper).
Differs from the published code: every sample has windows and signs of its own, not one draw for the whole batch; a
window may reach the last row and column, which the published draw leaves out; images may have any size, where the
published tiles do not fit some (24x24); a tie with the label is no success. Projections are the published ones.
"""


def register_square(ball: Ball, what: str, allowed: str, *, source: str) -> None:
    """Registers `square-NORM` with its usual radius."""

    def square(
        *,
        radius: float = ball.usual_radius,
        queries: int = 5000,
        restarts: int = 1,
        share: float = 0.8,
        rescale: bool = False,
        loss: Loss = "margin",
    ) -> RandomSearch:
        if not 0 < share <= 1:
            raise Misuse(f"a window covers a share of the image, more than 0 and at most 1, got {share}")
        proposal = _proposal(ball, share, queries, rescale)
        return RandomSearch(ball, proposal, queries, restarts, OBJECTIVES[loss], radius=radius)

    square.__doc__ = DOC.format(what=what, allowed=allowed)
    register("attack", f"square-{ball.name}", source=source, tags=("black box", ball.name))(square)


def _proposal(ball: Ball, share: float, queries: int, rescale: bool) -> Proposal:
    if isinstance(ball, Linf):
        return Squares(Sides(share, queries, rescale))
    sides = Sides(share, queries, rescale, least=3, odd=True)
    return Bumps(sides, power=1, fall=4) if isinstance(ball, L1) else Bumps(sides, power=2, fall=2)


register_square(Linf(), "windows of one colour", Linf.allowed, source=ANDRIUSHCHENKO)
register_square(L2(), "windows with a bump", L2.allowed, source=ANDRIUSHCHENKO)
register_square(L1(), "windows with a steep bump", "changes may add up to `radius`", source=CROCE)
