"""The random-search loop: propose a change of the best point so far, ask the model once, keep what is better.

It needs no gradients. Who is in flight, and what becomes of those who land, is a `Course`. Draws come in blocks of a
few queries, since a handful of numbers costs as many kernels as many; samples join at the start of a block only, so
that all stand at the same place in theirs. On a GPU they also leave at its end only, since a look at who is done would
stop the queue; on a CPU a broken sample takes no further query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack, Attempt, settle
from holdfast.attacks.course import Course, Keep
from holdfast.attacks.flight import Flight, Found
from holdfast.attacks.objectives import Objective
from holdfast.attacks.replay import replays_of
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier, Cost

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
class Search:
    """An attack's way of asking. `queries` counts proposals of one run: its start is asked about before them."""

    threat: Threat
    proposal: Proposal
    queries: int
    restarts: int
    objective: Objective
    keep: ClassVar[Keep] = "strongest"
    stop_when_broken: ClassVar[bool] = True

    @property
    def steps(self) -> int:
        return self.queries

    @property
    def runs(self) -> int:
        return self.restarts


def search(
    model: Classifier,
    batch: Batch,
    noise: Noise,
    radius: Tensor,
    how: Search,
    *,
    width: int,
    first: Tensor | None = None,
) -> Found:
    """Runs the loop over a batch of any length, at most `width` samples at a time; `first`: where to start instead."""
    with torch.no_grad():
        return _Quest(model, batch, noise, radius, how, width, first).found_all()


@dataclass(frozen=True, slots=True)
class Hunt(Attack):
    """A random search as a whole attack: it sees only what the model answers, and may use its radius in full."""

    search: Search
    radius: float

    def __post_init__(self) -> None:
        if not 0 <= self.radius < math.inf:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.search.queries < 1 or self.search.restarts < 1:
            raise Misuse(
                f"queries and restarts are 1 or more, got {self.search.queries} and {self.search.restarts}",
            )

    @property
    def cost(self) -> Cost:
        return Cost(forwards=1 + self.search.restarts * (self.search.queries + 1))

    def attempt(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        *,
        width: int,
        first: Tensor | None = None,
    ) -> Attempt:
        how = self.search
        found = search(model, batch, noise, radius, how, width=width, first=first)
        images, size, reasons = settle(how.threat, Scene(batch.images, radius, found.props), found.variable)
        return Attempt(
            images,
            size,
            found.broken,
            found.forwards,
            found.backwards,
            variable=found.variable,
            reasons=reasons,
            tallies={"searches": int(found.runs.sum()), "flat searches": int(found.flat.sum())},
        )


class _Quest(Course):
    """One search under way."""

    follows = False

    def __init__(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        how: Search,
        width: int,
        first: Tensor | None,
    ) -> None:
        super().__init__(model, batch, noise, radius, how, width, first)
        self.how = how
        self.places = torch.arange(BLOCK, device=batch.images.device)
        self.blocks = how.queries // BLOCK + 1  # of one run
        self.looks = not batch.images.is_cuda and replays_of(self.rough) is None
        self.round = BLOCK

    def found_all(self) -> Found:
        if not self.goes_on:
            self.look()
        return self.done()

    def prepare(self, flight: Flight) -> None:
        """The coming block's draws, keyed by where each sample stands in its own search."""
        draw = flight.run * self.blocks + flight.taken // BLOCK
        ages = (flight.taken[:, None] + self.places - 1).clamp(0, self.how.queries - 1)
        plan = self.how.proposal.plan(flight.scene, self.noise.take(flight.index), draw, ages)
        if not flight.state:
            flight.state = plan
        for name, part in flight.state.items():
            part.copy_(plan[name])

    def steps(self, flight: Flight) -> None:
        """A block of queries; where a look costs nothing, without those who are broken on the way."""
        left, rows, end = flight, torch.arange(len(flight), device=flight.index.device), flight.taken + BLOCK
        for place in range(BLOCK):
            self._ask(left, place)
            if self.looks and bool(left.done.any()):
                if left is not flight:
                    flight.replace(rows, left)
                rows = (~flight.done).nonzero().squeeze(1)
                left = flight.kept(rows)
            if not len(rows):
                break
        if left is not flight:
            flight.replace(rows, left)
        flight.taken = end  # of those too who left: should they have to come back, they keep in step

    def start(self, scene: Scene, noise: Noise, run: Tensor) -> Tensor:
        return self.how.proposal.start(self.how.threat, scene, noise, run)

    def _ask(self, flight: Flight, place: int) -> None:
        """One query for all in flight. Whoever is new is asked about the start."""
        how, scene = self.how, flight.scene
        plan = {name: part[:, place] for name, part in flight.state.items()}
        proposed = how.proposal.propose(how.threat, scene, flight.best, plan)
        if place == 0:
            proposed = torch.where(wide(flight.taken == 0, proposed), flight.variable, proposed)
        flight.variable = proposed
        logits = self.rough(how.threat.render(scene, proposed))
        height = how.objective(logits, flight.labels, flight.targets)
        flight.forwards = flight.forwards + (~flight.gone & (flight.taken <= how.queries))
        self.note(flight, height, self.breaks(logits, flight.labels) & ~flight.done, logits)
        flight.done = flight.done | (flight.taken >= how.queries)
        flight.taken = flight.taken + 1
