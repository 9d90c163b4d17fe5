"""Progress in a notebook: one bar for the run under way and one for all, without further packages."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.refs import Run
from holdfast.core.types import Score
from holdfast.engine.watch import Expected, StderrWatcher, TimeLeft, standing_text

PAUSE = 0.25  # seconds between two pictures of the bar


def in_notebook() -> bool:
    """Whether a notebook shows what this process displays."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class NotebookWatcher(StderrWatcher):
    """Shows one HTML display that is updated in place; notes go below it."""

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
