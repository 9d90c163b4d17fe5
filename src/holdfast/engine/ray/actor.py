"""An actor: one process with one device that keeps its model loaded, measures shards and writes them itself."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

import holdfast
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Classifier
from holdfast.engine.device import Width, full_precision, pick_device
from holdfast.engine.evaluate import Evaluation, expected
from holdfast.engine.jobs import ModelLoader, RunOptions, as_holdfast_error, find_rows
from holdfast.engine.ray.tasks import RunHandle, RunRequest
from holdfast.engine.watch import Expected, SilentWatcher
from holdfast.models.classifier import TorchClassifier, borrowed
from holdfast.store import Store

MOST_UNDER_WAY = 4  # runs an actor has at hand
Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobContext:
    """What an actor must know of the process that asks: where it stands, what it wants, where rows go."""

    store: str
    token: str
    options: RunOptions
    pictures: int
    device: str
    folder: str
    path: tuple[str, ...]
    environment: dict[str, str]
    version: str

    def settle(self) -> None:
        """Makes relative paths, modules and settings mean here what they mean there, where the folder is here too."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path += [place for place in self.path if place not in sys.path]
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that ended in an error of ours, in words that travel."""

    error: HoldfastError


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is not whole yet; `answers` is its ledger, `kept` of it were there before."""

    handle: RunHandle
    answers: NDArray[np.int8]
    kept: int
    missing: tuple[range, ...]
    pace: float


