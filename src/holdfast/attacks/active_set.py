"""The active set: the samples under attack, those that wait, and the result of each that is finished.

At most `width` samples are attacked at once; one that is broken or out of steps is retired and the next one takes its
row, so the model always sees full batches. All state is per sample: samples of different age, target, restart and
radius share a batch, and no sample's result depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import LoopResult
from holdfast.attacks.saved_loops import SavedLoop, begun_loop, flattened, grouped
from holdfast.attacks.shapes import wide
from holdfast.attacks.success import is_near, is_wrong
from holdfast.attacks.tensor_records import TensorRecord, Tensors
from holdfast.attacks.threat import Scene, scene_of
from holdfast.core.noise import Noise
from holdfast.core.types import Batch

if TYPE_CHECKING:
    from holdfast.attacks.gradient import GradientAttack
    from holdfast.attacks.search import RandomSearch


@dataclass(slots=True)
class Samples(TensorRecord):
    """One row per sample under attack. `run` counts the restarts and targets before this run, `taken` its steps.

    `best`, `best_value`: the best variable of this run and its value; `first_value`: the value at its start; `broken`:
    whether `best` is a success; `near`: whether it is nearly one; `done`: whether the run is over; `free`: whether the
    row may be given to another sample. Passes and zero gradients are those of this run.
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
    first_value: Tensor
    broken: Tensor
    near: Tensor
    done: Tensor
    free: Tensor
    forwards: Tensor
    backwards: Tensor
    zero_gradients: Tensor

    def __len__(self) -> int:
        return len(self.index)

    @property
    def scene(self) -> Scene:
        return Scene(self.images, self.radius, self.props)


