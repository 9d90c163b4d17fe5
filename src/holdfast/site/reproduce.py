"""How to make the runs again: the command, and what it ran on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.site.model_results import MeasuredRun


@dataclass(frozen=True, slots=True)
class Setup:
    """Runs made with the same versions on the same device, by the command that made them."""

    device: str
    versions: tuple[tuple[str, str], ...]
    commands: dict[str, tuple[MeasuredRun, ...]]

    @property
    def runs(self) -> tuple[MeasuredRun, ...]:
        return tuple(run for some in self.commands.values() for run in some)

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


def setups(runs: Sequence[MeasuredRun]) -> list[Setup]:
    """The runs by what they ran on and by command, in the order they were first met."""
    met: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, tuple[MeasuredRun, ...]]] = {}
    for run in runs:
        commands = met.setdefault((run.footer.device, tuple(sorted(run.footer.versions.items()))), {})
        commands[run.footer.command] = (*commands.get(run.footer.command, ()), run)
    return [Setup(device, versions, commands) for (device, versions), commands in met.items()]


def totals(runs: Sequence[MeasuredRun]) -> Totals:
    footers = [run.footer for run in runs]
    return Totals(
        seconds=sum(footer.seconds for footer in footers),
        forwards=sum(footer.forwards for footer in footers),
        backwards=sum(footer.backwards for footer in footers),
    )
