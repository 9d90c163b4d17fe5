"""The random-search loop: propose a change of the best point so far, ask the model once, keep what is better.

It needs no gradients. `ActiveSet` holds the samples under attack. Draws come in blocks of a few queries, since few
numbers cost as many kernels as many; samples start at the beginning of a block only, so that all are at the same query
of it. On a GPU they are also retired at its end only, since asking which are done would make the host wait; on a CPU a
broken sample takes no further query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from holdfast.attacks.active_set import ActiveSet, Samples
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import Attack, LoopResult, verify_success
from holdfast.attacks.gradient import Keep
from holdfast.attacks.objectives import Objective
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import AttackResult, Batch, Classifier, Cost

BLOCK = 8  # queries drawn at once


class Proposal(Protocol):
    """A rule for where to look next. Every tensor is per sample in its first dimension."""

    def start(self, threat: Threat, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        """The variables to ask about first, inside the set."""
        ...

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        """The random part of a block of proposals, in the second dimension; `ages`: how many came before each."""
        ...

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:
        """Variables inside the set to ask about, given the best so far and one proposal's part of the plan."""
        ...


@dataclass(frozen=True, slots=True)
class RandomSearch(Attack):
    """A random search: it sees only the model's logits, and may use its radius in full.

    `queries` counts proposals of one run: its start is asked about before them.
    """

    threat: Threat
    proposal: Proposal
    queries: int
    restarts: int
    objective: Objective
    radius: float = field(kw_only=True)
    keep: ClassVar[Keep] = "strongest"
    stop_when_broken: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.radius < math.inf:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.queries < 1 or self.restarts < 1:
            raise Misuse(f"queries and restarts are 1 or more, got {self.queries} and {self.restarts}")

    @property
    def steps(self) -> int:
        return self.queries

    @property
    def runs(self) -> int:
        return self.restarts

    @property
    def cost(self) -> Cost:
        return Cost(forwards=1 + self.restarts * (self.queries + 1))

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        with torch.no_grad():
            active = ActiveSet(AskedModel(model, self), batch, noise, radius, width, first, BLOCK)
            best = _SearchLoop(self, active).run()
        result = verify_success(self.threat, batch.images, radius, best)
        result.tallies = {"searches": int(best.runs.sum()), "flat searches": int(best.flat.sum())}
        return result


class _SearchLoop:
    """One run of the loop over a batch."""

    def __init__(self, attack: RandomSearch, active: ActiveSet) -> None:
        self.attack, self.active, self.model = attack, active, active.model
        self.blocks = attack.queries // BLOCK + 1  # of one run
        self.drops_broken = not active.radius.is_cuda and self.model.replays is None  # before the end of a block

    def run(self) -> LoopResult:
        active = self.active
        if not active.is_resumed:
            active.score_clean()
        while (samples := active.refill(self.started)) is not None:
            self.draw(samples)
            samples = active.samples = self.model.advanced(samples, self.block, gradients=False)
            active.retire(samples)
        return active.finish()

    def started(self, index: Tensor, run: Tensor) -> Samples:
        """Samples at the beginning of a run."""
        scene, noise = self.active.scene(index, run), self.active.noise.take(index)
        start = self.attack.proposal.start(self.attack.threat, scene, noise, run)
        return self.active.new_samples(index, run, scene, start)

    def draw(self, samples: Samples) -> None:
        """The coming block's draws, keyed by each sample's run and block."""
        draw = samples.run * self.blocks + samples.taken // BLOCK
        queries = samples.taken[:, None] + torch.arange(BLOCK, device=draw.device) - 1
        ages = queries.clamp(0, self.attack.queries - 1)
        plan = self.attack.proposal.plan(samples.scene, self.active.noise.take(samples.index), draw, ages)
        if not samples.state:
            samples.state = plan
        for name, part in samples.state.items():
            part.copy_(plan[name])

    def block(self, samples: Samples) -> None:
        """A block of queries; on a CPU, without the samples that are broken by one of them."""
        left, rows, end = samples, torch.arange(len(samples), device=samples.index.device), samples.taken + BLOCK
        for query in range(BLOCK):
            self._ask(left, query)
            if self.drops_broken and bool(left.done.any()):
                if left is not samples:
                    samples.replace(rows, left)
                rows = (~samples.done).nonzero().squeeze(1)
                left = samples.take(rows)
            if not len(rows):
                break
        if left is not samples:
            samples.replace(rows, left)
        samples.taken = end  # of dropped samples too: one that is not confirmed continues with the others

    def _ask(self, samples: Samples, query: int) -> None:
        """One query of the block for all samples. A sample that is new is asked about at its start."""
        attack, scene = self.attack, samples.scene
        plan = {name: part[:, query] for name, part in samples.state.items()}
        proposed = attack.proposal.propose(attack.threat, scene, samples.best, plan)
        if query == 0:
            proposed = torch.where(wide(samples.taken == 0, proposed), samples.variable, proposed)
        samples.variable = proposed
        logits = self.model(attack.threat.render(scene, proposed))
        value = attack.objective(logits, samples.labels, samples.targets)
        samples.forwards = samples.forwards + (~samples.free & (samples.taken <= attack.queries))
        success = self.model.is_broken(logits, samples.labels) & ~samples.done
        self.active.keep_best(samples, value, success, logits, value)
        samples.done = samples.done | (samples.taken >= attack.queries)
        samples.taken = samples.taken + 1
