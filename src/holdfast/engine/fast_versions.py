"""The fast versions of one model: made once, tried against float32 for every attack and radius before use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.asked_model import ExactModel
from holdfast.attacks.attack import Attack
from holdfast.attacks.replay import HOST_BOUND, replays_of
from holdfast.core.refs import Ref
from holdfast.core.types import Batch
from holdfast.engine.passes_ahead import PassesAhead
from holdfast.engine.precision import (
    FEW_PASSES,
    LEAST_PACE,
    SAMPLES,
    TRIAL_GAIN,
    WORTH_MADE,
    WORTH_SECONDS,
    References,
    Trial,
    issuing_share,
    pace,
    recorded_pace,
    references,
    trial_seconds,
    tried,
    worth_seconds,
)
from holdfast.engine.shards import on_device
from holdfast.models import TorchClassifier
from holdfast.models.compiling import prepare
from holdfast.models.fast import COMPILED, FastModel, Speed, fast_version, is_worth_compiling
from holdfast.models.lengths import Padded

if TYPE_CHECKING:
    from holdfast.engine.jobs import Job

Version = tuple[FastModel | None, str]


PIXELS_AHEAD = 5e9  # of passes to the images: what a compiled version may be worth its compiling for, on fast networks
LONG_ENOUGH = 0.05  # seconds of a pass there and back that keeps a device busy: more samples go at the same pace
FORWARD = 1 / 3  # of a forward and backward pass
USUAL_RATIO = 4.0  # of the pace in float16 to that in float32: 3.9 for a ViT-S, 4.1 for a ResNet-50, 14 for a WRN-28-10


class FastVersions:
    """Which version of the model gives a job its gradients, and what is known of each: its pace, its trials."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.made: dict[tuple[object, ...], Version] = {}
        self.exact_models: dict[tuple[object, ...], Padded] = {}
        self.references: dict[tuple[object, ...], tuple[References, bool]] = {}  # and whether of all parts
        self.trials: dict[tuple[object, ...], list[Trial]] = {}
        self.paces: dict[tuple[object, ...], float] = {}
        self.batches: dict[tuple[object, ...], Batch] = {}
        self.refused: dict[tuple[object, ...], str] = {}
        self.told: set[str] = set()  # what was reported
        self.prepared: set[tuple[object, ...]] = set()  # models for which a compiler was started

    def prepare(self, job: Job, speed: Speed, ahead: PassesAhead) -> None:
        """Has a compiler started, once, where much is ahead: it is ready by the time that is known for certain."""
        if speed != "auto" or self.device.type != "cuda" or not isinstance(job.model, TorchClassifier):
            return
        if worth_seconds(job.model.net) > WORTH_SECONDS:
            return  # hardly any job is long enough, and a second process slows the start of the others
        much = max(ahead.left, _own_passes(job)) * math.prod(job.dataset.card.size) > PIXELS_AHEAD
        if much and _model_key(job) not in self.prepared:
            self.prepared.add(_model_key(job))
            prepare(self.device)

    def version(
        self, job: Job, speed: Speed, width: int, ahead: PassesAhead, report: Callable[[str], None]
    ) -> FastModel | None:
        """The fast version for this job, None where float32 is to be used; the job's notes say why."""
        fast, words = self._chosen(job, speed, min(width, len(job.order)), ahead, report)
        job.notes["gradients"] = f"{words}; every success confirmed in float32" if fast is not None else words
        return fast

    def note_changes(self, job: Job, fast: FastModel, report: Callable[[str], None]) -> None:
        """Says in the job's notes that its fast version took a compiled copy over while the job ran, or why not."""
        before, note = fast.words.removesuffix(COMPILED), job.notes["gradients"]
        if fast.words not in note:
            note = note.replace(before, fast.words, 1)
        replays = replays_of(fast)
        refused = [] if replays is None else [f"steps not recorded: {why}" for why in replays.refused]
        for why in dict.fromkeys([*fast.notes, *refused]):
            if why not in note:
                note += f"; {why}"
                if why not in self.told:
                    self.told.add(why)
                    report(why)
        job.notes["gradients"] = note

    def refuse(self, job: Job, why: str) -> None:
        self.refused[_model_key(job)] = f"float32: {why}"

    def _chosen(self, job: Job, speed: Speed, width: int, ahead: PassesAhead, report: Callable[[str], None]) -> Version:
        if speed == "exact":
            return None, "float32"
        if (why := self.refused.get(_model_key(job))) is not None:
            return None, why
        seconds = math.inf
        if speed == "auto":
            worth, bound = self._worth(job, width, speed), self._bound(job, width, ahead)
            if bound >= worth and not self._is_worth_a_trial(job, width, ahead):
                return None, "float32: the run is too short to try a faster version"
            seconds = self._seconds(job, width, ahead, bound, worth)
            if seconds < worth:
                return None, "float32: the job is too short for a faster version"
        fast, words = self._made(job, speed, width, report)
        if fast is None:
            return None, words
        if speed != "auto":
            return self._trusted(job, fast, width)
        fast.records = self._waits(job, fast, width)
        if (ratio := self._ratio(job, fast, width)) < LEAST_PACE:
            return None, f"float32: {fast.words} runs at {ratio:.2f} of its pace here"
        forward, before = _forward_share(job), fast.compiling
        fast.expect((1 - forward) * seconds / ratio, gradients=True)
        fast.improve(width, gradients=True)  # compiles beside the trial and the model's check
        trusted = self._trusted(job, fast, width)
        if trusted[0] is None:
            if fast.compiling is not before:
                fast.stop_compiling()
            return trusted
        fast.expect(forward * seconds / ratio, gradients=False)  # not in the trial, whose batches are short
        alone = self._pace(job, width)
        return fast, f"{trusted[1]}; {ratio * alone:,.0f} gradients a second at first, float32 {alone:,.0f}"

    def _is_worth_a_trial(self, job: Job, width: int, ahead: PassesAhead) -> bool:
        """Whether a fast version saves this run more than trying it takes, as far as the runs so far can tell."""
        pace = self._pace(job, width)
        untried = [change for ref, change in _attacks(job) if _trial_key(job, ref) not in self.trials]
        cost = sum(trial_seconds(change, pace) for change in untried)
        return TRIAL_GAIN * _own_passes(job) * ahead.share_taken(1.0) / pace > cost

    def _bound(self, job: Job, width: int, ahead: PassesAhead) -> float:
        """What this job and those ahead take at most with float32's gradients; 0 for few passes, without a look."""
        passes = max(ahead.left, _own_passes(job)) / (1 - _forward_share(job))
        return passes / self._pace(job, width) if passes >= FEW_PASSES else 0.0

    def _seconds(self, job: Job, width: int, ahead: PassesAhead, bound: float, worth: float) -> float:
        """What they are expected to take of that: as the runs so far, or short attacks, tell."""
        if bound < worth:
            return bound
        if self.device.type == "cuda" and is_worth_compiling(bound / USUAL_RATIO):
            prepare(self.device)
        if (taken := ahead.share_taken()) is not None:
            return bound * taken
        # of an attack's first part alone: a fraction of the cost, and enough to see that a job is short
        first = [self._reference(job, ref, change, width, first=True).unbroken for ref, change in _attacks(job)]
        if (upper := bound * max(first, default=1.0)) < worth:
            return upper
        unbroken = [self._reference(job, ref, change, width).unbroken for ref, change in _attacks(job)]
        return bound * max(unbroken, default=1.0)

    def _worth(self, job: Job, width: int, speed: Speed) -> float:
        """How long float32 must be expected to take; a version that was made for a run before costs its trial alone."""
        assert isinstance(job.model, TorchClassifier)
        return WORTH_MADE if (_model_key(job), width, speed) in self.made else worth_seconds(job.model.net)

    def _trusted(self, job: Job, fast: FastModel, width: int) -> Version:
        """The fast version for those parts of the job's attacks for which it is as strong as float32."""
        trials = [trial for ref, change in _attacks(job) for trial in self._trials(job, fast, ref, change, width)]
        if (why := self.refused.get(_model_key(job))) is not None:
            return None, why
        weaker = [trial for trial in trials if trial.is_weaker]
        trusted = [trial for trial in trials if not trial.is_weaker]
        if not trusted or any(trial.kind is None for trial in weaker):
            tried = f"{fast.words} reaches {_lowest(weaker)}" if weaker else "nothing could be tried"
            return None, f"float32: {tried}"
        fast.weak = frozenset(trial.kind for trial in weaker)
        words = f"{fast.words}, tried: {_lowest(trusted)}"
        return fast, f"{words}; float32 in parts where it reaches {_lowest(weaker)}" if weaker else words

    def _trials(self, job: Job, fast: FastModel, ref: Ref, change: Attack, width: int) -> list[Trial]:
        key = _trial_key(job, ref)
        if key not in self.trials:
            assert isinstance(job.model, TorchClassifier)
            fast.weak = frozenset()
            self.trials[key] = tried(job.model, fast, self._reference(job, ref, change, width), width)
            if overflows := fast.overflows():
                self.refuse(job, f"{overflows} values of a trial left the range of float16")
        return self.trials[key]

    def _reference(self, job: Job, ref: Ref, change: Attack, width: int, *, first: bool = False) -> References:
        key = _trial_key(job, ref)
        known, whole = self.references.get(key, (None, False))
        if known is None or not (whole or first):
            exact, parts = ExactModel(job.model), 1 if first else None
            known = references(exact, change, self._trial_batch(job), width, parts=parts, known=known)
            self.references[key] = known, not first
        return known

    def exact(self, job: Job) -> Padded:
        """The model itself, in few lengths."""
        key = _model_key(job)
        if key not in self.exact_models:
            self.exact_models = {key: Padded(job.model)}
        return self.exact_models[key]

    def _made(self, job: Job, speed: Speed, width: int, report: Callable[[str], None]) -> Version:
        key = (_model_key(job), width, speed)
        if not len(self._trial_batch(job)):
            return None, "float32: none of the first images could be read to try a faster version on"
        if key not in self.made:
            assert isinstance(job.model, TorchClassifier)
            notes: list[str] = []
            images = cycled(self._trial_batch(job).images, width)
            fast = fast_version(job.model, images, width=width, speed=speed, report=notes.append)
            for note in notes:
                report(note)
            self.made = {known: made for known, made in self.made.items() if known[0] == key[0]}
            self.made[key] = fast, "" if fast is not None else f"float32: {notes[-1]}"
        return self.made[key]

    def _pace(self, job: Job, width: int) -> float:
        """Of the model itself, in passes to the images per second."""
        key = (_model_key(job), width)
        if key not in self.paces:
            few = min(width, SAMPLES)
            self.paces[key] = pace(job.model, self._noise(job, few))
            if few < min(width, LONG_ENOUGH * self.paces[key]):
                self.paces[key] = pace(job.model, self._noise(job, width))
        return self.paces[key]

    def _ratio(self, job: Job, fast: FastModel, width: int) -> float:
        key = (_model_key(job), width, "fast")
        if key not in self.paces:
            alone, images = self._pace(job, width), self._noise(job, width)
            self.paces[key] = pace(fast, images) / alone
            if self.paces[key] < LEAST_PACE and fast.records:
                self.paces[key] = recorded_pace(fast, images) / alone
            fast.overflows()  # noise is no image
        return self.paces[key]

    def _waits(self, job: Job, fast: FastModel, width: int) -> bool:
        """Whether the device waits for the host in a pass, which CUDA graphs end; else they only cost time."""
        key = (_model_key(job), width, "waits")
        if key not in self.paces:
            self.paces[key] = issuing_share(fast, self._noise(job, width))
            fast.overflows()
        return self.paces[key] > HOST_BOUND

    def _noise(self, job: Job, width: int) -> Tensor:
        """Images to time passes on: any will do, and these need no reading."""
        card = job.dataset.card
        return torch.rand((width, card.channels, *card.size), device=self.device)

    def _trial_batch(self, job: Job) -> Batch:
        index = job.order[: 2 * SAMPLES]
        key = (job.run.scenario.dataset.key, job.run.data, index.tobytes())
        if key not in self.batches:
            self.batches = {key: self._read(job, index)}
        return self.batches[key]

    def _read(self, job: Job, index: NDArray[np.int64]) -> Batch:
        read = job.dataset.images(index.tolist())
        kept = [i for i in range(len(index)) if i not in read.failed]
        labels = torch.from_numpy(job.dataset.labels[index[kept]]).to(self.device)
        ids = tuple(job.dataset.ids[i] for i in index[kept])
        return Batch(on_device(read.pixels[kept], self.device), labels, ids)


def cycled(images: Tensor, count: int) -> Tensor:
    return images[torch.arange(count, device=images.device) % len(images)]


def _attacks(job: Job) -> list[tuple[Ref, Attack]]:
    return [(ref, change) for ref, change in job.changes if isinstance(change, Attack) and change.cost.backwards]


def _own_passes(job: Job) -> int:
    """Passes to the images that a run takes at most."""
    return len(job.order) * sum(change.cost.backwards for _, change in job.changes)


def _forward_share(job: Job) -> float:
    """The share of the time that goes into passes without gradients."""
    backwards = sum(change.cost.backwards for _, change in job.changes)
    alone = sum(max(0, change.cost.forwards - change.cost.backwards) for _, change in job.changes)
    return FORWARD * alone / (backwards + FORWARD * alone) if backwards or alone else 0.0


def _lowest(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.gain)


def _trial_key(job: Job, ref: Ref) -> tuple[object, ...]:
    return _model_key(job), job.run.data, ref.key


def _model_key(job: Job) -> tuple[object, ...]:
    return id(job.model), job.run.weights, job.dataset.card.size
