"""Steps of a loop as CUDA graphs: recorded once for a fixed number of samples, then replayed without the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from holdfast.core.types import FastVersion

if TYPE_CHECKING:
    from holdfast.attacks.active_set import Samples

TRIED = 6  # rounds that are run, and timed, before one is recorded
GPU_ROUNDS = (3, 4, 5, 6, 7)  # steps between two checks which samples are done
CHECK = 0.6  # what such a check costs, in steps, beside those that it saves
HOST_BOUND = 0.8  # of a round's time spent on issuing it: above that the device waits for the host


def steps_per_round(evaluations: int, device: torch.device) -> int:
    """Steps between two checks which samples are done: one on a CPU, where asking costs nothing.

    On a GPU the host has to wait for the device: few checks, and few steps beyond the last.
    """
    if device.type != "cuda":
        return 1
    return min(GPU_ROUNDS, key=lambda steps: -(-evaluations // steps) * (steps + CHECK))


class Replay:
    """Some steps over samples whose tensors keep their memory; without a recording they are simply run."""

    def __init__(self, samples: Samples, steps: Callable[[Samples], None], *, recorded: bool) -> None:
        self.samples = samples.copy()
        self.graph = self._record(samples, steps) if recorded else None
        self.steps = None if recorded else steps  # they hold the whole shard that the first loop was about

    def _record(self, samples: Samples, steps: Callable[[Samples], None]) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            steps(samples.copy())
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # another thread may import the compiler
            self._once(steps)
        return graph

    def _once(self, steps: Callable[[Samples], None]) -> None:
        after = self.samples.shallow_copy()
        steps(after)
        _write_back(self.samples, after)

    def load(self, samples: Samples) -> None:
        """Copies samples of the same number into the tensors of the recording."""
        new = samples.tensors()
        for name, tensor in self.samples.tensors().items():
            tensor.copy_(new[name])

    def run(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        elif self.steps is not None:
            self._once(self.steps)


def _write_back(before: Samples, after: Samples) -> None:
    """Writes the samples after the steps into the tensors before them; values that lie in those are copied first."""
    targets, values = before.tensors(), after.tensors()
    assert targets.keys() == values.keys(), "steps may not add tensors to the samples"
    taken = {target.untyped_storage().data_ptr() for target in targets.values()}
    moved = {name: value for name, value in values.items() if value is not targets[name]}
    aside = {
        name: value.clone() if value.untyped_storage().data_ptr() in taken else value for name, value in moved.items()
    }
    for name, value in aside.items():
        targets[name].copy_(value)


@dataclass(slots=True)
class Rounds:
    """What the steps of one kind took without a recording: how often, and seconds of the last time."""

    count: int = 0
    issuing: float = 0.0
    total: float = 0.0

    @property
    def waits_for_the_host(self) -> bool:
        """Whether the device waited for the host to issue its work, which is what a recording saves."""
        return self.issuing > HOST_BOUND * self.total


class Replays:
    """The recordings of one model, by what is run and for how many samples. What cannot be recorded is run as it is.

    So are the first rounds of each kind, since a recording costs as much as a few of them, and every round in which
    the device is busy while the host issues the next steps: a recording would save nothing there.
    """

    def __init__(self, *, recorded: bool = True) -> None:
        self.recorded = recorded
        self.rounds: dict[Hashable, Rounds] = {}
        self.recordings: dict[Hashable, Replay | None] = {}
        self.refused: list[str] = []

    def advanced(
        self, samples: Samples, what: Hashable, steps: Callable[[Samples], None], plain: Callable[[Samples], None]
    ) -> Samples:
        """The samples some steps later, from a recording where there is one; else `plain` takes them there."""
        key = (what, len(samples), tuple(samples.images.shape[1:]))
        rounds = self.rounds.setdefault(key, Rounds())
        if rounds.count >= (TRIED if self.recorded else 1) and key not in self.recordings:
            self.recordings[key] = (
                self._replay(samples, steps) if not self.recorded or rounds.waits_for_the_host else None
            )
        replay = self.recordings.get(key)
        if replay is None:
            self._run_plain(samples, plain, rounds)
            return samples
        if replay.samples is not samples:
            replay.load(samples)
        replay.run()
        return replay.samples

    def _run_plain(self, samples: Samples, steps: Callable[[Samples], None], rounds: Rounds) -> None:
        begun = time.perf_counter()
        steps(samples)
        rounds.issuing = time.perf_counter() - begun
        rounds.count += 1
        if self.recorded and rounds.count <= TRIED:
            torch.cuda.synchronize(samples.index.device)
            rounds.total = time.perf_counter() - begun

    def _replay(self, samples: Samples, steps: Callable[[Samples], None]) -> Replay | None:
        try:
            return Replay(samples, steps, recorded=self.recorded)
        except Exception as error:  # noqa: BLE001 - models and plug-ins are other people's code
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.refused.append(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}")
            return None


def replays_of(fast: FastVersion) -> Replays | None:
    """The recordings of a fast version that lets its steps be recorded; they are kept with it."""
    if fast.records and fast.replays is None:
        fast.replays = Replays()
    return fast.replays if isinstance(fast.replays, Replays) else None
