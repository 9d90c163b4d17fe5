"""The progress of a job: what is told as runs go on, how long is left, and a bar in a notebook."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.refs import Run
from holdfast.core.types import NO_LABELS, Score

BACKWARD = 2.0  # forward passes that a backward pass costs, roughly
PAUSE = 0.25  # seconds between two pictures of the bar


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


def default_watcher() -> Watcher:
    """For callers in Python: a bar where a notebook shows what this process displays, notes elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return NotebookWatcher() if hasattr(shell, "kernel") else StderrWatcher()


class NotebookWatcher(StderrWatcher):
    """One bar for the run under way and one for all, as HTML that is updated in place; notes go below it."""

    def __init__(self, display: Callable[..., Any] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.display, self.clock = display or _display, clock
        self.handle: Any = None
        self.shown = -PAUSE
        self.runs = self.done = self.samples = self.known = 0
        self.title = self.standing = ""
        self.time_left = TimeLeft(())

    def planned(self, runs: Sequence[Expected]) -> None:
        self.runs, self.time_left = len(runs), TimeLeft(runs)

    def began(self, run: Run, samples: int, kept: int) -> None:
        self.title, self.samples, self.known, self.standing = f"{run.model} · {run.scenario}", samples, kept, ""
        self.time_left.did(str(run.scenario), kept, timed=False)
        self._show()

    def advanced(self, run: Run, samples: int, standing: Score | None) -> None:
        self.time_left.did(str(run.scenario), samples)
        self.known, self.standing = self.known + samples, standing_text(standing)
        self._show()

    def working(self, run: Run, text: str) -> None:  # noqa: ARG002 - one run at a time
        self.standing = text
        self._show()

    def ended(self, run: Run, ending: str, standing: Score | None) -> None:  # noqa: ARG002
        self.done += 1
        self._show()

    def job_ended(self) -> None:
        self._show(at_once=True)

    def page(self) -> str:
        """The bars as HTML."""
        share = self.known / max(1, self.samples)
        seconds = self.time_left.seconds
        left = "" if seconds is None or self.done >= self.runs else f", about {seconds:.0f} s left"
        return (
            f"<div>{_bar(self.done, self.runs)} {self.done} of {self.runs} runs{left}</div>"
            f"<div>{_bar(self.known, self.samples)} {share:.0%} of {self.samples:,} samples · "
            f"{html.escape(self.title)} · {html.escape(self.standing)}</div>"
        )

    def _show(self, *, at_once: bool = False) -> None:
        now = self.clock()
        if now - self.shown < PAUSE and not at_once:
            return
        self.shown = now
        if self.handle is None:
            self.handle = self.display(self.page())
        else:
            self.handle.update(_html(self.page()))


def _bar(value: int, most: int) -> str:
    return f'<progress value="{value}" max="{max(1, most)}"></progress>'


def _display(page: str) -> Any:
    return importlib.import_module("IPython.display").display(_html(page), display_id=True)


def _html(page: str) -> Any:
    display = sys.modules.get("IPython.display")
    return page if display is None else display.HTML(page)
