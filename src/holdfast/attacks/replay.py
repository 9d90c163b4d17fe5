"""Steps of a loop as CUDA graphs: recorded once for a fixed number of samples, then replayed without the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from holdfast.attacks.flight import Flight

TRIED = 6  # rounds that are run, and timed, before one is recorded
HOST_BOUND = 0.8  # of a round's time spent on issuing it: above that the device waits for the host


class Replay:
    """Some steps over a flight whose tensors stay where they are; without a recording they are simply run."""

    def __init__(self, flight: Flight, steps: Callable[[Flight], None], *, recorded: bool) -> None:
        self.flight, self.steps = flight.copy(), steps
        self.graph: torch.cuda.CUDAGraph | None = None
        if recorded:
            self._record(flight)

    def _record(self, flight: Flight) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.steps(flight.copy())
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._once()
        self.graph = graph

    def _once(self) -> None:
        after = self.flight.again()
        self.steps(after)
        _carry_over(self.flight, after)

    def load(self, flight: Flight) -> None:
        """Puts a flight of the same length in place."""
        new = flight.tensors()
        for name, place in self.flight.tensors().items():
            place.copy_(new[name])

    def run(self) -> None:
        if self.graph is None:
            self._once()
        else:
            self.graph.replay()


def _carry_over(before: Flight, after: Flight) -> None:
    """Writes what the steps made of the flight to where it was; what lies in the way is set aside first."""
    places, values = before.tensors(), after.tensors()
    assert places.keys() == values.keys(), "steps may not add to a flight"
    taken = {place.untyped_storage().data_ptr() for place in places.values()}
    moved = {name: value for name, value in values.items() if value is not places[name]}
    aside = {
        name: value.clone() if value.untyped_storage().data_ptr() in taken else value for name, value in moved.items()
    }
    for name, value in aside.items():
        places[name].copy_(value)


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
        self.made: dict[Hashable, Replay | None] = {}
        self.refused: list[str] = []

    def moved(self, flight: Flight, what: Hashable, steps: Callable[[Flight], None]) -> Flight:
        """The flight some steps later, from a recording where there is one."""
        key = (what, len(flight), tuple(flight.images.shape[1:]))
        rounds = self.rounds.setdefault(key, Rounds())
        if rounds.count >= (TRIED if self.recorded else 1) and key not in self.made:
            self.made[key] = self._replay(flight, steps) if not self.recorded or rounds.waits_for_the_host else None
        replay = self.made.get(key)
        if replay is None:
            self._run_plain(flight, steps, rounds)
            return flight
        if replay.flight is not flight:
            replay.load(flight)
        replay.run()
        return replay.flight

    def _run_plain(self, flight: Flight, steps: Callable[[Flight], None], rounds: Rounds) -> None:
        begun = time.perf_counter()
        steps(flight)
        rounds.issuing = time.perf_counter() - begun
        rounds.count += 1
        if self.recorded and rounds.count <= TRIED:
            torch.cuda.synchronize(flight.index.device)
            rounds.total = time.perf_counter() - begun

    def _replay(self, flight: Flight, steps: Callable[[Flight], None]) -> Replay | None:
        try:
            return Replay(flight, steps, recorded=self.recorded)
        except Exception as error:  # noqa: BLE001 - models and plug-ins are other people's code
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.refused.append(f"{type(error).__name__}: {error}")
            return None


def replays_of(model: object) -> Replays | None:
    """The recordings of a model that wants its passes recorded, kept with it."""
    if getattr(model, "records", False) and getattr(model, "replays", None) is None:
        model.replays = Replays()  # type: ignore[attr-defined]
    kept = getattr(model, "replays", None)
    return kept if isinstance(kept, Replays) else None
