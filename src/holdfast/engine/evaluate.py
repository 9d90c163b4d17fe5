"""Evaluate: measure what the store does not hold yet, keep every finished shard, resume where it stopped."""

from __future__ import annotations

import contextlib
import platform
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray

import holdfast
from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import wilson
from holdfast.core.refs import Ref, Scenario
from holdfast.core.types import Classifier, Flag, Score
from holdfast.engine.device import Width, device_name, full_precision, pick_device
from holdfast.engine.gallery import add_pictures
from holdfast.engine.jobs import Job, Wanted, Workshop, read_models, read_scenarios
from holdfast.engine.loading import Shard, shards_ahead
from holdfast.engine.measure import Measured, Setting, measure
from holdfast.engine.trust import tally_flags
from holdfast.engine.watch import Silent, Watcher
from holdfast.models.rough import Speed
from holdfast.store import Footer, Rows, Store
from holdfast.store.files import NoRoom
from holdfast.store.rows import to_rows

KEEP_EVERY = 2.0  # seconds between writes of finished shards: what a kill can cost
CHECKPOINT = 100  # samples between looks at the precision, so that where a run stops does not depend on its batches
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended: without rows it failed, and `error` says why; not `fresh`: it was done before."""

    model: str
    scenario: str
    rows: Rows | None
    fresh: bool = False
    error: HoldfastError | None = None


def evaluate(
    models: str | Ref | Classifier | Sequence[str | Ref | Classifier],
    scenarios: str | Scenario | Sequence[str | Scenario],
    *,
    store: Store | str = "holdfast-store",
    seed: int = 0,
    samples: int | None = None,
    precision: float | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    speed: Speed = "auto",
    pictures: int = 6,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Measures every model under every scenario. What the store holds already is not measured again.

    One run that fails does not stop the others: its outcome carries the error. A full disk stops everything.
    `speed` is about gradients on a GPU: `exact` is float32; the others are bfloat16, which float32 confirms.
    """
    watcher = watcher or Silent()
    store = Store(store) if isinstance(store, str) else store
    wanted = Wanted(seed, samples, precision, batch_size, speed)
    asked_models, asked_scenarios = read_models(_listed(models)), read_scenarios(_listed(scenarios))
    workshop = Workshop(pick_device(device))
    watcher.planned(len(asked_models) * len(asked_scenarios))
    outcomes = []
    with full_precision():
        for model in asked_models:
            for scenario in asked_scenarios:
                name = str(model) if isinstance(model, Ref) else model.card.name
                try:
                    job = workshop.job(model, scenario, wanted)
                    outcomes.append(_done(job, store, workshop, wanted, pictures, watcher))
                except NoRoom:
                    raise
                except Exception as error:  # noqa: BLE001 - models and plug-ins are other people's code
                    failure = error if isinstance(error, HoldfastError) else _foreign(error)
                    outcomes.append(Outcome(name, str(scenario), None, error=failure))
                    watcher.note(f"{name} under {scenario}: {failure}")
    return outcomes


