"""The active set: the samples under attack, those that wait, and the result of each that is finished.

At most `width` samples are attacked at once; one that is broken or out of steps gives its row to the next. All state is
per sample: samples of different age, target, restart and radius share a batch, and none depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import LoopResult
from holdfast.attacks.saved_loops import begun_loop
from holdfast.attacks.shapes import wide
from holdfast.attacks.success import is_near, is_wrong
from holdfast.attacks.tensor_records import TensorRecord, Tensors
from holdfast.attacks.threat import Scene, scene_of
from holdfast.core.noise import Noise
from holdfast.core.types import Batch


@dataclass(slots=True)
class Samples(TensorRecord):
    """One row per sample under attack. `run` counts the restarts and targets before this run, `taken` its steps.

    `best`, `best_value`: the best variable of this run and its value; `first_objective`: the objective at its start;
    `rose`: whether it was ever higher than there; `broken`: whether `best` is a success; `near`: whether it is nearly
    one; `done`: whether the run is over; `free`: whether the row may be given to another sample. Passes and zero
    gradients are those of this run.
    """

    index: Tensor
    images: Tensor
    labels: Tensor
    targets: Tensor
    radius: Tensor
    props: Tensors
    variable: Tensor
    state: Tensors
    taken: Tensor
    run: Tensor
    best: Tensor
    best_value: Tensor
    first_objective: Tensor
    rose: Tensor
    broken: Tensor
    near: Tensor
    done: Tensor
    free: Tensor
    forwards: Tensor
    backwards: Tensor
    zero_gradients: Tensor

    @property
    def scene(self) -> Scene:
        return Scene(self.images, self.radius, self.props)


@dataclass
class ActiveSet:
    """Holds the samples still being attacked and records the result of each that is finished.

    `extra`: tensors that the loop needs beside these; they are saved with the rest. `all_runs`: whether the runs of a
    sample are all queued at once, which finds the same in fewer rounds but with more passes. `round_steps`: passes
    between two calls of `refill`. `is_resumed`: whether the loop was killed before, and continues or had ended.
    """

    model: AskedModel
    batch: Batch
    noise: Noise
    radius: Tensor
    width: int
    first: Tensor | None
    round_steps: int
    all_runs: bool = False

    def __post_init__(self) -> None:
        self.attack = self.model.attack
        everyone = torch.arange(len(self.batch), device=self.batch.images.device)
        self.queue = everyone, torch.zeros_like(everyone)  # samples that wait, with the run that each is to start
        scene = self.scene(*self.queue)
        self.result = LoopResult.empty(scene, self.attack.threat.identity(scene))
        self.samples: Samples | None = None
        self.runs = self.attack.runs
        self.extra: Tensors = {}
        self.is_resumed = False
        self.saved = None if self.attack.threat.keeps_state else begun_loop(everyone.device)
        if self.saved is not None:
            self.saved.restore(self)

    def score_clean(self) -> Tensor:
        """Scores the clean images and returns the logits; what is wrong already counts as broken, at size zero."""
        logits, passes = self.model.clean_logits(self.batch, width=self.width)
        self.result.forwards += passes
        if self.attack.stop_when_broken or self.attack.keep == "smallest":
            self.result.broken |= is_wrong(logits, self.batch.labels)
            right = (~self.result.broken).nonzero().squeeze(1)
            self.queue = right, torch.zeros_like(right)
        return logits

    def refill(self, start: Callable[[Tensor, Tensor], Samples]) -> Samples | None:
        """The samples with free rows given to those that wait; None once nobody is left. `start`: index, run → samples.

        Rows that nobody needs are dropped, unless the model is better asked with a longer batch.
        """
        samples, waiting = self.samples, len(self.queue[0])
        if samples is None:
            samples = start(*self._pop(self.width)) if waiting else None
        else:
            free = samples.free.nonzero().squeeze(1)
            if len(free) and waiting:
                joining = start(*self._pop(len(free)))
                samples.replace(free[: len(joining)], joining)
                free = free[len(joining) :]
            if len(free) and self.model.length(len(samples) - len(free), self.round_steps) < len(samples):
                samples = samples.take((~samples.free).nonzero().squeeze(1))
            if len(self.queue[0]) and len(samples) < self.width:
                samples = samples.joined(start(*self._pop(self.width - len(samples))))
        self.samples = self.model.padded(samples, self.round_steps) if samples is not None and len(samples) else None
        return self.samples

    def scene(self, index: Tensor, run: Tensor) -> Scene:
        """What these samples are attacked on, with the threat's draws for the run."""
        images, radius = self.batch.images[index], self.radius[index]
        return scene_of(self.attack.threat, images, radius, self.noise.take(index), run)

    def new_samples(self, index: Tensor, run: Tensor, scene: Scene, variable: Tensor) -> Samples:
        """Samples at the beginning of a run: the first run starts from what was given, others from `variable`."""
        if self.first is not None:
            given = self.attack.threat.project(scene, self.first[index])
            variable = torch.where(wide(run == 0, variable), given, variable)
        labels, no, zero = self.batch.labels[index], torch.zeros_like(index, dtype=torch.bool), torch.zeros_like(index)
        low = torch.full_like(scene.radius, -torch.inf)
        return Samples(
            *(index, scene.images, labels, labels.clone(), scene.radius, dict(scene.props), variable, {}),
            *(zero, run.clone(), variable.clone(), low, low.clone()),
            *(no, no.clone(), no.clone(), no.clone(), no.clone()),
            *(zero.clone(), zero.clone(), zero.clone()),
        )

    def keep_best(self, samples: Samples, value: Tensor, success: Tensor, logits: Tensor, objective: Tensor) -> None:
        """Keeps the best variables of the runs so far, and marks which samples they break.

        `objective`: what the model's answer alone is worth; `value` may count more than that.
        """
        stop, is_last = self.attack.stop_when_broken, self.attack.keep == "last"
        samples.first_objective = torch.where(samples.taken == 0, objective, samples.first_objective)
        samples.rose = samples.rose | ((objective > samples.first_objective) & ~samples.done)
        better = ((value > samples.best_value) | is_last) & ~samples.done | (success & stop)
        samples.best = torch.where(wide(better, samples.best), samples.variable, samples.best)
        samples.best_value = torch.where(better, value, samples.best_value)
        if self.model.fast is not None:
            samples.near = torch.where(better, is_near(logits, samples.labels), samples.near)
        samples.broken = torch.where(better, success, samples.broken) if is_last else samples.broken | success
        samples.done = samples.done | (samples.broken & stop)

    def retire(self, samples: Samples) -> None:
        """Records the results of the samples that are done; one that is not broken and has runs left waits again."""
        self.model.confirm(samples)
        rows = (samples.done & ~samples.free).nonzero().squeeze(1)
        if self.all_runs:  # a sample may be there with several: one of each at a time
            run = samples.run[rows]
            for number in sorted(set(run.tolist())):
                self._record(samples, rows[run == number])
        elif len(rows):
            self._record(samples, rows)
        if self.saved is not None:
            self.saved.advanced(self)

    def _record(self, samples: Samples, rows: Tensor) -> None:
        stop, result, ended = self.attack.stop_when_broken, self.result, samples.take(rows)
        index, value, broken = ended.index, ended.best_value, ended.broken
        better = ((value > result.best_value[index]) | (broken & stop)) & ~(result.broken[index] & stop)
        passes = ended.forwards, ended.backwards, ended.zero_gradients, torch.ones_like(index), ~ended.rose & ~broken
        result.take_over(index, LoopResult(ended.best, ended.props, value, broken, *passes), better=better)
        if self.runs > 1 and not self.all_runs:
            run = ended.run + 1
            left = ((run < self.runs) & ~(broken & stop)).nonzero().squeeze(1)
            if len(left):
                self.queue = torch.cat([self.queue[0], index[left]]), torch.cat([self.queue[1], run[left]])
        samples.free.index_fill_(0, rows, value=True)

    def finish(self) -> LoopResult:
        if self.saved is not None:
            self.saved.finish(self)
        return self.result

    def _pop(self, count: int) -> tuple[Tensor, Tensor]:
        index, run = self.queue
        self.queue = index[count:], run[count:]
        return index[:count], run[:count]
