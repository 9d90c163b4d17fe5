"""What is left to do on a cluster, and who does what next: models stay where they are loaded, nobody waits.

Three kinds of task make up a run. One actor begins it: it looks up what is there already and, while other runs are
waiting, measures for a few seconds by itself, which is all that a short run needs. What is left is shared out shard by
shard. The last to come back leaves the run whole, and one actor finishes it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Flag
from holdfast.engine.ledger import Ledger

SHARE_SECONDS = 2.0  # quick shards travel together until they take about this long


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A live model, packed; `content` is where the cluster keeps it."""

    key: str
    name: str
    content: Any


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run as asked for: the `number` is its place among the outcomes."""

    number: int
    model: Ref | PackedModel
    scenario: Scenario

    @property
    def name(self) -> str:
        return str(self.model) if isinstance(self.model, Ref) else self.model.name


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run under way, as every actor must know it: the same width, flags and rows taken over."""

    asked: RunRequest
    run: Run
    width: int
    flags: tuple[Flag, ...]
    started: str
    siblings: tuple[str, ...]


@dataclass(slots=True)
class Running:
    """A run that was begun: what is known of its samples, which shards wait, and how many tasks are out."""

    handle: RunHandle
    ledger: Ledger
    waiting: deque[range]
    suspects: deque[range] = field(default_factory=deque)
    out: int = 0
    pace: float = 0.0  # seconds per shard; 0 until one was measured
    is_over: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing but the finish."""
        return not (self.out or self.waiting or self.suspects)

    def measured(self, found: Iterable[tuple[range, NDArray[np.bool_]]], seconds: float) -> int:
        """Enters what came back of a share; how many samples became known by it."""
        before, shards = self.ledger.known, 0
        for places, right in found:
            self.ledger.enter(places, right)
            shards += 1
        if shards and seconds:
            self.pace = seconds / shards
        if self.ledger.reached() is not None:
            self.waiting.clear()
            self.suspects.clear()
        return self.ledger.known - before


@dataclass(frozen=True, slots=True)
class Begin:
    """Look up a run and measure it for up to `patience` seconds."""

    asked: RunRequest
    patience: float


@dataclass(frozen=True, slots=True)
class ShardTask:
    """Measure some shards of a run. `again`: an actor died with them, so the store may hold some already."""

    running: Running
    shards: tuple[range, ...]
    again: bool = False

    @property
    def asked(self) -> RunRequest:
        return self.running.handle.asked


@dataclass(frozen=True, slots=True)
class Finish:
    """Join the shards of a run that has them all."""

    running: Running

    @property
    def asked(self) -> RunRequest:
        return self.running.handle.asked


Task = Begin | ShardTask | Finish


@dataclass(slots=True)
class ModelQueue:
    """All that is left to do with one model."""

    begins: deque[RunRequest] = field(default_factory=deque)
    running: list[Running] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.begins) + sum(max(1, len(run.waiting) + len(run.suspects)) for run in self.running)


class Work:
    """The piles of a job, with the number of times that each task was lost."""

    def __init__(self, asked: Sequence[RunRequest], *, retries: int, patience: float) -> None:
        self.retries, self.patience = retries, patience
        self.piles: dict[str, ModelQueue] = defaultdict(ModelQueue)
        self.losses: Counter[tuple[object, ...]] = Counter()
        for each in asked:
            self.piles[each.model.key].begins.append(each)

    @property
    def is_left(self) -> bool:
        return any(pile.begins or pile.running for pile in self.piles.values())

    def next(self, holding: str | None, held: Mapping[str, int], actors: int) -> Task | None:
        """What an idle actor does: more with the model it holds, else a model nobody holds, else the largest pile."""

        def preference(key: str) -> tuple[bool, int, int]:
            return key != holding, held.get(key, 0), -self.piles[key].size

        for key in sorted(self.piles, key=preference):
            task = self._of(self.piles[key], actors)
            if task is not None:
                return task
        return None

    def beside(self, task: Task, actors: int) -> ShardTask | None:
        """More of the same for an actor that is measuring, so that it can read ahead; only while others have enough."""
        if not isinstance(task, ShardTask) or task.again or task.running.is_over:
            return None
        running = task.running
        if running.ledger.precision is not None or len(running.waiting) <= 2 * actors:
            return None
        return self._share(running, actors)

    def begun(self, handle: RunHandle, ledger: Ledger, shards: Sequence[range], pace: float) -> Running:
        running = Running(handle, ledger, deque(shards), pace=pace)
        self.piles[handle.asked.model.key].running.append(running)
        return running

    def over(self, running: Running) -> None:
        """Takes a run off the pile; what is still out of it no longer matters."""
        running.is_over = True
        running.waiting.clear()
        running.suspects.clear()
        self.piles[running.handle.asked.model.key].running.remove(running)

    def lost(self, task: Task) -> HoldfastError | None:
        """Puts a task back that an actor died with; after too many times the error that its run fails with."""
        most = 0
        for key in _names(task):
            self.losses[key] += 1
            most = max(most, self.losses[key])
        if most > self.retries:
            return HoldfastError(
                f"the process that measured it died {most} times at the same place",
                hint="it may be out of memory: try a smaller --batch-size, or `--engine local` to see it die",
            )
        if isinstance(task, Begin):
            self.piles[task.asked.model.key].begins.appendleft(task.asked)
        elif isinstance(task, ShardTask) and not task.running.is_over:
            task.running.suspects.extend(task.shards)
        return None

    def _of(self, pile: ModelQueue, actors: int) -> Task | None:
        for running in pile.running:
            if running.is_ready:
                running.out += 1
                return Finish(running)
        for running in pile.running:
            if running.suspects:  # alone, so that the one that kills is known
                running.out += 1
                return ShardTask(running, (running.suspects.popleft(),), again=True)
            if running.waiting:
                return self._share(running, actors)
        if pile.begins:
            waiting = sum(len(each.begins) for each in self.piles.values())
            return Begin(pile.begins.popleft(), self.patience if waiting > actors else 0.0)
        return None

    def _share(self, running: Running, actors: int) -> ShardTask:
        """As many quick shards as take a moment, but never so many that others would wait for them in the end."""
        fair = math.ceil(len(running.waiting) / (2 * actors)) if running.ledger.precision is None else 1
        quick = int(SHARE_SECONDS / running.pace) if running.pace else 1
        running.out += 1
        return ShardTask(running, tuple(running.waiting.popleft() for _ in range(max(1, min(fair, quick)))))


def _names(task: Task) -> list[tuple[object, ...]]:
    """What the losses of a task are counted under."""
    number = task.asked.number
    if isinstance(task, ShardTask):
        return [(number, places) for places in task.shards]
    return [(number, type(task).__name__)]
