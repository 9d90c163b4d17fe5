"""Evaluate on a Ray cluster: the rows of one process, from as many devices as there are.

Ray places the actors, finds out who died and carries the messages. What is done stands in the store and nowhere else,
so an actor, a node or this process may die at any moment and nothing finished is lost.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import holdfast
from holdfast.core.errors import Absent, HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Classifier
from holdfast.engine.evaluate import KEEP_EVERY, Outcome
from holdfast.engine.jobs import RunOptions, read_models, read_scenarios
from holdfast.engine.ledger import Ledger
from holdfast.engine.order import evenly
from holdfast.engine.ray.actor import Actor, Begun, Ended, Failed, JobContext, Reply, Shared
from holdfast.engine.ray.cluster import (
    actor_device,
    connected,
    device_count,
    first_line,
    installed_ray,
    packed,
    refuse_memory,
    token_in,
)
from holdfast.engine.ray.tasks import Begin, Finish, RunRequest, ShardTask, Task, Work
from holdfast.engine.watch import Watcher
from holdfast.store import Rows, Store
from holdfast.store.files import NoRoom

PATIENCE = 30.0  # seconds without an actor until we say that we are waiting
INSIDE = 2  # tasks inside an actor at once: one has the device, the other reads or writes


def evaluate_on_ray(
    models: Sequence[str | Ref | Classifier],
    scenarios: Sequence[str | Scenario],
    *,
    store: Store,
    options: RunOptions,
    pictures: int,
    watcher: Watcher,
    address: str | None,
    actors: int | None = None,
    device: str = "auto",
    retries: int = 3,
) -> list[Outcome]:
    """Measures every model under every scenario on a Ray cluster, with one actor per device.

    Joins the cluster at `address` or $RAY_ADDRESS; without either it starts Ray on this machine and stops it again.
    A shard that its actor died with is done again by another, `retries` times at most.
    """
    ray = installed_ray()
    if actors is not None and actors < 1:
        raise Misuse(f"--actors is 1 or more, got {actors}")
    refuse_memory(store)
    asked_models, asked_scenarios = read_models(models), read_scenarios(scenarios)
    with connected(ray, address, actors), token_in(store) as token:
        sent = [packed(ray, model) for model in asked_models]
        cells = [(model, scenario) for model in sent for scenario in asked_scenarios]
        numbers = {(model.key, scenario.key): i for i, (model, scenario) in enumerate(cells)}
        asked = [
            RunRequest(numbers[model.key, scenario.key], model, scenario)
            for model in sent
            for scenario in evenly(asked_scenarios)
        ]
        context = JobContext(
            store=store.files.root if store.files.is_local else store.url,
            token=token,
            options=options,
            pictures=pictures,
            device=actor_device(ray, device),
            folder=str(Path.cwd()),
            path=tuple(str(Path(place).resolve()) for place in sys.path),
            environment={name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")},
            version=holdfast.__version__,
        )
        work = Work(asked, retries=retries, patience=KEEP_EVERY)
        workers = Workers(ray, context, retries)
        try:
            workers.hire(actors or device_count(ray, context.device))
            outcomes = Dispatch(ray, store, watcher, work, workers).outcomes(asked_scenarios, len(sent))
        finally:
            workers.dismiss()
    return [outcomes[i] for i in range(len(cells))]


@dataclass(eq=False)
class Member:
    """An actor of ours: which model it holds, and what it is doing."""

    handle: Any
    hello: Any
    is_ready: bool = False
    holding: str | None = None
    tasks: dict[Any, Task] = field(default_factory=dict)


class Workers:
    """The actors. One that dies is replaced; a replacement works once it said hello, which needs a free device."""

    def __init__(self, ray: Any, context: JobContext, retries: int) -> None:
        self.ray, self.retries = ray, retries
        self.context = ray.put(context)
        self.kind = ray.remote(Actor).options(
            num_cpus=1, num_gpus=int(context.device == "cuda"), max_concurrency=INSIDE, max_restarts=0
        )
        self.members: list[Member] = []
        self.failures = 0  # starts that failed since the last that did not

    def hire(self, count: int) -> None:
        for _ in range(count):
            handle = self.kind.remote(self.context)
            self.members.append(Member(handle, handle.hello.remote()))

    @property
    def ready(self) -> list[Member]:
        return [member for member in self.members if member.is_ready]

    @property
    def held(self) -> Counter[str]:
        return Counter(member.holding for member in self.ready if member.holding is not None)

    @property
    def refs(self) -> list[Any]:
        starting = [member.hello for member in self.members if not member.is_ready]
        return starting + [ref for member in self.members for ref in member.tasks]

    def of(self, ref: Any) -> Member:
        """The member that a message is from."""
        return next(each for each in self.members if ref in each.tasks or ref == each.hello)

    def replace(self, member: Member, error: Exception) -> list[Task]:
        """Lets a dead actor go and hires another; the tasks it died with."""
        self.failures = 0 if member.is_ready else self.failures + 1
        self._end(member)
        self.members.remove(member)
        if self.failures <= self.retries:
            self.hire(1)
        elif not self.members:
            raise HoldfastError(
                f"no actor stays alive, the last {self.failures} died as they started: {first_line(error)}",
                hint="can every node run `python -c 'import holdfast.engine.evaluate'`? `ray status` may know more",
            )
        return list(member.tasks.values())

    def refuse(self, member: Member, error: HoldfastError) -> None:
        """Goes on without an actor that cannot work where it is; the error where that was the last."""
        self._end(member)
        self.members.remove(member)
        if not self.members:
            raise error

    def dismiss(self) -> None:
        for member in self.members:
            self._end(member)

    def _end(self, member: Member) -> None:
        """Makes sure that an actor is gone, even one that is only out of reach: its shards are someone else's now."""
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.ray.kill(member.handle, no_restart=True)


