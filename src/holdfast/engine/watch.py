"""What a run tells while it goes on. The command line draws it; a script may ignore it."""

from __future__ import annotations

from typing import Protocol

from holdfast.core.refs import Run
from holdfast.core.types import Score


class Watcher(Protocol):
    """Hears of every run: how many there are, what is done, how it stands."""

    def planned(self, runs: int) -> None: ...

    def began(self, run: Run, samples: int, kept: int) -> None: ...

    def advanced(self, run: Run, samples: int, standing: Score) -> None: ...

    def ended(self, run: Run, said: str, standing: Score | None) -> None: ...

    def note(self, text: str) -> None: ...


class Silent:
    """Hears everything, says nothing."""

    def planned(self, runs: int) -> None: ...

    def began(self, run: Run, samples: int, kept: int) -> None: ...

    def advanced(self, run: Run, samples: int, standing: Score) -> None: ...

    def ended(self, run: Run, said: str, standing: Score | None) -> None: ...

    def note(self, text: str) -> None: ...
