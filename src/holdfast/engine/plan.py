"""Plan: what would run, what is done, and what the rest will cost, from a short measurement or from the record."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.errors import Absent
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, Scenario
from holdfast.core.types import Batch, Classifier, Cost
from holdfast.core.values import split
from holdfast.engine.device import Width, device_name, full_precision, pick_device
from holdfast.engine.jobs import (
    Job,
    ModelLoader,
    RunOptions,
    as_holdfast_error,
    read_models,
    read_scenarios,
)
from holdfast.engine.passes_ahead import scenario_cost
from holdfast.engine.shards import on_device
from holdfast.engine.stored_rows import find_rows
from holdfast.engine.watch import BACKWARD, Expected, Watcher
from holdfast.store import Footer, Store
from holdfast.store.rows import ALL_LOGITS, EVERY

TRIAL = 32  # samples in a trial
REPEATS = 2


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a plan. `seconds` is at most: attacks let go of broken samples early. None where nobody can tell.

    `samples` is None where all are options of a dataset that nobody has opened yet.
    """

    model: str
    scenario: str
    samples: int | None
    done: int
    cost: Cost
    seconds: float | None
    problem: str | None = None

    @property
    def state(self) -> str:
        if self.problem is not None:
            return "cannot run"
        if self.samples is not None and self.done >= self.samples:
            return "done"
        return "under way" if self.done else "to do"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds per sample of one pass through a model."""

    forward: float
    backward: float


def plan(
    models: Sequence[str | Ref | Classifier],
    scenarios: Sequence[str | Scenario],
    *,
    store: Store,
    options: RunOptions | None = None,
    device: str = "auto",
) -> list[Planned]:
    """Every run in the order it would be made."""
    options = options or RunOptions()
    loader = ModelLoader(pick_device(device), store)
    requested = read_scenarios(scenarios)
    planned = []
    with full_precision():
        for model in read_models(models):
            paces: dict[str, Pace] = {}
            for scenario in requested:
                name = str(model) if isinstance(model, Ref) else model.card.name
                try:
                    job = loader.job(model, scenario, options)
                    planned.append(_planned(job, store, loader.device, paces))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - models and plug-ins are other people's code
                    failure = as_holdfast_error(error)
                    planned.append(Planned(name, str(scenario), 0, 0, Cost(), None, failure.problem))
    return planned


def recorded_plan(
    models: Sequence[str | Ref],
    scenarios: Sequence[str | Scenario],
    *,
    store: Store,
    options: RunOptions | None = None,
    device: str = "auto",
) -> list[Planned]:
    """The same from the store alone: no model, no data is opened, so thousands of models are planned in seconds.

    Runs are known by their refs, their seed and their choice of samples; whether weights or data have changed since is
    not looked at. A pace is that of the model's finished runs on this device, None where it has none.
    """
    options = options or RunOptions()
    record = StoreRecord(store, device_name(pick_device(device)), options)
    requested = [(str(each), ScenarioKey.of(each), scenario_cost(each)) for each in read_scenarios(scenarios)]
    planned = []
    for model in read_models(models):
        assert isinstance(model, Ref), "a model in memory is not known by its ref"
        name, full = str(model), model.full
        pace = record.paces.get(full)
        for text, scenario, cost in requested:
            samples, done = record.progress(full, scenario)
            left = None if samples is None else max(0, samples - done)
            seconds = 0.0 if left == 0 else None
            if left and pace is not None:
                seconds = left * pace * passes(cost.forwards, cost.backwards)
            planned.append(Planned(name, text, samples, done, cost, seconds))
    return planned


def expected(
    scenarios: Sequence[Scenario], loader: ModelLoader, options: RunOptions, watcher: Watcher
) -> list[Expected]:
    """What each scenario will take at most; notes which cannot run because their data is not here."""
    absent: list[str] = []
    runs = []
    for scenario in scenarios:
        try:
            there = len(loader.dataset(scenario.dataset).ids)
        except Absent as missing:
            absent.append(str(missing))
            continue
        except (Exception, SystemExit):  # noqa: BLE001 - reported when the run is made
            continue
        samples = there if options.samples is None else min(there, options.samples)
        cost = scenario_cost(scenario)
        runs.append(Expected(str(scenario), samples, cost.forwards, cost.backwards))
    for why, count in Counter(absent).items():
        watcher.note(f"{count} of {len(scenarios)} scenarios wait for data: {why}")
    return runs


class StoreRecord:
    """What a store knows of runs with these options, by their refs. `paces`: seconds per pass and sample, by model."""

    def __init__(self, store: Store, device: str, options: RunOptions) -> None:
        self.options = options
        self.runs: dict[tuple[str, str, tuple[int, ...]], list[StoredRun]] = defaultdict(list)
        self.populations: dict[str, int] = {}
        spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # passes, seconds
        for footer in store.footers().values():
            self._add(footer, footer.n, is_done=True)
            if footer.device == device:
                spent[footer.model_full][0] += passes(footer.forwards, footer.backwards)
                spent[footer.model_full][1] += footer.seconds
        for parts in store.unfinished().values():
            if parts:
                self._add(parts[0].footer, len({name for rows in parts for name in rows.ids}), is_done=False)
        self.paces = {model: seconds / count for model, (count, seconds) in spent.items() if count and seconds}

    def progress(self, model: str, scenario: ScenarioKey) -> tuple[int | None, int]:
        """Samples asked for, and how many of them are there."""
        there, asked = self.populations.get(scenario.dataset), self.options.samples
        samples = asked if there is None else min(there, asked or there)
        known = self.runs.get((model, scenario.full, scenario.versions))
        if not known:
            return samples, 0
        selection = (None if samples == there else samples, self.options.precision)
        same = [each for each in known if each.is_done and each.selection == selection]
        if same:
            return same[0].n, same[0].n
        most = max(each.n for each in known)
        return samples, most if samples is None else min(samples, most)

    def _add(self, footer: Footer, n: int, *, is_done: bool) -> None:
        has_logits = footer.card.classes <= ALL_LOGITS or footer.logits == EVERY
        if footer.seed == self.options.seed and (has_logits or not self.options.logits):
            versions = tuple(change.version for change in footer.changes)
            known = self.runs[footer.model_full, footer.scenario_full, versions]
            known.append(StoredRun((footer.samples, footer.precision), n, is_done))
        self.populations[split(footer.scenario_full, "+")[0]] = footer.population


class StoredRun(NamedTuple):
    """One run that a store holds: its choice of samples, and how many rows there are."""

    selection: tuple[int | None, float | None]
    n: int
    is_done: bool


class ScenarioKey(NamedTuple):
    """A scenario as footers have it."""

    full: str
    versions: tuple[int, ...]
    dataset: str

    @classmethod
    def of(cls, scenario: Scenario) -> ScenarioKey:
        return cls(scenario.full, tuple(part.version for part in scenario.changes), scenario.dataset.full)


def passes(forwards: int, backwards: int) -> float:
    """In forward passes."""
    return forwards + BACKWARD * backwards


def _planned(job: Job, store: Store, device: torch.device, paces: dict[str, Pace]) -> Planned:
    job, rows = find_rows(job, store, lambda _: None)
    samples, run = len(job.order), job.run
    cost = scenario_cost(run.scenario)
    if rows is not None:
        return Planned(str(run.model), str(run.scenario), samples, samples, cost, 0.0)
    there = {name for rows in [*store.parts(run.key), *store.siblings(job.footer)] for name in rows.ids}
    done = sum(job.dataset.ids[i] in there for i in job.order)
    if run.data not in paces:
        batch = _trial(job, device)
        width = min(len(batch), Width.for_model(job.model, job.dataset.card, device).value)
        paces[run.data] = pace_on(job.model, batch.images[:width], device)
    each = paces[run.data].forward * cost.forwards + paces[run.data].backward * cost.backwards
    seconds = (samples - done) * (each + _rendering(job, device))
    return Planned(str(run.model), str(run.scenario), samples, done, cost, seconds)


def pace_on(model: Classifier, images: Tensor, device: torch.device) -> Pace:
    """Times passes of these images."""

    def forward() -> None:
        with torch.no_grad():
            model(images)

    def both() -> None:
        leaf = images.clone().requires_grad_()
        torch.autograd.grad(model(leaf).logsumexp(1).sum(), leaf)

    forwards = _timed(forward, device) / len(images)
    if not model.card.differentiable:
        return Pace(forwards, 0.0)
    return Pace(forwards, max(0.0, _timed(both, device) / len(images) - forwards))


def _rendering(job: Job, device: torch.device) -> float:
    """Seconds per sample that corruptions and decoding take, timed on a few images; attacks are counted in passes."""
    begun = time.perf_counter()
    batch = _trial(job, device)
    seconds = time.perf_counter() - begun
    noise = Noise.of(job.run.seed, batch.ids, device)
    for ref, change in job.changes:
        if ref.kind == "corruption":
            seconds += _timed(partial(change, job.model, batch, noise, width=len(batch)), device)
    return seconds / max(1, len(batch))


def _trial(job: Job, device: torch.device) -> Batch:
    index = job.order[:TRIAL]
    images = job.dataset.images(index.tolist())
    labels = torch.from_numpy(job.dataset.labels[index]).to(device)
    return Batch(on_device(images.pixels, device), labels, tuple(job.dataset.ids[i] for i in index))


def _timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, the better of two after a warm-up."""
    times = []
    for _ in range(1 + REPEATS):
        begun = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return min(times[1:])
