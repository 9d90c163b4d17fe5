"""What a job tells while it goes on. The command line draws it; a script may ignore it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.refs import Run
from holdfast.core.types import Score

BACKWARD = 2.0  # forward passes that a backward pass costs, roughly


@dataclass(frozen=True, slots=True)
class Expected:
    """A run to come: its samples, and passes through the model that each takes at most."""

    scenario: str
    samples: int
    forwards: int = 1
    backwards: int = 0

    @property
    def each(self) -> float:
        return self.forwards + BACKWARD * self.backwards


class Watcher(Protocol):
    """Hears of every run: what is to come, what is done, how it stands."""

    def planned(self, runs: Sequence[Expected]) -> None: ...

    def began(self, run: Run, samples: int, kept: int) -> None: ...

    def advanced(self, run: Run, samples: int, standing: Score) -> None: ...

    def working(self, run: Run, said: str) -> None:
        """The run goes on inside a shard; often, so that whoever shows it chooses when."""
        ...

    def ended(self, run: Run, said: str, standing: Score | None) -> None: ...

    def note(self, text: str) -> None: ...


class SilentWatcher:
    """Hears everything, says nothing."""

    def planned(self, runs: Sequence[Expected]) -> None: ...

    def began(self, run: Run, samples: int, kept: int) -> None: ...

    def advanced(self, run: Run, samples: int, standing: Score) -> None: ...

    def working(self, run: Run, said: str) -> None: ...

    def ended(self, run: Run, said: str, standing: Score | None) -> None: ...

    def note(self, text: str) -> None: ...


class StderrWatcher(SilentWatcher):
    """Says on stderr what a caller in Python should know: notes, and where rows were used again."""

    def note(self, text: str) -> None:
        sys.stderr.write(f"holdfast: {text}\n")


class TimeLeft:
    """How long a job will take yet, from what its passes have taken so far.

    Attacks let go of broken samples and so make fewer passes than they may, so they have a pace of their own.
    """

    def __init__(self, runs: Sequence[Expected], clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.since = clock, clock()
        self.runs = {run.scenario: run for run in runs}
        self.left = dict.fromkeys((False, True), 0.0)
        self.spent = {kind: [0.0, 0.0] for kind in (False, True)}  # passes, seconds
        for run in runs:
            self.left[run.backwards > 0] += run.samples * run.each

    def did(self, scenario: str, samples: int, *, timed: bool = True) -> None:
        """Takes samples off what is left; untimed ones were there already, or are not to come."""
        run = self.runs.get(scenario)
        if run is None:
            return
        kind, passes = run.backwards > 0, samples * run.each
        self.left[kind] = max(0.0, self.left[kind] - passes)
        now = self.clock()
        if timed:
            self.spent[kind][0] += passes
            self.spent[kind][1] += now - self.since
        self.since = now

    @property
    def seconds(self) -> float | None:
        """What is left, None while there is a kind of run to come that was not timed."""
        paces = {kind: seconds / passes for kind, (passes, seconds) in self.spent.items() if passes}
        if any(left and kind not in paces for kind, left in self.left.items()):
            return None
        return sum(left * paces.get(kind, 0.0) for kind, left in self.left.items())
