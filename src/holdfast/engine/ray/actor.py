"""An actor: one process with one device that keeps its model loaded, measures shards and writes them to the store."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

import holdfast
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse, NotRead
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.types import Classifier
from holdfast.engine.device import Width, full_precision, made_current, pick_device
from holdfast.engine.evaluate import Evaluation
from holdfast.engine.jobs import ModelLoader, RunOptions, as_holdfast_error
from holdfast.engine.ledger import Marks, marks
from holdfast.engine.plan import expected
from holdfast.engine.ray.tasks import RunHandle, RunRequest
from holdfast.engine.shards import shards_ahead
from holdfast.engine.stored_rows import find_rows
from holdfast.engine.watch import Expected, Watcher
from holdfast.models.classifier import TorchClassifier, borrowed
from holdfast.store import Store

MOST_OPEN = 4  # runs that an actor keeps loaded
Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobContext:
    """What an actor must know of the driver: its folder, modules and settings, its options, and where rows go."""

    store: str
    token: str
    options: RunOptions
    pictures: int
    device: str
    folder: str = field(default_factory=lambda: str(Path.cwd()))
    path: tuple[str, ...] = field(default_factory=lambda: tuple(str(Path(folder).resolve()) for folder in sys.path))
    environment: dict[str, str] = field(
        default_factory=lambda: {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    )
    version: str = holdfast.__version__

    def apply(self) -> None:
        """Makes relative paths, modules and settings mean the same here as at the driver, if its folder is here too."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        sys.path += [folder for folder in self.path if folder not in sys.path]
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)


class Begun(NamedTuple):
    """A run that is not complete yet; `correct` is its ledger, `kept` of them were in the store before."""

    handle: RunHandle
    correct: NDArray[np.int8]
    kept: int
    missing: tuple[range, ...]
    pace: float


class ShardsMeasured(NamedTuple):
    """The marks of samples, right or wrong, shard by shard."""

    shards: tuple[tuple[range, Marks], ...]
    seconds: float


class Ended(NamedTuple):
    """A run whose rows are in the store; not `fresh`: they were there before."""

    run: Run
    samples: int
    kept: int
    fresh: bool


class Reply(NamedTuple):
    """The result of a task or the error it ended in, and the notes made on the way."""

    result: Any
    error: HoldfastError | None
    notes: tuple[str, ...]


