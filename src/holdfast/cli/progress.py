"""Live progress: the run under way and the whole, samples per second, time left, accuracy so far with its interval."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from holdfast.cli.output import INTERRUPTED, err, seconds_text
from holdfast.core.refs import Run
from holdfast.core.types import Score
from holdfast.engine.watch import Expected, TimeLeft, Watcher, standing_text

ALL = "all runs"
WIDE = 120  # columns of a terminal from which everything fits
SILENCE = 25.0  # seconds without a line in a log, at most, while a round of an attack takes less than five


@contextlib.contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """A live display on a terminal, a line per finished run elsewhere, nothing when quiet. Ctrl-C ends it in words."""
    try:
        with _display(quiet) as watcher:
            yield watcher
    except KeyboardInterrupt:
        err.print("stopped; everything finished is kept, and the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _display(quiet: bool) -> Iterator[Watcher]:
    if quiet:
        yield Watcher()
    elif err.is_terminal:
        with Progress(
            *columns(err.width),
            console=err,
            refresh_per_second=8,
            expand=True,
        ) as progress:
            yield LiveBars(progress)
    else:
        yield LogLines()


def columns(width: int) -> tuple[ProgressColumn, ...]:
    """Bar, percentage and time left are always whole; a long name and what stands so far are cut where they must be."""
    is_wide = width >= WIDE
    return (
        TextColumn("{task.description}", markup=False, table_column=_cut(3)),
        BarColumn(bar_width=24 if is_wide else 10, table_column=Column(no_wrap=True)),
        TextColumn("{task.percentage:>3.0f}%", table_column=Column(no_wrap=True)),
        *([MofNCompleteColumn()] if is_wide else []),
        *([TextColumn("{task.fields[pace]}")] if is_wide else []),
        OfOneRun(compact=True, table_column=Column(no_wrap=True, min_width=5)),
        TextColumn("{task.fields[standing]}", table_column=_cut(2)),
    )


def _cut(ratio: int) -> Column:
    return Column(no_wrap=True, overflow="ellipsis", ratio=ratio)


class OfOneRun(TimeRemainingColumn):
    """The time left of the run under way; that of all runs is reckoned in passes, not in runs."""

    def render(self, task: Task) -> Text:
        return Text("") if task.description == ALL else super().render(task)


class LiveBars(Watcher):
    """A bar for all runs, and one for the samples of each run under way: one here, several on a cluster."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.whole: TaskID | None = None
        self.bars: dict[str, TaskID] = {}
        self.over: list[TaskID] = []  # shown until the next begins
        self.time_left = TimeLeft(())

    def planned(self, runs: Sequence[Expected]) -> None:
        self.whole = self.progress.add_task(ALL, total=len(runs), pace="", standing="")
        self.time_left = TimeLeft(runs)

    def began(self, run: Run, samples: int, kept: int) -> None:
        while self.over:
            self.progress.remove_task(self.over.pop())
        name = f"{run.model} · {run.scenario}"
        self.bars[run.key] = self.progress.add_task(name, total=samples, completed=kept, pace="", standing="")
        self.time_left.did(str(run.scenario), kept, timed=False)

    def advanced(self, run: Run, samples: int, standing: Score | None) -> None:
        self.time_left.did(str(run.scenario), samples)
        assert self.whole is not None, "runs are planned before they advance"
        self.progress.update(self.whole, standing=left_text(self.time_left))
        assert run.key in self.bars, "a run begins before it advances"
        bar = self.bars[run.key]
        self.progress.advance(bar, samples)
        speed = next(task.speed for task in self.progress.tasks if task.id == bar)
        self.progress.update(bar, pace=f"{speed:,.0f}/s" if speed else "", standing=standing_text(standing))

    def working(self, run: Run, text: str) -> None:
        if run.key in self.bars:
            self.progress.update(self.bars[run.key], standing=text)

    def ended(self, run: Run, ending: str, standing: Score | None) -> None:  # noqa: ARG002
        self.over.append(self.bars.pop(run.key))
        assert self.whole is not None, "runs are planned before they end"
        self.progress.advance(self.whole, 1)

    def note(self, text: str) -> None:
        self.progress.console.print(text, markup=False)


class LogLines(Watcher):
    """One line per finished run, and one at least every half minute, for logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.runs = self.done = 0
        self.time_left = TimeLeft(())
        self.clock, self.told = clock, clock()
        self.samples = self.kept = 0

    def planned(self, runs: Sequence[Expected]) -> None:
        self.runs, self.time_left = len(runs), TimeLeft(runs)

    def began(self, run: Run, samples: int, kept: int) -> None:
        self.time_left.did(str(run.scenario), kept, timed=False)
        self.samples, self.kept = samples, kept
        if kept and kept < samples:
            self.note(f"{run.model} under {run.scenario}: {kept:,} of {samples:,} samples are there already")

    def advanced(self, run: Run, samples: int, standing: Score | None) -> None:
        self.time_left.did(str(run.scenario), samples)
        self.kept += samples
        self._tell(run, standing_text(standing))

    def working(self, run: Run, text: str) -> None:
        self._tell(run, text)

    def _tell(self, run: Run, text: str) -> None:
        """A line, unless there was one in the last half minute."""
        if self.clock() - self.told >= SILENCE:
            self.note(f"{run.model} under {run.scenario}: {self.kept:,} of {self.samples:,} samples done; {text}")

    def ended(self, run: Run, ending: str, standing: Score | None) -> None:
        self.done += 1
        shown = standing_text(standing)
        left = left_text(self.time_left) if self.done < self.runs else ""
        self.note(f"{self.done}/{self.runs} {run.model} under {run.scenario}: {shown} ({ending}){left and f', {left}'}")

    def note(self, text: str) -> None:
        self.told = self.clock()
        err.print(text, markup=False, soft_wrap=True)


def left_text(time_left: TimeLeft) -> str:
    """The time that a job will take yet, in words; nothing while it cannot be known."""
    return "" if time_left.seconds is None else f"about {seconds_text(time_left.seconds)} left"