class Dispatch:
    """Hands out tasks, hears what came of them, and tells the watcher."""

    def __init__(self, ray: Any, store: Store, watcher: Watcher, work: Work, workers: Workers) -> None:
        self.ray, self.store, self.watcher, self.work, self.workers = ray, store, watcher, work, workers
        self.done: dict[int, Outcome] = {}
        self.refusals: set[str] = set()
        self.has_waited = False

    def outcomes(self, scenarios: Sequence[Scenario], models: int) -> dict[int, Outcome]:
        """Does all the work there is; the outcome of every run by its number."""
        self._plan(scenarios, models)
        while self.work.is_left or any(member.tasks for member in self.workers.members):
            for member in self.workers.ready:
                self._give(member)
            self._hear()
        return self.done

    def _plan(self, scenarios: Sequence[Scenario], models: int) -> None:
        """Waits for the first actor and asks it what is to come: the data need not be where this process is."""
        expected = None
        while expected is None:
            while not self.workers.ready:
                self._hear()
            member = self.workers.ready[0]
            try:
                reply = self.ray.get(member.handle.expected.remote(scenarios))
            except self.ray.exceptions.RayError as error:
                self._died(member, error)
                continue
            self._note(reply)
            expected = [] if isinstance(reply.result, Failed) else reply.result
        self.watcher.planned(expected * models)

    def _give(self, member: Member) -> None:
        actors = len(self.workers.ready)
        while len(member.tasks) < INSIDE:
            if member.tasks:
                task: Task | None = self.work.beside(next(iter(member.tasks.values())), actors)
            else:
                task = self.work.next(member.holding, self.workers.held, actors)
            if task is None:
                return
            member.holding = task.asked.model.key
            member.tasks[_sent(member.handle, task)] = task

    def _hear(self) -> None:
        """Waits for the next message and acts on it."""
        heard: list[Any] = []
        while not heard:
            heard, _ = self.ray.wait(self.workers.refs, timeout=PATIENCE)
            if not heard and not self.workers.ready and not self.has_waited:
                self.has_waited = True
                self.watcher.note("waiting for a free device on the cluster; `ray status` shows what is taken")
        member = self.workers.of(heard[0])
        try:
            reply = self.ray.get(heard[0])
        except self.ray.exceptions.RayError as error:
            self._died(member, error)
        else:
            self._note(reply)
            if member.is_ready:
                self._came(member.tasks.pop(heard[0]), reply.result)
            else:
                self._started(member, reply.result)

    def _started(self, member: Member, result: Any) -> None:
        if not isinstance(result, Failed):
            member.is_ready = True
            self.workers.failures = 0
            return
        self.workers.refuse(member, result.error)
        if str(result.error) not in self.refusals:
            self.refusals.add(str(result.error))
            self.watcher.note(f"going on without one actor: {result.error}")

    def _died(self, member: Member, error: Exception) -> None:
        tasks = self.workers.replace(member, error)
        if tasks:
            self.watcher.note(f"an actor died, another does its work: {first_line(error)}")
        for task in tasks:
            if not isinstance(task, Begin):
                task.running.out -= 1
            failure = self.work.lost(task)
            if failure is not None:
                self._failed(task, failure)

    def _came(self, task: Task, result: Any) -> None:
        if not isinstance(task, Begin):
            task.running.out -= 1
            if task.running.is_over:
                return
        if isinstance(result, Failed):
            self._failed(task, result.error)
        elif isinstance(result, Begun):
            self._begun(result)
        elif isinstance(result, Shared):
            assert isinstance(task, ShardTask), "only a share is shared"
            news = task.running.measured(result.found, result.seconds)
            self.watcher.advanced(task.running.handle.run, news, task.running.ledger.standing)
        else:
            assert isinstance(result, Ended), f"an actor said {result}"
            self._ended(task, result)

    def _begun(self, result: Begun) -> None:
        run = result.handle.run
        ledger = Ledger(result.answers.copy(), run.precision)
        self.work.begun(result.handle, ledger, result.missing, result.pace)
        self.watcher.began(run, len(ledger.answers), result.kept)
        if ledger.known > result.kept:
            self.watcher.advanced(run, ledger.known - result.kept, ledger.standing)

    def _ended(self, task: Task, result: Ended) -> None:
        run = result.run
        rows = self._read(run)
        standing = wilson(int(rows.correct.sum()), len(rows))
        if isinstance(task, Finish):
            self.work.over(task.running)
        else:
            self.watcher.began(run, result.samples, result.kept)
            if result.samples > result.kept:
                self.watcher.advanced(run, result.samples - result.kept, standing)
        self.watcher.ended(run, "measured" if result.fresh else "done before", standing)
        self.done[task.asked.number] = Outcome(str(run.model), str(run.scenario), rows, fresh=result.fresh)

    def _failed(self, task: Task, error: HoldfastError) -> None:
        """One run that fails does not stop the others; a full disk does."""
        if isinstance(error, NoRoom):
            raise error
        if not isinstance(task, Begin) and not task.running.is_over:
            self.work.over(task.running)
        name, scenario = task.asked.name, str(task.asked.scenario)
        if task.asked.number not in self.done and not isinstance(error, Absent):
            self.watcher.note(f"{name} under {scenario}: {error}")
        self.done.setdefault(task.asked.number, Outcome(name, scenario, None, error=error))

    def _read(self, run: Run) -> Rows:
        self.store.files.fs.invalidate_cache()
        return self.store.read(run.key)

    def _note(self, reply: Reply) -> None:
        for text in reply.notes:
            self.watcher.note(text)


def _sent(handle: Any, task: Task) -> Any:
    if isinstance(task, Begin):
        return handle.begin.remote(task.asked, task.patience)
    if isinstance(task, ShardTask):
        return handle.measure.remote(task.running.handle, task.shards, task.again)
    return handle.finish.remote(task.running.handle)
