"""Live progress: the run under way and the whole, samples per second, time left, accuracy so far with its interval."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from holdfast.cli.output import err
from holdfast.core.refs import Run
from holdfast.core.types import Score
from holdfast.engine.watch import Silent, Watcher


@contextlib.contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """A live display on a terminal, a line per finished run elsewhere, nothing when quiet. Ctrl-C ends it in words."""
    try:
        with _display(quiet) as watcher:
            yield watcher
    except KeyboardInterrupt:
        err.print("stopped; everything finished is kept, and the same command goes on from here")
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _display(quiet: bool) -> Iterator[Watcher]:
    if quiet:
        yield Silent()
    elif err.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[standing]}"),
            console=err,
            refresh_per_second=8,
        ) as progress:
            yield Live(progress)
    else:
        yield Lines()


class Live:
    """Two bars: all runs, and the samples of the one under way."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.whole: TaskID | None = None
        self.one: TaskID | None = None

    def planned(self, runs: int) -> None:
        self.whole = self.progress.add_task("all runs", total=runs, pace="", standing="")

    def began(self, run: Run, samples: int, kept: int) -> None:
        if self.one is not None:
            self.progress.remove_task(self.one)
        name = f"{run.model} · {run.scenario}"
        self.one = self.progress.add_task(name, total=samples, completed=kept, pace="", standing="")

    def advanced(self, run: Run, samples: int, standing: Score) -> None:  # noqa: ARG002
        assert self.one is not None, "a run begins before it advances"
        self.progress.advance(self.one, samples)
        speed = self.progress.tasks[-1].speed
        self.progress.update(self.one, pace=f"{speed:,.0f}/s" if speed else "", standing=standing.percent())

    def ended(self, run: Run, said: str, standing: Score | None) -> None:  # noqa: ARG002
        assert self.whole is not None, "runs are planned before they end"
        self.progress.advance(self.whole, 1)

    def note(self, text: str) -> None:
        self.progress.console.print(text, markup=False)


class Lines:
    """One line per finished run, for logs."""

    def __init__(self) -> None:
        self.runs = self.done = 0

    def planned(self, runs: int) -> None:
        self.runs = runs

    def began(self, run: Run, samples: int, kept: int) -> None:
        if kept and kept < samples:
            err.print(
                f"{run.model} under {run.scenario}: {kept:,} of {samples:,} samples are there already", markup=False
            )

    def advanced(self, run: Run, samples: int, standing: Score) -> None: ...

    def ended(self, run: Run, said: str, standing: Score | None) -> None:
        self.done += 1
        shown = standing.percent() if standing is not None else ""
        err.print(
            f"{self.done}/{self.runs} {run.model} under {run.scenario}: {shown} ({said})", markup=False, soft_wrap=True
        )

    def note(self, text: str) -> None:
        err.print(text, markup=False, soft_wrap=True)
