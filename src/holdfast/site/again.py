"""How to make the runs again: the command, and what it ran on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.site.findings import Measured


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs that one command made with the same versions on the same device."""

    command: str
    device: str
    versions: tuple[tuple[str, str], ...]
    runs: tuple[Measured, ...]

    @property
    def seconds(self) -> float:
        return sum(run.footer.seconds for run in self.runs)

    @property
    def facts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What the runs recorded besides, each fact with its values."""
        met: dict[str, list[str]] = {}
        for run in self.runs:
            for name, value in run.footer.facts.items():
                met.setdefault(name, []).append(value)
        return tuple((name, tuple(dict.fromkeys(values))) for name, values in sorted(met.items()))


@dataclass(frozen=True, slots=True)
class Totals:
    """What all runs took together."""

    seconds: float
    forwards: int
    backwards: int


def batches(runs: Sequence[Measured]) -> list[Batch]:
    """The runs by command, in the order they were first met."""
    met: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Measured]] = {}
    for run in runs:
        footer = run.footer
        met.setdefault((footer.command, footer.device, tuple(sorted(footer.versions.items()))), []).append(run)
    return [Batch(command, device, versions, tuple(some)) for (command, device, versions), some in met.items()]


def totals(runs: Sequence[Measured]) -> Totals:
    footers = [run.footer for run in runs]
    return Totals(
        seconds=sum(footer.seconds for footer in footers),
        forwards=sum(footer.forwards for footer in footers),
        backwards=sum(footer.backwards for footer in footers),
    )