@dataclass(frozen=True, slots=True)
class Shared:
    """What came of a share: which samples are right, shard by shard."""

    found: tuple[tuple[range, NDArray[np.bool_]], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A run whose rows are in the store; not `fresh`: they were there before."""

    run: Run
    samples: int
    kept: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What an actor says of a task, and what it noted on the way."""

    result: Any
    notes: tuple[str, ...]


class Notes(SilentWatcher):
    """Keeps what there is to note until the next reply."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    def taken(self) -> tuple[str, ...]:
        said, self.said = self.said, []
        return tuple(said)


def replying(
    method: Callable[Concatenate[Actor, Given], Result],
) -> Callable[Concatenate[Actor, Given], Reply]:
    """Errors travel as values: what Ray does to an exception would lose its hint."""

    @functools.wraps(method)
    def reply(self: Actor, /, *args: Given.args, **more: Given.kwargs) -> Reply:
        try:
            result: Any = method(self, *args, **more)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - models and plug-ins are other people's code
            result = Failed(portable(as_holdfast_error(error)))
        return Reply(result, self.notes.taken())

    return reply


def portable(error: HoldfastError) -> HoldfastError:
    """The error as the nearest kind that every installation knows."""
    kind = next(each for each in type(error).__mro__ if each.__module__.startswith("holdfast."))
    assert issubclass(kind, HoldfastError), "the search ends at HoldfastError"
    return kind(error.problem, hint=error.hint)


class Actor:
    """Works for one job. Two tasks may be inside at once: while one has the device, the other reads or writes."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.notes = Notes()
        self.busy, self.reading = threading.RLock(), threading.Lock()
        self.at_hand: dict[str, Evaluation] = {}
        self.unpacked: dict[str, Classifier] = {}
        self.holding: str | None = None
        self.open = contextlib.ExitStack()  # until the process ends

    @replying
    def hello(self) -> str:
        """Gets ready; the name of the machine."""
        self.context.settle()
        if holdfast.__version__ != self.context.version:
            raise HoldfastError(
                f"holdfast is {holdfast.__version__} on {platform.node()} and {self.context.version} at the driver",
                hint="install the same version on every node",
            )
        self.store = Store(self.context.store)
        if not self.store.files.exists(self.context.token):
            raise Misuse(
                f"{platform.node()} does not see the store {self.context.store}",
                hint="give --store a path that every node shares, such as a network folder or s3://bucket/rows",
            )
        self.open.enter_context(full_precision())
        device = pick_device(self.context.device)
        if device.type == "cpu":
            torch.set_num_threads(1)  # there are as many actors as cores
        self.loader = ModelLoader(device, self.store, self.notes.note)
        warnings.simplefilter("always", HoldfastWarning)
        warnings.showwarning = self._warned
        return platform.node()

    @replying
    def expected(self, scenarios: Sequence[Scenario]) -> list[Expected]:
        """What each scenario will take, as far as the data is here."""
        with self.busy:
            return expected(scenarios, self.loader, self.context.options, self.notes)

    @replying
    def begin(self, asked: RunRequest, patience: float) -> Begun | Ended:
        """Looks a run up, measures it for so many seconds, and finishes it where nothing is left to share."""
        with self.busy:
            job = self.loader.job(self._model(asked), asked.scenario, self.context.options)
            job, rows = find_rows(job, self.store, self.notes.note)
            if rows is not None:
                return Ended(job.run, len(rows), len(rows), fresh=False)
            evaluation = Evaluation.of(job, self.store, self.loader, self.context.options, self.notes)
            kept, missing = evaluation.ledger.known, len(evaluation.missing())
            begun = time.perf_counter()
            if missing <= 1:
                evaluation.advance()
            elif patience:
                evaluation.advance(patience)
            if evaluation.ledger.is_whole:
                return Ended(job.run, len(evaluation.joined(self.context.pictures)), kept, fresh=True)
            left = evaluation.missing()
            pace = (time.perf_counter() - begun) / (missing - len(left)) if missing > len(left) else 0.0
            handle = _handle(asked, evaluation)
            self._hand(evaluation)
            return Begun(handle, evaluation.ledger.answers, kept, tuple(left), pace)

    @replying
    def measure(self, handle: RunHandle, shards: Sequence[range], again: bool) -> Shared:
        """Measures shards and writes each into the store; what the store holds already is not measured again."""
        evaluation = self._evaluation(handle)
        there = self._there(handle.run) if again else {}
        found, seconds = [], 0.0
        for places in shards:
            names = evaluation.order[places.start : places.stop]
            if all(name in there for name in names):
                found.append((places, np.array([there[name] for name in names])))
                continue
            with self.reading:
                shard = evaluation.shard(places)
            with self.busy:
                rows = evaluation.rows(shard)
            self.store.add_part(rows)
            evaluation.drop_states()
            seconds += rows.footer.seconds
            found.append((places, np.asarray(rows.correct)))
        return Shared(tuple(found), seconds)

    @replying
    def finish(self, handle: RunHandle) -> Ended:
        """Joins the shards of a run into its rows. An actor that died over it may have done so already."""
        evaluation = self._evaluation(handle)
        with self.busy:
            if self.store.has(handle.run.key):
                return Ended(handle.run, len(self.store.read(handle.run.key)), 0, fresh=True)
            evaluation.adopt([*map(self.store.read, handle.siblings), *self.store.parts(handle.run.key)])
            rows = evaluation.joined(self.context.pictures)
            self.at_hand.pop(handle.run.key, None)
        return Ended(handle.run, len(rows), 0, fresh=True)

    def _model(self, asked: RunRequest) -> Ref | Classifier:
        """The model asked for; what is at hand of another one is let go first."""
        if self.holding != asked.model.key:
            self.at_hand.clear()
            self.unpacked.clear()
            self.holding = asked.model.key
        if isinstance(asked.model, Ref):
            return asked.model
        if asked.model.key not in self.unpacked:
            import ray
            from ray import cloudpickle

            model = cloudpickle.loads(ray.get(asked.model.content))
            if isinstance(model, TorchClassifier):
                self.open.enter_context(borrowed([model]))
            self.unpacked[asked.model.key] = model
        return self.unpacked[asked.model.key]

    def _evaluation(self, handle: RunHandle) -> Evaluation:
        """The run of a handle with everything loaded. Refuses where the files here are not those of the other nodes."""
        known = self.at_hand.get(handle.run.key)
        if known is not None:
            return known
        with self.busy:
            job = self.loader.job(self._model(handle.asked), handle.asked.scenario, self.context.options)
            job = replace(job, run=replace(job.run, behaviour=handle.run.behaviour))
            if job.run.key != handle.run.key:
                what = "weights" if job.run.weights != handle.run.weights else "data"
                raise HoldfastError(
                    f"the {what} of `{handle.run.model}` under `{handle.run.scenario}` on {platform.node()} are not "
                    "those of the other nodes",
                    hint="give every node the same files, or a path they share",
                )
            evaluation = Evaluation(
                job,
                self.store,
                self.loader,
                self.context.options,
                Width(handle.width),
                handle.flags,
                self.notes,
                handle.started,
            )
            self._hand(evaluation)
            return evaluation

    def _hand(self, evaluation: Evaluation) -> None:
        """Keeps a run at hand, without the rows it has in the store."""
        evaluation.kept.clear()
        self.at_hand[evaluation.job.run.key] = evaluation
        while len(self.at_hand) > MOST_UNDER_WAY:
            del self.at_hand[next(iter(self.at_hand))]

    def _there(self, run: Run) -> dict[str, bool]:
        """Which samples of a run the store holds in parts, and whether they are right."""
        parts = self.store.parts(run.key)
        return {name: right for rows in parts for name, right in zip(rows.ids, rows.correct.tolist(), strict=True)}

    def _warned(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, HoldfastWarning):
            self.notes.note(f"{platform.node()}: {message}")


def _handle(asked: RunRequest, evaluation: Evaluation) -> RunHandle:
    own = evaluation.job.run.key
    siblings = tuple(rows.footer.key for rows in evaluation.kept if rows.footer.key != own)
    return RunHandle(asked, evaluation.job.run, evaluation.width.value, evaluation.flags, evaluation.started, siblings)