class ActiveSet:
    """Holds the samples still being attacked and records the result of each that is finished.

    `extra`: tensors that the loop needs beside these; they are saved with the rest. `all_runs`: whether the runs of a
    sample are all queued at once, which finds the same in fewer rounds but with more passes. `round_steps`: passes
    between two calls of `refill`. A loop that was killed continues: `is_resumed`, or `is_finished` where it had ended.
    """

    def __init__(
        self,
        attack: GradientAttack | RandomSearch,
        model: AskedModel,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        width: int,
        first: Tensor | None,
        round_steps: int,
        *,
        all_runs: bool = False,
    ) -> None:
        self.attack, self.model, self.batch, self.noise, self.radius = attack, model, batch, noise, radius
        self.width, self.first, self.round_steps, self.all_runs = width, first, round_steps, all_runs
        everyone, n = torch.arange(len(batch), device=batch.images.device), len(batch)
        scene = scene_of(attack.threat, batch.images, radius, noise, torch.zeros_like(everyone))
        counts = [torch.zeros_like(everyone) for _ in range(5)]
        low, none = torch.full((n,), -torch.inf, device=everyone.device), torch.zeros_like(everyone, dtype=torch.bool)
        self.result = LoopResult(attack.threat.identity(scene), dict(scene.props), low, none, *counts)
        self.samples: Samples | None = None
        self.runs = attack.runs
        self.queue = everyone, torch.zeros_like(everyone)  # samples that wait, with the run that each is to start
        self.extra: Tensors = {}
        self.recording_key = replace(attack, radius=0.0)
        self.saved = None if attack.threat.keeps_state else begun_loop(everyone.device)
        self.is_finished = self.saved is not None and self.saved.result is not None
        self.is_resumed = self.saved is not None and self.saved.state is not None
        if self.saved is not None:
            self._restore(self.saved)

    def score_clean(self) -> Tensor:
        """Scores the clean images and returns the logits; what is wrong already counts as broken, at size zero."""
        logits, passes = self.model.clean_logits(self.batch, width=self.width)
        self.result.forwards += passes
        if self.attack.stop_when_broken or self.attack.keep == "smallest":
            self.result.broken |= is_wrong(logits, self.batch.labels)
            right = (~self.result.broken).nonzero().squeeze(1)
            self.queue = right, torch.zeros_like(right)
        return logits

    def queue_all_runs(self) -> None:
        index, runs = self.queue[0], torch.arange(self.runs, device=self.radius.device)
        self.queue = index.repeat(self.runs), runs.repeat_interleave(len(index))

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
            if len(free) and self._length(len(samples) - len(free)) < len(samples):
                samples = samples.take((~samples.free).nonzero().squeeze(1))
            if len(self.queue[0]) and len(samples) < self.width:
                samples = samples.joined(start(*self._pop(self.width - len(samples))))
        self.samples = self._padded(samples) if samples is not None and len(samples) else None
        return self.samples

    def new_samples(self, index: Tensor, run: Tensor, start: Callable[[Scene, Noise, Tensor], Tensor]) -> Samples:
        """Samples at the beginning of a run: at the variable that was given for the first run, else at `start`."""
        threat, noise = self.attack.threat, self.noise.take(index)
        scene = scene_of(threat, self.batch.images[index], self.radius[index], noise, run)
        variable = start(scene, noise, run)
        if self.first is not None:
            given = threat.project(scene, self.first[index])
            variable = torch.where(wide(run == 0, variable), given, variable)
        labels, no, zero = self.batch.labels[index], torch.zeros_like(index, dtype=torch.bool), torch.zeros_like(index)
        low = torch.full_like(scene.radius, -torch.inf)
        return Samples(
            *(index, scene.images, labels, labels.clone(), scene.radius, dict(scene.props), variable, {}),
            *(zero, run.clone(), variable.clone(), low, low.clone(), no, no.clone(), no.clone(), no.clone()),
            *(zero.clone(), zero.clone(), zero.clone()),
        )

    def step(self, steps: Callable[[Samples], None], *, gradients: bool) -> Samples:
        """Takes the samples a round of steps further, from a CUDA graph where the model has its steps recorded."""
        assert self.samples is not None, "refill before a round of steps"
        if self.model.fast is not None:
            self.model.fast.improve(len(self.samples), gradients=gradients)
        replays = None if self.attack.threat.reads_values else self.model.replays
        if replays is None:
            steps(self.samples)
        else:
            self.samples = replays.advanced(self.samples, self.recording_key, steps)
        return self.samples

    def keep_best(self, samples: Samples, value: Tensor, success: Tensor, logits: Tensor) -> None:
        """Keeps the variables that are the best of their runs so far, and marks which samples they break."""
        stop = self.attack.stop_when_broken
        samples.first_value = torch.where(samples.taken == 0, value, samples.first_value)
        is_last = self.attack.keep == "last"
        better = ~samples.done if is_last else (value > samples.best_value) & ~samples.done
        if stop:
            better = better | success
        samples.best = torch.where(wide(better, samples.best), samples.variable, samples.best)
        samples.best_value = torch.where(better, value, samples.best_value)
        if self.model.fast is not None:
            samples.near = torch.where(better, is_near(logits, samples.labels), samples.near)
        samples.broken = torch.where(better, success, samples.broken) if is_last else samples.broken | success
        if stop:
            samples.done = samples.done | samples.broken

    def retire(self, samples: Samples) -> None:
        """Records the results of the samples that are done; one that is not broken and has runs left waits again."""
        self.model.confirm(samples)
        rows = (samples.done & ~samples.free).nonzero().squeeze(1)
        if self.all_runs:  # a sample may be there with several runs: one of each at a time
            runs = samples.run[rows]
            for run in sorted(set(runs.tolist())):
                self._record(samples, rows[runs == run])
        elif len(rows):
            self._record(samples, rows)
        if self.saved is not None:
            self.saved.advanced(self._state, f"{len(self.queue[0]):,} samples wait, {len(samples):,} are under attack")

    def _record(self, samples: Samples, rows: Tensor) -> None:
        stop, result = self.attack.stop_when_broken, self.result
        index, value, broken = samples.index[rows], samples.best_value[rows], samples.broken[rows]
        better = ((value > result.best_value[index]) | (broken & stop)) & ~(result.broken[index] & stop)
        chosen, kept = index[better], rows[better]
        result.variable[chosen] = samples.best[kept]
        for name, prop in result.props.items():
            prop[chosen] = samples.props[name][kept]
        result.best_value[chosen] = value[better]
        result.broken[index] |= broken
        result.runs[index] += 1
        result.flat[index] += ~(value > samples.first_value[rows]) & ~broken
        for name in ("forwards", "backwards", "zero_gradients"):
            getattr(result, name)[index] += getattr(samples, name)[rows]
        run = samples.run[rows] + 1
        next_run = (run < self.runs) & ~(broken & stop) & (not self.all_runs)
        if len(next_index := index[next_run]):
            self.queue = torch.cat([self.queue[0], next_index]), torch.cat([self.queue[1], run[next_run]])
        samples.free[rows] = True

    def finish(self) -> LoopResult:
        if self.saved is not None:
            self.saved.finish(self.result.tensors)
        return self.result

    def _pop(self, count: int) -> tuple[Tensor, Tensor]:
        index, run = self.queue
        self.queue = index[count:], run[count:]
        return index[:count], run[:count]

    def _length(self, count: int) -> int:
        """As many rows as the version of the model that is asked has a use for."""
        lengths = self.model.lengths
        return count if lengths is None or not count else lengths.fit(count, self.round_steps)

    def _padded(self, samples: Samples) -> Samples:
        """As long as the batch should be, with free rows at the end."""
        count = len(samples)
        spare = self._length(count) - count
        if spare <= 0:
            return samples
        padded = samples.take(torch.arange(count + spare, device=samples.index.device).clamp_max(count - 1))
        padded.free[count:] = padded.done[count:] = True
        return padded

    def _state(self) -> Tensors:
        """All that the loop needs to continue."""
        assert self.samples is not None, "a loop without samples is over"
        queue = {"index": self.queue[0], "run": self.queue[1], "runs": torch.tensor(self.runs)}
        result, samples = self.result.tensors(), self.samples.tensors()
        return flattened({"result": result, "samples": samples, "extra": self.extra, "queue": queue})

    def _restore(self, saved: SavedLoop) -> None:
        if saved.result is not None:
            self.result = LoopResult.of_tensors(saved.result)
        elif saved.state is not None:
            parts = grouped(saved.state)
            self.result, self.samples = LoopResult.of_tensors(parts["result"]), Samples.of_tensors(parts["samples"])
            self.extra, queue = parts.get("extra", {}), parts["queue"]
            self.queue, self.runs = (queue["index"], queue["run"]), int(queue["runs"])
