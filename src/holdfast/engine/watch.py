"""The progress of a job, as the command line shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.refs import Run
from holdfast.core.types import NO_LABELS, Score

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


class Watcher:
    """Is called as runs are planned, begin, advance and end. This one shows nothing; others override what they show."""

    def planned(self, runs: Sequence[Expected]) -> None: ...

    def began(self, run: Run, samples: int, kept: int) -> None: ...

    def advanced(self, run: Run, samples: int, standing: Score | None) -> None: ...

    def working(self, run: Run, text: str) -> None:
        """The run goes on inside a shard; called often, so that whoever shows it chooses when."""

    def ended(self, run: Run, ending: str, standing: Score | None) -> None: ...

    def note(self, text: str) -> None: ...

    def job_ended(self) -> None:
        """The job has ended."""


def standing_text(standing: Score | None) -> str:
    """The accuracy so far; words where samples have no labels."""
    return NO_LABELS if standing is None else standing.percent()


class StderrWatcher(Watcher):
    """Writes notes to stderr, for callers in Python."""

    def note(self, text: str) -> None:
        sys.stderr.write(f"holdfast: {text}\n")


def default_watcher() -> Watcher:
    """For callers in Python: a bar in a notebook, notes elsewhere."""
    from holdfast.engine.notebook import NotebookWatcher, in_notebook

    return NotebookWatcher() if in_notebook() else StderrWatcher()


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