def _foreign(error: Exception) -> HoldfastError:
    """An error that is not ours, with the place it came from, so that the other runs go on."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    failure = HoldfastError(
        f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})",
        hint="`holdfast check MODEL` looks for what is wrong with a model",
    )
    failure.__cause__ = error
    return failure


def _listed(items: Item | Sequence[Item]) -> Sequence[Item]:
    return items if isinstance(items, list | tuple) else [items]  # type: ignore[list-item]


def _done(job: Job, store: Store, workshop: Workshop, wanted: Wanted, pictures: int, watcher: Watcher) -> Outcome:
    run, device = job.run, workshop.device
    if store.has(run.key):
        rows = store.read(run.key)
        watcher.began(run, len(rows), len(rows))
        watcher.ended(run, "done before", _standing(rows))
        return Outcome(str(run.model), str(run.scenario), rows)
    width = Width(wanted.batch_size) if wanted.batch_size else Width.for_model(job.model, job.dataset.card, device)
    workshop.quicken(job, wanted.speed, width.value, watcher.note)
    rows = Evaluation(job, store, device, width, watcher, workshop.flags(job)).finished()
    if pictures:
        add_pictures(store, job, rows, device, width, pictures)
    watcher.ended(run, "measured", _standing(rows))
    return Outcome(str(run.model), str(run.scenario), rows, fresh=True)


@dataclass
class Evaluation:
    """One run under way."""

    job: Job
    store: Store
    device: torch.device
    width: Width
    watcher: Watcher
    flags: tuple[Flag, ...]
    kept: list[Rows] = field(default_factory=list)
    right: dict[str, bool] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def finished(self) -> Rows:
        """Measures what is missing and writes the run's rows. Ctrl-C keeps every finished shard."""
        job, run = self.job, self.job.run
        self._adopt()
        order = [job.dataset.ids[i] for i in job.order]
        self.watcher.began(run, len(order), sum(name in self.right for name in order))
        fresh: list[Rows] = []
        since = time.perf_counter()
        try:
            for rows in self._fresh_rows(order):
                fresh.append(rows)
                if time.perf_counter() - since >= KEEP_EVERY:
                    self._keep(fresh)
                    since = time.perf_counter()
        except BaseException:
            self._keep(fresh)
            raise
        self.kept += fresh
        wanted = order[: self._reached(order)]
        place = {name: i for i, name in enumerate(job.dataset.ids)}
        wanted.sort(key=place.__getitem__)
        return self.store.finish(self.kept, wanted, self._final_footer())

    def _adopt(self) -> None:
        """Takes over finished shards of this run, and rows of the same measurement on another choice of samples."""
        self.kept = [*self.store.parts(self.job.run.key), *self.store.siblings(self.job.footer)]
        for rows in self.kept:
            self.right.update(zip(rows.ids, rows.correct.tolist(), strict=True))

    def _missing(self, order: list[str]) -> list[NDArray[np.int64]]:
        """Shards of the fixed division that are not wholly there."""
        positions = self.job.order
        size = shard_size(self.width.value)
        divided = [positions[i : i + size] for i in range(0, len(positions), size)]
        named = [order[i : i + size] for i in range(0, len(order), size)]
        return [
            shard for shard, names in zip(divided, named, strict=True) if any(name not in self.right for name in names)
        ]

    def _fresh_rows(self, order: list[str]) -> Iterator[Rows]:
        """Measures shard after shard. A GPU works on the next one while the rows of the last are made."""
        ahead = self.device.type == "cuda" and all(ref.kind != "attack" for ref, _ in self.job.changes)
        setting, under_way = self.job.setting(self.device), deque[Measured]()
        begun = time.perf_counter()
        with contextlib.closing(shards_ahead(self.job.dataset, self._missing(order))) as shards:
            for shard in shards:
                if self._reached(order) is not None:
                    return
                under_way.append(self._measured(setting, shard))
                if len(under_way) > ahead:
                    now = time.perf_counter()
                    yield self._rows(under_way.popleft(), now - begun)
                    begun = now
        for measured in under_way:
            yield self._rows(measured, time.perf_counter() - begun)

    def _measured(self, setting: Setting, shard: Shard) -> Measured:
        return self.width.recovering(lambda width: measure(setting, shard, width=width), self.watcher.note)

    def _rows(self, measured: Measured, seconds: float) -> Rows:
        predictions = measured.predictions()
        footer = replace(
            self._footer(),
            seconds=seconds,
            facts=self.job.footer.facts | measured.journey.facts,
            tallies=measured.journey.tallies,
            forwards=int(predictions.forwards.sum()),
            backwards=int(predictions.backwards.sum()),
        )
        rows = to_rows(predictions, footer)
        self.right.update(zip(rows.ids, rows.correct.tolist(), strict=True))
        self.watcher.advanced(self.job.run, len(rows), wilson(sum(self.right.values()), len(self.right)))
        return rows

    def _reached(self, order: list[str]) -> int | None:
        """How many samples suffice for the precision asked for; None while there are not enough."""
        precision = self.job.run.precision
        if precision is None:
            return None
        right = 0
        for i, name in enumerate(order, 1):
            if name not in self.right:
                return None
            right += self.right[name]
            if i % CHECKPOINT == 0 and _half_width(wilson(right, i)) <= precision:
                return i
        return None

    def _keep(self, fresh: list[Rows]) -> None:
        """Writes finished shards, so that whatever happens next they are there."""
        while fresh:
            self.store.add_part(fresh[0])
            self.kept.append(fresh.pop(0))

    def _footer(self) -> Footer:
        about = device_name(self.device)
        return replace(self.job.footer, started=self.started, device=about, versions=versions(), flags=self.flags)

    def _final_footer(self) -> Footer:
        own = [rows.footer for rows in self.kept if rows.footer.key == self.job.run.key]
        others = [rows.footer for rows in self.kept if rows.footer.key != self.job.run.key]
        facts = {name: text for footer in [*others, *own] for name, text in footer.facts.items()}
        if others:
            facts["rows taken over from"] = ", ".join(footer.key for footer in others)
        tallies: dict[str, int] = {}
        for footer in own:
            for name, count in footer.tallies.items():
                tallies[name] = tallies.get(name, 0) + count
        return replace(
            self._footer(),
            flags=self.flags + tally_flags(tallies),
            started=min((footer.started for footer in own), default=self.started),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=sum(footer.seconds for footer in own),
            forwards=sum(footer.forwards for footer in own),
            backwards=sum(footer.backwards for footer in own),
            facts=facts,
            tallies=tallies,
        )


def shard_size(width: int) -> int:
    """Samples in a shard: enough to refill a batch a few times, few enough that a slow model shows progress.

    The same at every start, so that a resumed run meets the same batches as an undisturbed one.
    """
    return max(64, 4 * width)


def versions() -> dict[str, str]:
    return {
        "holdfast": holdfast.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pyarrow": pyarrow.__version__,
        "python": platform.python_version(),
    }


def _standing(rows: Rows) -> Score:
    return wilson(int(rows.correct.sum()), len(rows))


def _half_width(score: Score) -> float:
    return (score.high - score.low) / 2
