"""The fast versions of one model: made once, tried against float32 for every attack and radius before use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.replay import HOST_BOUND
from holdfast.core.refs import Ref
from holdfast.core.types import Batch, Change
from holdfast.engine.loading import on_device
from holdfast.engine.precision import (
    FEW_PASSES,
    LEAST_PACE,
    SAMPLES,
    WORTH_SECONDS,
    Trial,
    issuing_share,
    pace,
    recorded_pace,
    tried,
)
from holdfast.models import TorchClassifier
from holdfast.models.fast import FastModel, Speed, fast_version, settled_speed

if TYPE_CHECKING:
    from holdfast.engine.jobs import Job

Made = tuple[FastModel | None, str]


class FastVersions:
    """Which version of the model gives a job its gradients, and what is known of each: its pace, its trials."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.made: dict[tuple[object, ...], Made] = {}
        self.trials: dict[tuple[object, ...], list[Trial]] = {}
        self.paces: dict[tuple[object, ...], float] = {}
        self.batches: dict[tuple[object, ...], Batch] = {}
        self.refused: dict[tuple[object, ...], str] = {}

    def version(self, job: Job, speed: Speed, width: int, ahead: int, said: Callable[[str], None]) -> FastModel | None:
        """The fast version for this job, None where float32 is to be used; the job's notes say why."""
        fast, words = self._found(job, speed, width, ahead, said)
        job.notes["gradients"] = f"{words}; every success confirmed in float32" if fast is not None else words
        return fast

    def refuse(self, job: Job, why: str) -> None:
        self.refused[_model_key(job)] = f"float32: {why}"

    def _found(self, job: Job, speed: Speed, width: int, ahead: int, said: Callable[[str], None]) -> Made:
        if speed == "exact":
            return None, "float32"
        if (why := self.refused.get(_model_key(job))) is not None:
            return None, why
        passes = max(ahead, len(job.order) * sum(change.cost.backwards for _, change in job.changes))
        if speed == "auto" and self._is_short(job, passes, width):
            return None, "float32: the job is too short for a faster version"
        trial = self._trial_batch(job)
        fast, words = self._made(job, settled_speed(speed, passes), width, trial.images, said)
        if fast is None:
            return None, words
        if speed == "auto":
            fast.records = self._waits(job, fast, width)
        if speed == "auto" and (ratio := self._ratio(job, fast, width)) < LEAST_PACE:
            return None, f"float32: {fast.words} runs at {ratio:.2f} of its pace here"
        return self._trusted(job, fast, trial, width)

    def _trusted(self, job: Job, fast: FastModel, batch: Batch, width: int) -> Made:
        """The fast version for those parts of the job's attacks for which it is as strong as float32."""
        trials = [trial for ref, change in job.changes for trial in self._trials(job, fast, ref, change, batch, width)]
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

    def _trials(self, job: Job, fast: FastModel, ref: Ref, change: Change, batch: Batch, width: int) -> list[Trial]:
        if not change.cost.backwards or not isinstance(change, Attack):
            return []
        key = (_model_key(job), job.run.data, ref.key)
        if key not in self.trials:
            assert isinstance(job.model, TorchClassifier)
            fast.weak = frozenset()
            self.trials[key] = tried(job.model, fast, change, batch, width)
            if overflows := fast.overflows():
                self.refuse(job, f"{overflows} values of a trial left the range of float16")
        return self.trials[key]

    def _is_short(self, job: Job, passes: int, width: int) -> bool:
        return passes < FEW_PASSES or passes < WORTH_SECONDS * self._pace(job, width)

    def _made(self, job: Job, way: Speed, width: int, images: Tensor, said: Callable[[str], None]) -> Made:
        key = (_model_key(job), width, way)
        if key not in self.made:
            assert isinstance(job.model, TorchClassifier)
            notes: list[str] = []
            fast = fast_version(job.model, images[:16], width=width, speed=way, said=notes.append)
            for note in notes:
                said(note)
            self.made = {known: made for known, made in self.made.items() if known[0] == key[0]}
            self.made[key] = fast, fast.words if fast is not None else f"float32: {notes[-1]}"
        return self.made[key]

    def _pace(self, job: Job, width: int) -> float:
        """Of the model itself, in passes to the images per second."""
        key = (_model_key(job), width)
        if key not in self.paces:
            self.paces[key] = pace(job.model, self._noise(job), width)
        return self.paces[key]

    def _ratio(self, job: Job, fast: FastModel, width: int) -> float:
        key = (_model_key(job), width, fast.words)
        if key not in self.paces:
            alone, images = self._pace(job, width), self._noise(job)
            self.paces[key] = pace(fast, images, width) / alone
            if self.paces[key] < LEAST_PACE and fast.records:
                self.paces[key] = recorded_pace(fast, images, width) / alone
            fast.overflows()  # noise is no image
        return self.paces[key]

    def _waits(self, job: Job, fast: FastModel, width: int) -> bool:
        """Whether the device waits for the host in a pass, which CUDA graphs end; else they only cost time."""
        key = (_model_key(job), width, "waits")
        if key not in self.paces:
            self.paces[key] = issuing_share(fast, self._noise(job), width)
            fast.overflows()
        return self.paces[key] > HOST_BOUND

    def _noise(self, job: Job) -> Tensor:
        """Images to time passes on: any will do, and these need no reading."""
        card = job.dataset.card
        return torch.rand((16, card.channels, *card.size), device=self.device)

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


def _lowest(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.gain)


def _model_key(job: Job) -> tuple[object, ...]:
    return id(job.model), job.run.weights, job.dataset.card.size
