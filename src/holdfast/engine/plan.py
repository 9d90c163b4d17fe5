"""Plan: what would run, what is done, and what the rest will cost, from a short measurement."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from holdfast.core.errors import HoldfastError
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, Scenario
from holdfast.core.types import Batch, Classifier, Cost
from holdfast.engine.device import Width, full_precision, pick_device
from holdfast.engine.jobs import Job, Wanted, Workshop, read_models, read_scenarios
from holdfast.engine.loading import on_device
from holdfast.store import Store

TRIAL = 32  # samples in a trial
REPEATS = 2


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a plan. `seconds` is at most: attacks let go of broken samples early. None where it cannot run."""

    model: str
    scenario: str
    samples: int
    done: int
    cost: Cost
    seconds: float | None
    problem: str | None = None

    @property
    def state(self) -> str:
        if self.problem is not None:
            return "cannot run"
        if self.done >= self.samples:
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
    wanted: Wanted | None = None,
    device: str = "auto",
) -> list[Planned]:
    """Every run in the order it would be made."""
    wanted = wanted or Wanted()
    workshop = Workshop(pick_device(device))
    asked = read_scenarios(scenarios)
    planned = []
    with full_precision():
        for model in read_models(models):
            paces: dict[str, Pace] = {}
            for scenario in asked:
                name = str(model) if isinstance(model, Ref) else model.card.name
                try:
                    job = workshop.job(model, scenario, wanted)
                    planned.append(_planned(job, store, workshop.device, paces))
                except HoldfastError as error:
                    planned.append(Planned(name, str(scenario), 0, 0, Cost(), None, error.problem))
    return planned


def _planned(job: Job, store: Store, device: torch.device, paces: dict[str, Pace]) -> Planned:
    samples, run = len(job.order), job.run
    costs = [change.cost for _, change in job.changes]
    cost = Cost(1 + sum(each.forwards for each in costs), sum(each.backwards for each in costs))
    if store.has(run.key):
        return Planned(str(run.model), str(run.scenario), samples, samples, cost, 0.0)
    there = {name for rows in [*store.parts(run.key), *store.siblings(job.footer)] for name in rows.ids}
    done = sum(job.dataset.ids[i] in there for i in job.order)
    if run.data not in paces:
        paces[run.data] = pace(job, device)
    each = paces[run.data].forward * cost.forwards + paces[run.data].backward * cost.backwards
    seconds = (samples - done) * (each + _rendering(job, device))
    return Planned(str(run.model), str(run.scenario), samples, done, cost, seconds)


def pace(job: Job, device: torch.device) -> Pace:
    """Times passes through the model on a few real images."""
    batch = _trial(job, device)
    width = min(len(batch), Width.for_model(job.model, job.dataset.card, device).value)
    images = batch.images[:width]

    def forward() -> None:
        with torch.no_grad():
            job.model(images)

    def both() -> None:
        leaf = images.clone().requires_grad_()
        torch.autograd.grad(job.model(leaf).logsumexp(1).sum(), leaf)

    forwards = _timed(forward, device) / width
    if not job.model.card.differentiable:
        return Pace(forwards, 0.0)
    return Pace(forwards, max(0.0, _timed(both, device) / width - forwards))


def _rendering(job: Job, device: torch.device) -> float:
    """Seconds per sample that corruptions and decoding take, timed on a few images; attacks are counted in passes."""
    begun = time.perf_counter()
    batch = _trial(job, device)
    seconds = time.perf_counter() - begun
    noise = Noise.of(job.run.seed, batch.ids, device)
    for ref, change in job.changes:
        if ref.kind == "corruption":
            seconds += _timed(lambda change=change: change(job.model, batch, noise, width=len(batch)), device)
    return seconds / max(1, len(batch))


def _trial(job: Job, device: torch.device) -> Batch:
    index = job.order[:TRIAL]
    images = job.dataset.images(index.tolist())
    labels = torch.from_numpy(job.dataset.labels[index]).to(device)
    return Batch(on_device(images.pixels, device), labels, tuple(job.dataset.ids[i] for i in index))


def _timed(work: object, device: torch.device) -> float:
    """Seconds of one call, the better of two after a warm-up."""
    assert callable(work)
    times = []
    for _ in range(1 + REPEATS):
        begun = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return min(times[1:])