class Notes(Watcher):
    """Collects notes until the next reply."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)

    def take(self) -> tuple[str, ...]:
        texts, self.texts = self.texts, []
        return tuple(texts)


def replying(
    method: Callable[Concatenate[Actor, Given], Result],
) -> Callable[Concatenate[Actor, Given], Reply]:
    """Returns errors as values: as an exception, Ray would wrap it and lose its hint."""

    @functools.wraps(method)
    def reply(self: Actor, /, *args: Given.args, **more: Given.kwargs) -> Reply:
        try:
            return Reply(method(self, *args, **more), None, self.notes.take())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - models and plug-ins are other people's code
            return Reply(None, portable(as_holdfast_error(error)), self.notes.take())

    return reply


def portable(error: HoldfastError) -> HoldfastError:
    """The error as the nearest kind that every installation knows."""
    kind = next(each for each in type(error).__mro__ if each.__module__.startswith("holdfast."))
    assert issubclass(kind, HoldfastError), "the search ends at HoldfastError"
    return kind(error.problem, hint=error.hint)


class Actor:
    """Works for one job, one task at a time. Ray makes it anew where its process died."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.notes = Notes()
        self.evaluations: dict[str, Evaluation] = {}  # by run key
        self.unpacked: Classifier | None = None
        self.loaded: str | None = None
        self.open = contextlib.ExitStack()  # until the process ends
        self.refusal: HoldfastError | None = None
        try:
            self._prepare()
        except HoldfastError as error:
            self.refusal = error

    def _prepare(self) -> None:
        self.context.apply()
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
        self.open.enter_context(made_current(device))
        if device.type == "cpu":
            torch.set_num_threads(1)  # there are as many actors as cores
        self.loader = ModelLoader(device, self.store, self.notes.note)
        warnings.simplefilter("always", HoldfastWarning)
        warnings.showwarning = self._warned

    @replying
    def hello(self) -> str:
        """The name of the machine, or why the actor cannot work on it."""
        if self.refusal is not None:
            raise self.refusal
        return platform.node()

    @replying
    def expected(self, scenarios: Sequence[Scenario]) -> list[Expected]:
        """What each scenario will take, as far as the data is here."""
        return expected(scenarios, self.loader, self.context.options, self.notes)

    @replying
    def begin(self, request: RunRequest, alone: float) -> Begun | Ended:
        """Looks a run up, measures it for so many seconds, and finishes it where nothing is left to share."""
        job = self.loader.job(self._model(request), request.scenario, self.context.options)
        job, rows = find_rows(job, self.store, self.notes.note)
        if rows is not None:
            return Ended(job.run, len(rows), len(rows), fresh=False)
        evaluation = Evaluation.of(job, self.store, self.loader, self.context.options, self.notes)
        kept, missing = evaluation.ledger.known, len(evaluation.missing())
        begun = time.perf_counter()
        if missing <= 1:
            evaluation.advance()
        elif alone:
            evaluation.advance(alone)
        if evaluation.ledger.is_whole:
            return Ended(job.run, len(evaluation.joined(self.context.pictures)), kept, fresh=True)
        left = evaluation.missing()
        pace = (time.perf_counter() - begun) / (missing - len(left)) if missing > len(left) else 0.0
        siblings = tuple(rows.footer.key for rows in evaluation.kept if rows.footer.key != job.run.key)
        handle = RunHandle(request, job.run, evaluation.width.value, evaluation.flags, evaluation.started, siblings)
        self._keep(evaluation)
        return Begun(handle, evaluation.ledger.correct, kept, tuple(left), pace)

    @replying
    def measure(self, handle: RunHandle, shards: Sequence[range], retried: bool) -> ShardsMeasured:
        """Measures shards and writes each into the store; `retried`: the store may hold some of them already."""
        evaluation = self._evaluation(handle)
        stored = self._stored(handle.run) if retried else {}
        ids = {span: evaluation.order[span.start : span.stop] for span in shards}
        left = [span for span in shards if not all(name in stored for name in ids[span])]
        correct = {span: np.array([stored[name] for name in ids[span]], np.int8) for span in shards if span not in left}
        seconds = 0.0
        index = [evaluation.job.order[span.start : span.stop] for span in left]
        with contextlib.closing(shards_ahead(evaluation.job.dataset, index)) as read:
            for span, shard in zip(left, read, strict=True):
                if isinstance(shard, NotRead):
                    raise shard
                rows = evaluation.rows(shard)
                self.store.add_part(rows)
                evaluation.drop_states()
                seconds += rows.footer.seconds
                correct[span] = marks(rows)
        return ShardsMeasured(tuple(correct.items()), seconds)

    @replying
    def finish(self, handle: RunHandle) -> Ended:
        """Joins the shards of a run into its rows. An actor that died over it may have done so already."""
        evaluation = self._evaluation(handle)
        if self.store.has(handle.run.key):
            return Ended(handle.run, len(self.store.read(handle.run.key)), 0, fresh=True)
        evaluation.adopt([*map(self.store.read, handle.siblings), *self.store.parts(handle.run.key)])
        rows = evaluation.joined(self.context.pictures)
        self.evaluations.pop(handle.run.key, None)
        return Ended(handle.run, len(rows), 0, fresh=True)

    def _model(self, request: RunRequest) -> Ref | Classifier:
        """The model of a request; the runs of another one are dropped first."""
        if self.loaded != request.model.key:
            self.evaluations.clear()
            self.unpacked = None
            self.loaded = request.model.key
        if isinstance(request.model, Ref):
            return request.model
        if self.unpacked is None:
            import ray

            self.unpacked = model = ray.get(request.model.content)
            if isinstance(model, TorchClassifier):
                self.open.enter_context(borrowed([model]))
        return self.unpacked

    def _evaluation(self, handle: RunHandle) -> Evaluation:
        """The run with everything loaded. Refuses where the files here are not those of the other nodes."""
        if handle.run.key in self.evaluations:
            return self.evaluations[handle.run.key]
        job = self.loader.job(self._model(handle.request), handle.request.scenario, self.context.options)
        job = replace(job, run=replace(job.run, behaviour=handle.run.behaviour))
        if job.run.key != handle.run.key:
            what = "weights" if job.run.weights != handle.run.weights else "data"
            raise HoldfastError(
                f"the {what} of `{handle.run.model}` under `{handle.run.scenario}` on {platform.node()} are not "
                "those of the other nodes",
                hint="give every node the same files, or a path they share",
            )
        loaded = (job, self.store, self.loader, self.context.options)
        evaluation = Evaluation(*loaded, Width(handle.width), handle.flags, self.notes, handle.started)
        self._keep(evaluation)
        return evaluation

    def _keep(self, evaluation: Evaluation) -> None:
        """Keeps a run loaded, without the rows it has in the store."""
        evaluation.kept.clear()
        self.evaluations[evaluation.job.run.key] = evaluation
        while len(self.evaluations) > MOST_OPEN:
            del self.evaluations[next(iter(self.evaluations))]

    def _stored(self, run: Run) -> dict[str, int]:
        """Which samples of a run the store holds in parts, with their marks."""
        parts = self.store.parts(run.key)
        return {name: right for rows in parts for name, right in zip(rows.ids, marks(rows).tolist(), strict=True)}

    def _warned(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, HoldfastWarning):
            self.notes.note(f"{platform.node()}: {message}")
