"""Evaluate on a Ray cluster: the rows of one process, from as many devices as there are.

Ray starts the actors, notices which die, and carries messages and models. The store alone holds what is done, so
an actor, a node or this process may die at any moment and nothing finished is lost.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.core.errors import Absent, HoldfastError, Misuse
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Classifier, Score
from holdfast.engine.evaluate import KEEP_EVERY
from holdfast.engine.jobs import RunOptions
from holdfast.engine.ledger import Ledger
from holdfast.engine.order import evenly
from holdfast.engine.outcomes import Outcome, standing
from holdfast.engine.ray.actor import Actor, Begun, Ended, JobContext, Reply, ShardsMeasured
from holdfast.engine.ray.cluster import (
    actor_device,
    connected,
    device_count,
    first_line,
    installed_ray,
    refuse_memory,
    token_in,
)
from holdfast.engine.ray.tasks import ActorTask, ModelQueues, PackedModel, RunProgress, RunRequest
from holdfast.engine.watch import Expected, Watcher
from holdfast.store import Store
from holdfast.store.files import NoRoom

PATIENCE = 30.0  # seconds without an actor until the user is told that the job waits for one


def evaluate_on_ray(
    models: Sequence[Ref | Classifier],
    scenarios: Sequence[Scenario],
    store: Store,
    options: RunOptions,
    device: str,
    pictures: int,
    watcher: Watcher,
    address: str | None = None,
    actors: int | None = None,
    retries: int = 3,
) -> list[Outcome]:
    """Measures every model under every scenario on a Ray cluster, with one actor per device.

    Joins the cluster at `address` or $RAY_ADDRESS; without either it starts Ray on this machine and stops it again.
    A task whose actor died is given to another, `retries` times at most.
    """
    ray = installed_ray()
    if actors is not None and actors < 1:
        raise Misuse(f"--actors is 1 or more, got {actors}")
    refuse_memory(store)
    with connected(ray, address, actors), token_in(store) as token:
        packed = [_packed(ray, model) for model in models]
        requests = [RunRequest(model, scenario) for model in packed for scenario in evenly(scenarios)]
        context = JobContext(
            store=store.files.root if store.files.is_local else store.url,
            token=token,
            options=options,
            pictures=pictures,
            device=actor_device(ray, device),
        )
        driver = Driver(ray, store, watcher, ModelQueues(requests, alone=KEEP_EVERY), retries)
        try:
            driver.start(context, actors or device_count(ray, context.device))
            outcomes = driver.outcomes(scenarios, len(packed))
        finally:
            driver.stop()
    return [outcomes[model.key, scenario.key] for model in packed for scenario in scenarios]


def _packed(ray: Any, model: Ref | Classifier) -> Ref | PackedModel:
    """A ref travels as it is, a live model through Ray's object store, where it can be pickled."""
    if isinstance(model, Ref):
        return model
    try:
        content = ray.put(model)
    except Exception as error:
        raise Misuse(
            f"`{model.card.name}` cannot travel to other processes: {type(error).__name__}: {error}",
            hint="name a function that makes it, `python:module:factory`, or save it and name the file, `file:PATH`",
        ) from error
    return PackedModel(f"{model.card.name} {uuid.uuid4().hex}", model.card.name, content)


@dataclass(eq=False, slots=True)
class Worker:
    """An actor, the model it has loaded, and the reply that is awaited from it: to a task, or to `hello`."""

    handle: Any = None
    reply: Any = None
    task: ActorTask | None = None
    loaded: str | None = None
    is_ready: bool = False


