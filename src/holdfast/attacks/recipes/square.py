"""The Square attack: random search by windows of one colour or one bump each, one recipe per norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.objectives import OBJECTIVES
from holdfast.attacks.recipes import windows
from holdfast.attacks.recipes.windows import Sides
from holdfast.attacks.search import Proposal, RandomSearch
from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register

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
        stripes = windows.signs(_words(noise, "start", (channels, 1, width), draw))
        return threat.project(scene, (stripes * wide(scene.radius, stripes)).expand_as(scene.images))

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        channels, height, width = scene.images.shape[1:]
        known = windows.schedule(self.sides, scene.images)
        side = known.sides[known.levels[ages]]
        words = _words(noise, "windows", (ages.shape[1], 2 + channels), draw)
        return {
            "rows": windows.cover(windows.starts(words[..., 0], side, height), side, height),
            "columns": windows.cover(windows.starts(words[..., 1], side, width), side, width),
            "colour": windows.signs(words[..., 2:]) * scene.radius[:, None, None],
        }

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:  # noqa: ARG002
        """Inside the ball by construction, so that projecting is cutting with the box."""
        here = _window(plan["rows"], plan["columns"])
        painted = _cut(scene, scene.images + plan["colour"][:, :, None, None])
        return torch.where(here, painted, best)


@dataclass(frozen=True, slots=True)
class Bumps:
    """Adds a bump to one window and clears another, whose length and all that is left of the radius it takes over.

    `power` is that of the norm. A bump falls off by `fall`; see windows.bump.
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
        known = windows.schedule(self.sides, scene.images)
        level = known.levels[ages]
        side = known.sides[level]
        words = _words(noise, "windows", (ages.shape[1], 5 + channels), draw)
        row, column = (
            windows.starts(words[..., 0], side, height),
            windows.starts(words[..., 1], side, width),
        )
        other, another = (
            windows.starts(words[..., 2], side, height),
            windows.starts(words[..., 3], side, width),
        )
        return {
            "stamp": self._stamps(scene).keys(level, words[..., 4] >> (windows.WORD - 1), row, column),
            "signs": windows.signs(words[..., 5:]),
            "rows": windows.cover(row, side, height),
            "columns": windows.cover(column, side, width),
            "cleared rows": windows.cover(other, side, height),
            "cleared columns": windows.cover(another, side, width),
        }

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:
        """In Euclidean length it comes out at the radius, so that projecting is cutting with the box."""
        here = _window(plan["rows"], plan["columns"])
        freed = here | _window(plan["cleared rows"], plan["cleared columns"])
        old = best * here
        bump = self._stamps(scene).at(plan["stamp"]) * plan["signs"][:, :, None, None]
        new = torch.addcdiv(bump, old, self._length(old) + TINY)
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

    def _stamps(self, scene: Scene) -> windows.Stamps:
        return windows.stamps(self.sides, scene.images, power=self.power, fall=self.fall)

    def _tiles(self, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        """Bumps side by side over the middle of the image, each turned and signed at random."""
        channels, height, width = scene.images.shape[1:]
        side = max(1, min(height, width) // TILES)
        down, across = height // side, width // side
        words = _words(noise, "start", (1 + channels, down, across), draw)
        pair = windows.bump(side, power=self.power, fall=self.fall).to(scene.images.device)
        bumps = pair[words[:, :1] >> (windows.WORD - 1)] * windows.signs(words[:, 1:])[..., None, None]
        tiled = bumps.transpose(3, 4).reshape(len(scene), channels, down * side, across * side)
        top, left = (height - down * side) // 2, (width - across * side) // 2
        return F.pad(tiled, (left, width - across * side - left, top, height - down * side - top))


def _words(noise: Noise, purpose: str, shape: tuple[int, ...], draw: Tensor) -> Tensor:
    return noise.integers(purpose, shape, low=0, high=1 << windows.WORD, draw=draw)


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


def register_square(threat: Threat, default: float, *, source: str, what: str, allowed: str) -> None:
    """Registers `square-NORM` with its usual radius."""

    def square(
        *,
        radius: float = default,
        queries: int = 5000,
        restarts: int = 1,
        share: float = 0.8,
        rescale: bool = False,
        loss: Loss = "margin",
    ) -> RandomSearch:
        if not 0 < share <= 1:
            raise Misuse(f"a window covers a share of the image, more than 0 and at most 1, got {share}")
        proposal = _proposal(threat, share, queries, rescale)
        return RandomSearch(threat, proposal, queries, restarts, OBJECTIVES[loss], radius=radius)

    square.__doc__ = DOC.format(what=what, allowed=allowed)
    register("attack", f"square-{threat.name}", source=source, tags=("black box", threat.name))(square)


def _proposal(threat: Threat, share: float, queries: int, rescale: bool) -> Proposal:
    if isinstance(threat, Linf):
        return Squares(Sides(share, queries, rescale))
    sides = Sides(share, queries, rescale, least=3, odd=True)
    return Bumps(sides, power=1, fall=4) if isinstance(threat, L1) else Bumps(sides, power=2, fall=2)


register_square(
    Linf(),
    8 / 255,
    source=ANDRIUSHCHENKO,
    what="windows of one colour",
    allowed="every pixel may move by `radius`",
)
register_square(
    L2(),
    0.5,
    source=ANDRIUSHCHENKO,
    what="windows with a bump",
    allowed="the image may move by `radius` in Euclidean length",
)
register_square(
    L1(),
    12.0,
    source=CROCE,
    what="windows with a steep bump",
    allowed="changes may add up to `radius`",
)
