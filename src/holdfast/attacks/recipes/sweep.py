"""A sweep over radii as one job: for each sample the smallest radius of a grid that breaks it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.shapes import parts_of, wide
from holdfast.attacks.success import is_within, is_wrong
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register, registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard, added

SUCCESS_COST = 0.2  # of a failed attack, which runs to its end; measured 0.05 to 0.3 over the attacks here


@dataclass(frozen=True, slots=True)
class Sweep(Attack):
    """An attack at every radius of a grid, ascending."""

    attack: Attack
    radii: tuple[float, ...]
    exhaustive: bool = False
    warm: bool = False
    radius: float = field(init=False, default=math.nan)

    @property
    def is_minimal(self) -> bool:
        return isinstance(self.attack, GradientAttack) and self.attack.keep == "smallest"

    @property
    def cost(self) -> Cost:
        one = self.attack.cost
        attacks = 1 if self.is_minimal else len(self.radii) + depth(len(self.radii) + 1)
        if not self.exhaustive and not self.is_minimal:
            attacks = depth(len(self.radii) + 1)
        return Cost(one.forwards * attacks + attacks + 1, one.backwards * attacks)

    def attempt(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        *,
        width: int,
        first: Tensor | None = None,  # noqa: ARG002
    ) -> AttackResult:
        probes = _Probes(self, model, batch, noise, width)
        if self.is_minimal:
            return probes.minimal()
        if not self.exhaustive:
            return probes.searched()
        return probes.exhausted(replace(self, exhaustive=False).attempt(model, batch, noise, radius, width=width))

    def refuse(self, card: ModelCard) -> None:
        self.attack.refuse(card)


class _Probes:
    """A batch between two indices of the grid: not broken at `low`, broken at `high`.

    Index 0 is no attack, 1 … m are the radii, m + 1 means none of them.
    """

    def __init__(self, how: Sweep, model: Classifier, batch: Batch, noise: Noise, width: int) -> None:
        self.how, self.model, self.batch, self.noise, self.width = how, model, batch, noise, width
        device = batch.images.device
        self.grid = torch.tensor([0.0, *how.radii, math.inf], device=device)
        clean = torch.zeros(len(batch), dtype=torch.bool, device=device)
        for part in self._parts():
            clean[part] = self._wrong(batch.images[part], batch.labels[part])
        count = torch.zeros(len(batch), dtype=torch.int64, device=device)
        self.low, self.high = count.clone(), torch.where(clean, 0, len(how.radii) + 1)
        self.whole = AttackResult(
            batch.images.clone(),
            size=torch.zeros(len(batch), device=device),
            broken=clean.clone(),
            forwards=count + 1,
            backwards=count.clone(),
        )
        self.last: Tensor | None = None
        self.reached = torch.ones(len(batch), device=device)

    def searched(self) -> AttackResult:
        """Each sample's own search: attacks where it is not known yet, until low and high are neighbours."""
        splits = torch.tensor(_splits(len(self.how.radii) + 1), device=self.grid.device)
        while True:
            open_ = (self.high - self.low > 1).nonzero().squeeze(1)
            if not len(open_):
                return self._finished()
            level = self.low[open_] + splits[self.high[open_] - self.low[open_]]
            result = self._attacked(open_, level)
            # a success may be smaller than its radius: then it is known at a smaller one
            needed = (~is_within(result.size[:, None], self.grid[None, 1:-1])).sum(1) + 1
            reached = torch.minimum(needed, level)
            self.high[open_] = torch.where(result.broken, torch.minimum(reached, self.high[open_]), self.high[open_])
            self.low[open_] = torch.where(result.broken, self.low[open_], level)

    def minimal(self) -> AttackResult:
        everyone = torch.arange(len(self.batch), device=self.grid.device)[self.high > 0]
        if len(everyone):
            result = self._attacked(everyone, torch.full_like(everyone, len(self.how.radii) + 1))
            needed = (~is_within(result.size[:, None], self.grid[None, 1:-1])).sum(1) + 1
            self.high[everyone] = torch.where(result.broken, needed, len(self.how.radii) + 1)
        return self._finished()

    def exhausted(self, searched: AttackResult) -> AttackResult:
        """Every radius for every sample that is right; its thresholds are compared with the searched ones."""
        right = (self.high > 0).nonzero().squeeze(1)
        broken = torch.zeros(len(self.batch), len(self.how.radii), dtype=torch.bool, device=self.grid.device)
        for i in range(len(self.how.radii), 0, -1):
            if len(right):
                result = self._attacked(right, torch.full_like(right, i), warm=False)
                broken[right, i - 1] = result.broken
                self.high[right] = torch.where(result.broken, i, self.high[right])
        whole = self._finished()
        known = broken.long()
        gaps = (known.cummax(dim=1).values > known).any(dim=1)
        assert whole.radius is not None, "a sweep tells thresholds"
        assert searched.radius is not None, "a sweep tells thresholds"
        whole.tallies["samples swept"] = len(right)
        whole.tallies["samples that broke below a radius they withstood"] = int(gaps.sum())
        whole.tallies["samples whose search ends elsewhere"] = int((whole.radius != searched.radius).sum())
        whole.forwards, whole.backwards = whole.forwards + searched.forwards, whole.backwards + searched.backwards
        return whole

    def _attacked(self, rows: Tensor, level: Tensor, *, warm: bool | None = None) -> AttackResult:
        """Attacks some samples, each at its level of the grid, and records images, passes and the last variables."""
        how, batch, whole = self.how, self.batch, self.whole
        part = batch.take(rows)
        warm = how.warm if warm is None else warm
        begun = self._warm_start(rows, level) if warm and self.last is not None else None
        result = how.attack.attempt(
            self.model, part, self.noise.take(rows), self.grid[level], width=self.width, first=begun
        )
        claimed = result.broken.nonzero().squeeze(1)
        for some in parts_of(claimed, self.width):
            result.broken[some] = self._wrong(result.images[some], part.labels[some])
        result.forwards[claimed] += 1
        whole.forwards[rows] += result.forwards
        whole.backwards[rows] += result.backwards
        self._note(rows, level, result)
        return result

    def _warm_start(self, rows: Tensor, level: Tensor) -> Tensor:
        """Where the last attack on the sample ended, stretched to the radius of this one."""
        assert self.last is not None, "nothing to go on from"
        return self.last[rows] * wide(self.grid[level] / self.reached[rows], self.last)

    def _note(self, rows: Tensor, level: Tensor, result: AttackResult) -> None:
        """Keeps the image of the smallest success, or where there is none that of the largest radius so far."""
        whole = self.whole
        better = result.broken | ~whole.broken[rows]
        taken = rows[better]
        whole.images[taken], whole.size[taken] = result.images[better], result.size[better]
        whole.broken[rows] |= result.broken
        if result.variable is not None:
            if self.last is None:
                self.last = result.variable.new_zeros((len(self.batch), *result.variable.shape[1:]))
            self.last[rows] = result.variable
            self.reached[rows] = self.grid[level]
        positions = rows.tolist()
        whole.reasons |= {positions[i]: why for i, why in result.reasons.items()}
        whole.facts |= result.facts
        whole.tallies = added(whole.tallies, result.tallies)

    def _finished(self) -> AttackResult:
        self.whole.radius = self.grid[self.high]
        self.whole.broken = self.high <= len(self.how.radii)
        return self.whole

    def _parts(self) -> list[slice]:
        return [slice(i, i + self.width) for i in range(0, len(self.batch), self.width)]

    def _wrong(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            return is_wrong(self.model(images), labels)


@functools.cache
def _splits(most: int) -> tuple[int, ...]:
    """Where to attack between low and high, by their distance: cheapest on average if every threshold is as likely.

    A failure costs a whole attack, a success much less, so it pays to come from above.
    """
    cost, split = [0.0, 0.0], [0, 0]
    for n in range(2, most + 1):
        options = [(j / n * (SUCCESS_COST + cost[j]) + (n - j) / n * (1 + cost[n - j]), j) for j in range(1, n)]
        best, at = min(options)
        cost.append(best)
        split.append(at)
    return tuple(split)


@functools.cache
def depth(most: int) -> int:
    """Most attacks that a search may need for one sample."""
    splits = _splits(most)
    longest = [0, 0]
    for n in range(2, most + 1):
        longest.append(1 + max(longest[splits[n]], longest[n - splits[n]]))
    return longest[most]


@register("attack", "sweep", version=2, tags=("combination",))
def sweep(*, attack: str, radii: tuple[float, ...], exhaustive: bool = False, warm: bool = False) -> Sweep:
    """The smallest radius of a grid that breaks each sample, for any attack inside a radius, as one job.

    `sweep:attack=(pgd-linf:steps=20),radii=[1/255,2/255,4/255]`. Samples at different radii share batches; a search
    takes each to its threshold in few attacks. A minimal attack (fmn, fab) is run once and answers every radius. With
    `warm` each attack goes on from where the last one on the sample ended: a stronger attack than the one named, so
    that its thresholds are lower than those of separate runs. `exhaustive` attacks at every radius instead, and also
    reports where a larger radius failed though a smaller one succeeded, and where the search would answer otherwise.
    The sample's `radius` is its threshold: 0 where it is wrong without an attack, inf where no radius breaks it. What
    is scored is the image at the threshold, or at the largest radius.
    """
    ref = registry.bind("attack", attack)
    built = registry.build(ref)
    if not isinstance(built, Attack) or isinstance(built, Sweep):
        raise Misuse(f"`{attack}` has no radius to sweep", hint="name an attack inside a radius, such as (pgd-linf)")
    grid = tuple(sorted(set(radii)))
    if not grid or not grid[0] > 0 or math.isinf(grid[-1]):
        raise Misuse(f"radii are more than zero and finite, got {list(radii)}")
    return Sweep(built, grid, exhaustive, warm)
