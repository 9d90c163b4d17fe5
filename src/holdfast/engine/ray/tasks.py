"""What is left to do on a cluster, and which task an idle actor gets next: models stay where they are loaded.

Three kinds of task make up a run. One actor begins it: it looks up which rows the store has and, while other runs are
waiting, measures for a few seconds by itself, which is all that a short run needs. The shards that are left are shared
out. When the last one is measured, one actor finishes the run.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Flag
from holdfast.engine.ledger import Ledger, Marks

TASK_SECONDS = 2.0  # a task has as many quick shards as take about this long


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A live model in Ray's object store; `content` refers to it."""

    key: str
    name: str
    content: Any


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A model under a scenario."""

    model: Ref | PackedModel
    scenario: Scenario

    @property
    def name(self) -> str:
        return str(self.model) if isinstance(self.model, Ref) else self.model.name

    @property
    def keys(self) -> tuple[str, str]:
        return self.model.key, self.scenario.key


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run that was begun, as every actor must know it: the same width, flags and rows taken over."""

    request: RunRequest
    run: Run
    width: int
    flags: tuple[Flag, ...]
    started: str
    siblings: tuple[str, ...]


@dataclass(eq=False, slots=True)
class ActorTask:
    """A call of an actor's method. `alone`: seconds that the actor which begins a run measures by itself."""

    method: Literal["begin", "measure", "finish"]
    run: RunProgress
    shards: tuple[range, ...] = ()
    alone: float = 0.0
    deaths: int = 0  # of actors that had this task; the store may hold some of its shards then

    @property
    def args(self) -> tuple[object, ...]:
        if self.method == "begin":
            return self.run.request, self.alone
        return (self.run.handle, self.shards, self.deaths > 0) if self.method == "measure" else (self.run.handle,)


@dataclass(eq=False, slots=True)
class RunProgress:
    """One run: what is known of its samples, which shards and lost tasks wait, and how many tasks are with actors."""

    request: RunRequest
    handle: RunHandle | None = None
    ledger: Ledger = field(default_factory=lambda: Ledger.empty(0, None))
    waiting: deque[range] = field(default_factory=deque)
    lost: list[ActorTask] = field(default_factory=list)
    out: int = 0
    pace: float = 0.0  # seconds per shard; 0 until one was measured
    is_over: bool = False

    def begun(self, handle: RunHandle, ledger: Ledger, shards: Iterable[range], pace: float) -> None:
        self.handle, self.ledger, self.waiting, self.pace = handle, ledger, deque(shards), pace

    def measured(self, shards: Iterable[tuple[range, Marks]], seconds: float) -> int:
        """Enters which samples of these shards are right; how many samples became known by it."""
        before, count = self.ledger.known, 0
        for span, correct in shards:
            self.ledger.enter(span, correct)
            count += 1
        if count and seconds:
            self.pace = seconds / count
        if self.ledger.reached() is not None:
            self.waiting.clear()
            self.lost.clear()
        return self.ledger.known - before

    def next(self, actors: int, alone: float) -> ActorTask | None:
        """The next task of this run; None while all that is left is with actors."""
        task = None
        if self.lost:
            task = self.lost.pop()
        elif self.waiting:
            task = ActorTask("measure", self, self._share(actors))
        elif not self.out:
            task = ActorTask("begin", self, alone=alone) if self.handle is None else ActorTask("finish", self)
        self.out += task is not None
        return task

    def _share(self, actors: int) -> tuple[range, ...]:
        """Shards that take a moment, two at least to read ahead, but no more than leaves enough for other actors."""
        fair = math.ceil(len(self.waiting) / (2 * actors)) if self.ledger.precision is None else 1
        quick = max(2, int(TASK_SECONDS / self.pace)) if self.pace else 1
        return tuple(self.waiting.popleft() for _ in range(min(fair, quick)))


class ModelQueues:
    """The runs that are not over, by model."""

    def __init__(self, requests: Sequence[RunRequest], *, alone: float) -> None:
        self.alone = alone
        self.runs: dict[str, list[RunProgress]] = defaultdict(list)
        for request in requests:
            self.runs[request.model.key].append(RunProgress(request))

    @property
    def is_empty(self) -> bool:
        return not any(self.runs.values())

    def next(self, loaded: str | None, held: Mapping[str, int], actors: int) -> ActorTask | None:
        """A task with the model that an actor has loaded, else with one that no actor has, else with the longest queue.

        `held` counts the actors that have each model.
        """
        unbegun = sum(run.handle is None and not run.out for runs in self.runs.values() for run in runs)
        alone = self.alone if unbegun > actors else 0.0

        def preference(key: str) -> tuple[bool, int, int]:
            return key != loaded, held.get(key, 0), -sum(max(1, len(run.waiting)) for run in self.runs[key])

        runs = (run for key in sorted(self.runs, key=preference) for run in self.runs[key])
        return next((task for run in runs if (task := run.next(actors, alone)) is not None), None)

    def end(self, run: RunProgress) -> None:
        """Drops a run; replies that still come for it no longer matter."""
        if not run.is_over:
            run.is_over = True
            self.runs[run.request.model.key].remove(run)
