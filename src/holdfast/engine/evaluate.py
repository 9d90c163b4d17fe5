"""Evaluate: measure what the store does not hold yet, keep every finished shard, resume where it stopped."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import torch

from holdfast.attacks.saved_loops import SavedLoops, saving
from holdfast.core.config import STORE, read_config
from holdfast.core.errors import Absent, Misuse, NotRead
from holdfast.core.refs import Ref, Run, digest
from holdfast.core.types import Flag, drop_recordings, fast_version_of
from holdfast.engine.device import Width, device_name, full_precision, installed_versions, made_current, pick_device
from holdfast.engine.flags import tally_flags
from holdfast.engine.gallery import add_pictures, mend_pictures
from holdfast.engine.inputs import Inputs, keep_names, read_inputs
from holdfast.engine.jobs import Job, ModelLoader, RecordedModel, RunOptions, as_holdfast_error
from holdfast.engine.ledger import Ledger, marks
from holdfast.engine.measure import Measured, MeasureSettings, measure
from holdfast.engine.order import evenly
from holdfast.engine.outcomes import Outcome, OutcomeList, standing
from holdfast.engine.passes_ahead import PassesAhead
from holdfast.engine.plan import expected
from holdfast.engine.shards import Shard, shard_size, shards_ahead
from holdfast.engine.stored_rows import changed_samples, failure_flags, find_rows, needed
from holdfast.engine.survivor_probe import probed
from holdfast.engine.watch import StderrWatcher, Watcher, default_watcher
from holdfast.models.classifier import borrowed
from holdfast.models.fast import FastModel, Speed
from holdfast.store import Footer, Rows, Store, as_store
from holdfast.store.files import NoRoom
from holdfast.store.rows import to_rows, without

KEEP_EVERY = 2.0  # seconds between writes of finished shards: what a kill can cost
Engine = Literal["local", "ray"]


def evaluate(
    models: object,
    scenarios: object,
    *,
    changes: str | Sequence[str] | None = None,
    name: str | None = None,
    data_name: str = "data",
    store: Store | str | Path | None = None,
    seed: int = 0,
    samples: int | None = None,
    precision: float | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    speed: Speed = "auto",
    logits: str = "",
    pictures: int = 6,
    watcher: Watcher | None = None,
    engine: Engine = "local",
    address: str | None = None,
    actors: int | None = None,
) -> OutcomeList:
    """Measures every model under every scenario. What the store holds already is not measured again.

    `models`: a torch module, a classifier, a ref, a list of these, or a dict of them by name; `name` names a single
    one. `scenarios`: texts such as `cifar10+fog:severity=3`; or data, with `changes` saying what happens to it: a pair
    `(images, labels)`, a torch Dataset or a DataLoader. Modules stay as they are: mode, gradients, device.

    One run that fails does not stop the others: its outcome carries the error. A full disk stops everything.
    `speed` is about gradients on a GPU: `exact` is float32; the others are float16, tried against float32 on this model
    before they are used, and float32 confirms every success. `logits="all"` keeps every logit above 128 classes too,
    where rows otherwise keep the ten largest. Rows go to the folder `store`, by default that of holdfast.toml, else
    `holdfast-store`.

    `engine="ray"` uses every device of a Ray cluster, with the same rows: the one at `address` or $RAY_ADDRESS, else of
    this machine; with one actor per device, or as many as `actors`.
    """
    if engine not in get_args(Engine):
        raise Misuse(f"--engine is local or ray, got `{engine}`")
    if engine == "local" and (address is not None or actors is not None):
        raise Misuse("--address and --actors are for --engine ray")
    watcher = watcher or default_watcher()
    config = read_config()
    device = device or config.defaults.device or "auto"
    store = as_store(store or config.defaults.store or STORE)
    options = RunOptions(seed, samples, precision, batch_size, speed, logits)
    requested = read_inputs(models, scenarios, changes=changes, name=name, data_as=data_name)
    keep_names(store, requested.models, requested.scenarios)
    if engine == "local":
        outcomes = _evaluate_here(requested, store, options, device, pictures, watcher)
    elif requested.data:
        raise Misuse("data in memory does not travel to a Ray cluster", hint="save it and name it: `arrays:PATH`")
    else:
        from holdfast.engine.ray.driver import evaluate_on_ray

        outcomes = evaluate_on_ray(*requested[:2], store, options, device, pictures, watcher, address, actors)
    watcher.job_ended()
    names = store.names()
    outcomes = [each.shown_as(names.shown) for each in outcomes]
    reused = sum(outcome.rows is not None and not outcome.fresh for outcome in outcomes)
    if reused and isinstance(watcher, StderrWatcher):
        watcher.note(f"{reused} of {len(outcomes)} runs were measured before: their rows in {store.url} are used again")
    return OutcomeList(outcomes)


def _evaluate_here(
    requested: Inputs, store: Store, options: RunOptions, device: str, pictures: int, watcher: Watcher
) -> list[Outcome]:
    models, scenarios, data = requested
    loader = ModelLoader(pick_device(device), store, watcher.note, data)
    coming = expected(scenarios, loader, options, watcher)
    watcher.planned(coming * len(models))
    outcomes: dict[tuple[int, str], Outcome] = {}
    with full_precision(), made_current(loader.device), borrowed(models):
        for i, model in enumerate(models):
            loader.ahead = PassesAhead({run.scenario: run.samples * run.backwards for run in coming})
            for scenario in evenly(scenarios):
                try:
                    job = loader.job(model, scenario, options, recorded=True)
                    outcome = _done(job, store, loader, options, pictures, watcher)
                except NoRoom:
                    raise
                except (Exception, SystemExit) as error:  # noqa: BLE001 - models and plug-ins are other people's code
                    shown = str(model) if isinstance(model, Ref) else model.card.name
                    outcome = Outcome(shown, str(scenario), None, error=as_holdfast_error(error))
                    if not isinstance(error, Absent):  # noted once for all its scenarios
                        watcher.note(f"{shown} under {scenario}: {outcome.error}")
                outcomes[i, scenario.key] = outcome
                loader.ahead.ended(str(scenario), outcome.passes)
    return [outcomes[i, scenario.key] for i in range(len(models)) for scenario in scenarios]


def _done(job: Job, store: Store, loader: ModelLoader, options: RunOptions, pictures: int, watcher: Watcher) -> Outcome:
    job, rows = find_rows(job, store, watcher.note)
    run = job.run
    changed = () if rows is None else changed_samples(job, rows)
    if rows is not None and not changed:
        mend_pictures(store, lambda: _loaded(job, loader, options), rows, loader.device, pictures, watcher.note)
        watcher.began(run, len(rows), len(rows))
        return _ended(run, rows, watcher, fresh=False)
    if changed:
        watcher.note(f"{len(changed)} files of `{run.scenario.dataset}` without an image have changed: measured again")
    job = _loaded(job, loader, options)
    evaluation = Evaluation.of(job, store, loader, options, watcher, changed=changed)
    if rows is not None:
        evaluation.adopt([without(rows, changed)])
    watcher.began(job.run, len(evaluation.order), evaluation.ledger.known)
    evaluation.advance()
    return _ended(run, evaluation.joined(pictures), watcher, fresh=True)


def _ended(run: Run, rows: Rows, watcher: Watcher, *, fresh: bool) -> Outcome:
    failed = f", {rows.footer.failed} failed" if rows.footer.failed else ""
    watcher.ended(run, f"{'measured' if fresh else 'done before'}{failed}", standing(rows))
    return Outcome(str(run.model), str(run.scenario), rows, fresh)


def _loaded(job: Job, loader: ModelLoader, options: RunOptions) -> Job:
    """The job with its model at hand, not only its card."""
    if not isinstance(job.model, RecordedModel):
        return job
    return replace(loader.job(job.run.model, job.run.scenario, options), run=job.run)


@dataclass
class Evaluation:
    """One run under way. `kept` are its pieces: rows taken over from other choices of samples, then its own shards."""

    job: Job
    store: Store
    loader: ModelLoader
    options: RunOptions
    width: Width
    flags: tuple[Flag, ...]
    watcher: Watcher
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    kept: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device, ids = self.loader.device, self.job.dataset.ids
        self.order = [ids[i] for i in self.job.order]
        self.position = {name: i for i, name in enumerate(self.order)}
        self.ledger = Ledger.empty(len(self.order), self.job.run.precision)
        self.size = shard_size(self.width.value)  # stays, though the width may shrink
        self.faults: list[NotRead] = []
        self.states: list[str] = []  # where loops were saved, until their rows are kept

    @classmethod
    def of(
        cls,
        job: Job,
        store: Store,
        loader: ModelLoader,
        options: RunOptions,
        watcher: Watcher,
        *,
        changed: Sequence[str] = (),
    ) -> Evaluation:
        """The run with its width found and its model checked, and with the rows that are there already.

        `changed`: samples whose rows are not to be taken over.
        """
        card = job.dataset.card
        loader.fast.prepare(job, options.speed, loader.ahead)
        width = Width(options.batch_size or Width.for_model(job.model, card, loader.device).value)
        width.recovering(lambda value: loader.make_fast(job, options.speed, value, watcher.note), watcher.note)
        evaluation = cls(job, store, loader, options, width, loader.flags(job), watcher)
        pieces = [*store.siblings(job.footer), *store.parts(job.run.key)]
        evaluation.adopt([without(rows, changed) for rows in pieces if not rows.footer.is_weak])
        return evaluation

    def adopt(self, pieces: Sequence[Rows]) -> None:
        """Takes over rows that were measured before."""
        self.kept += pieces
        for rows in pieces:
            self._enter(rows)

    def missing(self) -> list[range]:
        return self.ledger.missing(self.size)

    def advance(self, seconds: float = math.inf) -> None:
        """Measures what is missing, or as much of it as begins within so many seconds; Ctrl-C keeps finished shards."""
        fresh: list[Rows] = []
        begun = since = time.perf_counter()
        try:
            for rows in self._fresh_rows(begun + seconds):
                fresh.append(rows)
                if time.perf_counter() - since >= KEEP_EVERY:
                    self._keep(fresh)
                    since = time.perf_counter()
            if not self.ledger.is_whole:
                self._keep(fresh)
        except BaseException:
            self._keep(fresh)
            raise
        self.kept += fresh

    def joined(self, pictures: int) -> Rows:
        """Writes the run's rows from its pieces, and some samples as pictures."""
        order = self.order[: self.ledger.reached()]
        pieces = needed(self.kept, order)
        position = {name: i for i, name in enumerate(self.job.dataset.ids)}
        rows = self.store.finish(pieces, sorted(order, key=position.__getitem__), self._final_footer(pieces, order))
        if pictures:
            add_pictures(self.store, self.job, rows, self.device, self.width, pictures)
        return rows

    def rows(self, shard: Shard) -> Rows:
        """Measures a shard by itself. The model's fast version is this run's, whichever run came before."""
        begun = time.perf_counter()
        self.width.recovering(self._make_fast, self.watcher.note)
        measured = self._measured(self._setting(), shard)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return self._rows(measured, time.perf_counter() - begun)

    def _fresh_rows(self, until: float) -> Iterator[Rows]:
        """Measures shard after shard. A GPU works on the next one while the rows of the last are made."""
        ahead = self.device.type == "cuda" and all(ref.kind != "attack" for ref, _ in self.job.changes)
        setting, under_way = self._setting(), deque[Measured]()
        divided = [self.job.order[span.start : span.stop] for span in self.missing()]
        begun = time.perf_counter()
        with contextlib.closing(shards_ahead(self.job.dataset, divided)) as shards:
            for shard in shards:
                if self.ledger.reached() is not None:
                    return
                if isinstance(shard, NotRead):
                    self.faults.append(shard)
                    continue
                under_way.append(self._measured(setting, shard))
                if len(under_way) > ahead:
                    now = time.perf_counter()
                    yield self._rows(under_way.popleft(), now - begun)
                    begun = now
                if time.perf_counter() >= until:
                    break
        for measured in under_way:
            yield self._rows(measured, time.perf_counter() - begun)
        if self.faults:
            raise self._unfinished()

    def _setting(self) -> MeasureSettings:
        return self.job.setting(self.device, self.loader.scorer(self.job, self.options.speed))

    def _unfinished(self) -> NotRead:
        first, others = self.faults[0], len(self.faults) - 1
        more = f" (and {others} more shards likewise)" if others else ""
        self.faults = []
        left = len(self.order) - self.ledger.known
        return NotRead(f"{first.problem}{more}; the run is unfinished, {left:,} samples are left", hint=first.hint)

    def _measured(self, setting: MeasureSettings, shard: Shard) -> Measured:
        def work(width: int) -> Measured:
            with self._saving(shard, width):
                return measure(setting, shard, width=width)

        measured = self.width.recovering(work, self.watcher.note, lambda: drop_recordings(self.job.model))
        fast = fast_version_of(setting.model)
        if isinstance(fast, FastModel) and (count := fast.overflows()):
            why = f"{count} values left the range of float16"
            self.watcher.note(f"gradients go on in float32: {why}")
            self.loader.fast.refuse(self.job, why)  # float32 from here on
            self._make_fast(self.width.value)
            measured = self.width.recovering(work, self.watcher.note)
        elif isinstance(fast, FastModel):
            self.loader.fast.note_changes(self.job, fast, self.watcher.note)
        return measured

    def _make_fast(self, width: int) -> None:
        self.loader.make_fast(self.job, self.options.speed, width, self.watcher.note)

    @contextlib.contextmanager
    def _saving(self, shard: Shard, width: int) -> Iterator[None]:
        """Saves every few seconds where the attack on a shard stands, and goes on from there after a kill."""
        if all(ref.kind != "attack" for ref, _ in self.job.changes):
            yield
            return
        key, ids = self.job.run.key, [self.job.dataset.ids[i] for i in shard.index]
        is_fast = fast_version_of(self.job.model) is not None  # float32 does not go on where float16 left off
        name = digest([ids, width, self.options.speed, is_fast, device_name(self.device), installed_versions()])
        self.states.append(name)
        with saving(
            SavedLoops(
                self.store.saved_state(key, name),
                lambda data: self.store.save_state(key, name, data),
                lambda text: self.watcher.working(self.job.run, text),
            )
        ):
            yield

    def _rows(self, measured: Measured, seconds: float) -> Rows:
        predictions = measured.predictions()
        footer = replace(
            self._footer(),
            seconds=seconds,
            facts=self.job.footer.facts | measured.changed.facts,
            tallies=measured.changed.tallies,
            forwards=int(predictions.forwards.sum()),
            backwards=int(predictions.backwards.sum()),
        )
        rows = to_rows(predictions, footer)
        self._enter(rows)
        self.watcher.advanced(self.job.run, len(rows), self.ledger.standing)
        return rows

    def _enter(self, rows: Rows) -> None:
        known = [(self.position[name], i) for i, name in enumerate(rows.ids) if name in self.position]
        self.ledger.enter([position for position, _ in known], marks(rows)[[i for _, i in known]])

    def _keep(self, fresh: list[Rows]) -> None:
        """Writes finished shards, so that whatever happens next they are there."""
        while fresh:
            self.store.add_part(fresh[0])
            self.kept.append(fresh.pop(0))
        if not self.faults:
            self.drop_states()

    def drop_states(self) -> None:
        while self.states:
            self.store.drop_state(self.job.run.key, self.states.pop())

    def _footer(self) -> Footer:
        about = device_name(self.device)
        return replace(
            self.job.footer, started=self.started, device=about, versions=installed_versions(), flags=self.flags
        )

    def _final_footer(self, pieces: Sequence[Rows], order: Sequence[str]) -> Footer:
        own = [rows.footer for rows in pieces if rows.footer.key == self.job.run.key]
        others = [rows.footer for rows in pieces if rows.footer.key != self.job.run.key]
        facts = {name: text for footer in [*others, *own] for name, text in footer.facts.items()}
        if others:
            facts["rows taken over from"] = ", ".join(footer.key for footer in others)
        counts: Counter[str] = Counter()
        for footer in own:
            counts.update(footer.tallies)
        tallies = dict(counts) | self.width.recovering(
            lambda width: probed(self.job, pieces, order, self.device, width=width), self.watcher.note
        )
        return replace(
            self._footer(),
            flags=self.flags + tally_flags(tallies) + failure_flags(pieces, order),
            started=min((footer.started for footer in own), default=self.started),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=sum(footer.seconds for footer in own),
            forwards=sum(footer.forwards for footer in own),
            backwards=sum(footer.backwards for footer in own),
            facts=facts,
            tallies=tallies,
        )
