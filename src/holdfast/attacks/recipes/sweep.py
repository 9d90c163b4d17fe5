"""A sweep over radii as one job: for each sample the smallest radius of a grid that breaks it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.cascade import confirm
from holdfast.attacks.recipes.level_search import LevelResult, LevelSearch, depth, next_attacks
from holdfast.attacks.shapes import wide
from holdfast.attacks.success import is_within
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register, registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard, added

GPU_SHARE = 4  # of a GPU's width, chosen by counts of passes (docs/benchmarks.md)


@dataclass(frozen=True, slots=True)
class Sweep(Attack):
    """An attack at every radius of a grid, ascending.

    `filled`: where fewer attacks are to be made at once, those that a search may ask for later make up the number: the
    same result in fewer and longer batches. None: a share of the width on a GPU, where a short batch takes as long as a
    longer one, and no such attacks on a CPU, where each costs its own time.
    """

    attack: Attack
    radii: tuple[float, ...]
    exhaustive: bool = False
    warm: bool = False
    filled: int | None = None
    radius: float = field(init=False, default=math.nan)

    @property
    def source_in_key(self) -> str:
        return str(getattr(self.attack, "source_in_key", ""))

    @property
    def is_minimal(self) -> bool:
        return isinstance(self.attack, GradientAttack) and self.attack.keep == "smallest"

    @property
    def cost(self) -> Cost:
        """Of the search; attacks made ahead on a GPU come on top of it."""
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
    """A batch, and for each sample the smallest index of the grid that is known to break it.

    Index 0 is no attack, 1 … m are the radii, m + 1 means none of them.
    """

    def __init__(self, how: Sweep, model: Classifier, batch: Batch, noise: Noise, width: int) -> None:
        self.how, self.model, self.batch, self.noise, self.width = how, model, batch, noise, width
        device = batch.images.device
        self.grid = torch.tensor([0.0, *how.radii, math.inf], device=device)
        count = torch.zeros(len(batch), dtype=torch.int64, device=device)
        images, size = batch.images.clone(), torch.zeros(len(batch), device=device)
        self.whole = AttackResult(images, size=size, broken=count.bool(), forwards=count, backwards=count.clone())
        confirm(model, batch, self.whole, width, everyone=True)
        self.high = torch.where(self.whole.broken, 0, len(how.radii) + 1)
        self.last: Tensor | None = None
        self.reached = torch.ones(len(batch), device=device)

    def searched(self) -> AttackResult:
        """Each sample's own search, and where a batch has room, attacks that it may ask for later."""
        right = (self.high > 0).nonzero().squeeze(1)
        searches = {sample: LevelSearch(len(self.how.radii) + 1) for sample in right.tolist()}
        filled, ahead = self.how.filled, 0
        if filled is None:
            filled = self.width // GPU_SHARE if self.grid.is_cuda else 0
        while attacks := next_attacks(searches, 0 if self.how.warm else filled):
            rows, level = torch.tensor(attacks, device=self.grid.device).unbind(dim=1)
            result = self._attacked(rows, level)
            ahead += len(attacks) - len({sample for sample, _ in attacks})
            levels = torch.where(result.broken, self._needed(result).minimum(level), 0).tolist()
            shown = zip(attacks, result.images, result.size.tolist(), levels, strict=True)
            for row, ((sample, at), image, size, broken_at) in enumerate(shown):
                searches[sample].results[at] = LevelResult(image, size, broken_at or None, result.reasons.get(row))
            self._follow(searches)
        if ahead:
            self.whole.tallies["attacks made ahead"] = ahead
        self.high[right] = torch.tensor([search.high for search in searches.values()]).to(self.high)
        return self._finished()

    def _follow(self, searches: dict[int, LevelSearch]) -> None:
        """Goes on with every search as far as its attacks have been made, and keeps what it came upon last."""
        shown: dict[int, LevelResult] = {}
        for sample, search in searches.items():
            for each in search.follow():
                if each.reason is not None:
                    self.whole.reasons[sample] = each.reason
                if each.broken_at is not None or search.high > len(self.how.radii):
                    shown[sample] = each
        if shown:
            rows = torch.tensor(list(shown), device=self.grid.device)
            self.whole.images[rows] = torch.stack([each.image for each in shown.values()])
            self.whole.size[rows] = torch.tensor([each.size for each in shown.values()], device=self.grid.device)

    def minimal(self) -> AttackResult:
        everyone = torch.arange(len(self.batch), device=self.grid.device)[self.high > 0]
        if len(everyone):
            result = self._attacked(everyone, torch.full_like(everyone, len(self.how.radii) + 1))
            self._keep(everyone, result)
            self.high[everyone] = torch.where(result.broken, self._needed(result), len(self.how.radii) + 1)
        return self._finished()

    def exhausted(self, searched: AttackResult) -> AttackResult:
        """Every radius for every sample that is right; its thresholds are compared with the searched ones."""
        right = (self.high > 0).nonzero().squeeze(1)
        broken = torch.zeros(len(self.batch), len(self.how.radii), dtype=torch.bool, device=self.grid.device)
        for i in range(len(self.how.radii), 0, -1):
            if len(right):
                result = self._attacked(right, torch.full_like(right, i), warm=False)
                self._keep(right, result)
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
        """Attacks some samples, each at its level of the grid, and records passes and the last variables."""
        how, batch, whole = self.how, self.batch, self.whole
        part = batch.take(rows)
        warm = how.warm if warm is None else warm
        begun = self._warm_start(rows, level) if warm and self.last is not None else None
        result = how.attack.attempt(
            self.model, part, self.noise.take(rows), self.grid[level], width=self.width, first=begun
        )
        confirm(self.model, part, result, self.width)
        whole.forwards.index_add_(0, rows, result.forwards)  # a sample may be there at several levels
        whole.backwards.index_add_(0, rows, result.backwards)
        whole.facts |= result.facts
        whole.tallies = added(whole.tallies, result.tallies)
        if warm and result.variable is not None:
            if self.last is None:
                self.last = result.variable.new_zeros((len(batch), *result.variable.shape[1:]))
            self.last[rows], self.reached[rows] = result.variable, self.grid[level]
        return result

    def _warm_start(self, rows: Tensor, level: Tensor) -> Tensor:
        """Where the last attack on the sample ended, stretched to the radius of this one."""
        assert self.last is not None, "nothing to go on from"
        return self.last[rows] * wide(self.grid[level] / self.reached[rows], self.last)

    def _needed(self, result: AttackResult) -> Tensor:
        """The smallest index at which a success counts: it may be smaller than the radius it was allowed."""
        return (~is_within(result.size[:, None], self.grid[None, 1:-1])).sum(1) + 1

    def _keep(self, rows: Tensor, result: AttackResult) -> None:
        """Keeps the images of successes, and those of samples that nothing has broken so far."""
        better = result.broken | (self.high[rows] > len(self.how.radii))
        taken = rows[better]
        self.whole.images[taken], self.whole.size[taken] = result.images[better], result.size[better]
        positions = rows.tolist()
        self.whole.reasons |= {positions[i]: why for i, why in result.reasons.items()}

    def _finished(self) -> AttackResult:
        self.whole.radius = self.grid[self.high]
        self.whole.broken = self.high <= len(self.how.radii)
        return self.whole


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