class Driver:
    """Gives tasks to actors, acts on their replies, and informs the watcher."""

    def __init__(self, ray: Any, store: Store, watcher: Watcher, queues: ModelQueues, retries: int) -> None:
        self.ray, self.store, self.watcher, self.queues, self.retries = ray, store, watcher, queues, retries
        self.workers: list[Worker] = []
        self.done: dict[tuple[str, str], Outcome] = {}
        self.refusals: set[str] = set()
        self.has_waited = False

    def start(self, context: JobContext, count: int) -> None:
        """Asks Ray for so many actors; each works as soon as there is a device for it."""
        options = {"num_cpus": 1, "num_gpus": int(context.device == "cuda"), "max_restarts": self.retries}
        self.new_actor = partial(self.ray.remote(Actor).options(**options).remote, context)
        self.workers = [self._started(Worker()) for _ in range(count)]

    def stop(self) -> None:
        for worker in self.workers:
            self._end(worker)

    def outcomes(self, scenarios: Sequence[Scenario], models: int) -> dict[tuple[str, str], Outcome]:
        """Does all the work there is; the outcome of every run by the keys of its model and scenario."""
        self.watcher.planned(self._expected(scenarios) * models)
        while not self.queues.is_empty or any(worker.task for worker in self.workers):
            for worker in self._idle():
                self._assign(worker)
            self._receive()
        return self.done

    def _idle(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.reply is None]

    def _expected(self, scenarios: Sequence[Scenario]) -> list[Expected]:
        """What is to come, from the first actor that is ready: the data need not be where this process is."""
        while True:
            while not (idle := self._idle()):
                self._receive()
            try:
                reply = self.ray.get(idle[0].handle.expected.remote(scenarios))
            except self.ray.exceptions.RayError:
                self._replace(idle[0])
                continue
            self._note(reply)
            return reply.result or []

    def _assign(self, worker: Worker) -> None:
        ready = [each for each in self.workers if each.is_ready]
        held = Counter(each.loaded for each in ready if each.loaded is not None)
        task = self.queues.next(worker.loaded, held, len(ready))
        if task is not None:
            worker.loaded, worker.task = task.run.request.model.key, task
            worker.reply = getattr(worker.handle, task.method).remote(*task.args)

    def _receive(self) -> None:
        """Waits for the next reply and acts on it."""
        awaited = {worker.reply: worker for worker in self.workers if worker.reply is not None}
        replies: list[Any] = []
        while not replies:
            replies, _ = self.ray.wait(list(awaited), timeout=PATIENCE)
            if not replies and not self.has_waited and not any(worker.is_ready for worker in self.workers):
                self.has_waited = True
                self.watcher.note("waiting for a free device on the cluster; `ray status` shows what is taken")
        worker = awaited[replies[0]]
        task, worker.task, worker.reply = worker.task, None, None
        try:
            reply = self.ray.get(replies[0])
        except self.ray.exceptions.RayError as error:
            self._died(worker, task, error)
            return
        self._note(reply)
        if task is None:
            self._greeted(worker, reply.error)
        else:
            task.run.out -= 1
            if not task.run.is_over:
                self._completed(task.run, reply)

    def _started(self, worker: Worker) -> Worker:
        """Has Ray start an actor once a device is free, and again, `retries` times, where it dies as it starts."""
        worker.handle, worker.is_ready, worker.loaded = self.new_actor(), False, None
        worker.reply = worker.handle.hello.options(max_task_retries=-1).remote()
        return worker

    def _replace(self, worker: Worker) -> None:
        """Ends an actor for good, even one that is only out of reach: its task is someone else's now."""
        self._end(worker)
        self._started(worker)

    def _greeted(self, worker: Worker, error: HoldfastError | None) -> None:
        """An actor that cannot work where it is ends: the job goes on without it, as long as there is another."""
        worker.is_ready = error is None
        if error is not None:
            self._drop(worker, error)
            if str(error) not in self.refusals:
                self.refusals.add(str(error))
                self.watcher.note(f"going on without one actor: {error}")

    def _died(self, worker: Worker, task: ActorTask | None, error: Exception) -> None:
        """Gives the task to whoever is idle next: Ray would keep it for this actor, which may wait for a device."""
        if task is None:
            hint = "can every node run `python -c 'import holdfast.engine.evaluate'`? `ray status` may know more"
            self._drop(worker, HoldfastError(f"no actor stays alive: {first_line(error)}", hint=hint))
            return
        self.watcher.note(f"an actor died, another does its work: {first_line(error)}")
        self._replace(worker)
        task.run.out -= 1
        task.deaths += 1
        if task.run.is_over:
            return
        if task.deaths <= self.retries:
            task.run.lost.append(task)
            return
        problem = f"the process that measured it died {task.deaths} times at the same place"
        hint = "it may be out of memory: try a smaller --batch-size, or `--engine local` to see it die"
        self._failed(task.run, HoldfastError(problem, hint=hint))

    def _drop(self, worker: Worker, error: HoldfastError) -> None:
        self._end(worker)
        self.workers.remove(worker)
        if not self.workers:
            raise error

    def _end(self, worker: Worker) -> None:
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.ray.kill(worker.handle, no_restart=True)

    def _completed(self, run: RunProgress, reply: Reply) -> None:
        result = reply.result
        if reply.error is not None:
            self._failed(run, reply.error)
        elif isinstance(result, Begun):
            ledger = Ledger(result.correct.copy(), result.handle.run.precision)
            run.begun(result.handle, ledger, result.missing, result.pace)
            self._show(result.handle.run, len(ledger.correct), result.kept, ledger.known, ledger.standing)
        elif isinstance(result, ShardsMeasured):
            assert run.handle is not None, "a run is begun before its shards are measured"
            count = run.measured(result.shards, result.seconds)
            self.watcher.advanced(run.handle.run, count, run.ledger.standing)
        else:
            assert isinstance(result, Ended), f"an actor replied {result}"
            self._ended(run, result)

    def _show(self, run: Run, samples: int, kept: int, known: int, score: Score | None) -> None:
        """A run that began, with what was measured since."""
        self.watcher.began(run, samples, kept)
        if known > kept:
            self.watcher.advanced(run, known - kept, score)

    def _ended(self, progress: RunProgress, result: Ended) -> None:
        run = result.run
        self.store.files.fs.invalidate_cache()
        rows = self.store.read(run.key)
        if progress.handle is None:  # begun and ended in one task
            self._show(run, result.samples, result.kept, result.samples, standing(rows))
        self.queues.end(progress)
        self.watcher.ended(run, "measured" if result.fresh else "done before", standing(rows))
        self.done[progress.request.keys] = Outcome(str(run.model), str(run.scenario), rows, fresh=result.fresh)

    def _failed(self, run: RunProgress, error: HoldfastError) -> None:
        """One run that fails does not stop the others; a full disk does."""
        if isinstance(error, NoRoom):
            raise error
        self.queues.end(run)
        name, scenario = run.request.name, str(run.request.scenario)
        if not isinstance(error, Absent):
            self.watcher.note(f"{name} under {scenario}: {error}")
        self.done[run.request.keys] = Outcome(name, scenario, None, error=error)

    def _note(self, reply: Reply) -> None:
        for text in reply.notes:
            self.watcher.note(text)
