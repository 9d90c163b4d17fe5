"""What the template shows: everything decided, nothing computed there but the words of single numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.core.types import ModelCard
from holdfast.site import wording
from holdfast.site.addresses import link
from holdfast.site.cautions import Cautions, cautions_of
from holdfast.site.figures import Figure, letters, report_figures
from holdfast.site.headline import headline
from holdfast.site.model_results import MeasuredRun, ModelResults, OtherRun
from holdfast.site.next_step import NextStep, next_step
from holdfast.site.report_verdict import Verdict, verdict
from holdfast.site.shown_samples import PICTURE_BYTES, ShownSample, picked
from holdfast.site.statements import TOPICS, Statement, caution_statement, comparison_statement, statements


@dataclass(frozen=True, slots=True)
class SampleGallery:
    """Samples of one kind of change: those shown, of how many that fit, and how many pictures there were in all.

    `is_known`: an undisturbed run says which samples were right before.
    """

    title: str
    changed: bool
    shown: tuple[ShownSample, ...]
    fitting: int
    stored: int
    is_known: bool


@dataclass(frozen=True, slots=True)
class ModelPair:
    """The model and another under one scenario."""

    run: MeasuredRun
    other: OtherRun


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


class Totals(NamedTuple):
    """What all runs took together."""

    seconds: float
    forwards: int
    backwards: int


@dataclass(frozen=True, slots=True)
class Page:
    """One report."""

    title: str
    results: ModelResults
    facts: tuple[tuple[str, str, str | None], ...]
    measured: str
    verdicts: dict[str, Verdict]
    step: NextStep
    summaries: dict[str, list[Statement]]
    asides: tuple[Statement, ...]
    cautions: Cautions
    scores: dict[str, dict[str, list[MeasuredRun]]]
    figures: list[Figure]
    letters: dict[str, str]
    headlines: tuple[ModelPair, ...]
    rivals: dict[str, list[ModelPair]]
    galleries: tuple[SampleGallery, ...]
    setups: list[Setup]
    totals: Totals

    @property
    def has_top5(self) -> bool:
        return any(run.line.top5 is not None for run in self.results.runs)

    @property
    def has_sizes(self) -> bool:
        return any(run.size is not None for run in self.results.runs)


def page(results: ModelResults, *, title: str | None = None) -> Page:
    known = cautions_of(results)
    # a verdict for every dataset on which a change was measured; for the first where none was
    changed = {name: runs for name, runs in results.datasets.items() if any(run.footer.changes for run in runs)}
    first = dict([*results.datasets.items()][:1])
    return Page(
        title=title or results.model,
        results=results,
        facts=card_facts(results.newest.card),
        measured=wording.period([run.footer.finished for run in results.runs]),
        verdicts={name: verdict(runs) for name, runs in (changed or first).items()},
        step=next_step(results),
        summaries={dataset: statements(runs, dataset) for dataset, runs in results.datasets.items()},
        asides=(comparison_statement(results), caution_statement(known)),
        cautions=known,
        scores={
            dataset: {
                topic: some for group, topic in TOPICS.items() if (some := [run for run in runs if run.group == group])
            }
            for dataset, runs in results.datasets.items()
        },
        figures=report_figures(results),
        letters=letters(results),
        headlines=tuple(
            ModelPair(chosen.run, other)
            for runs in results.datasets.values()
            for group in TOPICS
            if (chosen := headline(runs, group)) is not None
            for other in chosen.run.beside
        ),
        rivals={
            model: [
                ModelPair(run, other) for run in results.runs for other in run.beside if other.footer.model == model
            ]
            for model in results.others
        },
        galleries=_galleries(results),
        setups=_setups(results.files),
        totals=Totals(*(sum(getattr(run.footer, name) for run in results.files) for name in Totals._fields)),
    )


def card_facts(card: ModelCard) -> tuple[tuple[str, str, str | None], ...]:
    """Name, text and link of everything the card states; what it leaves out is said to be."""
    unstated = "not stated"
    any_size = f"{wording.counted(card.channels, 'channel')}, any size"
    size = f"{card.channels} × {card.size} × {card.size}" if card.size else any_size
    facts: list[tuple[str, str, str | None]] = [
        ("Classes", wording.with_commas(card.classes), None),
        ("Parameters", wording.large(card.parameters) if card.parameters else unstated, None),
        ("Input", size, None),
        ("Trained on", card.trained_on or unstated, None),
        ("Trained against", ", ".join(card.threats) or "no attack stated", None),
        ("Licence", card.licence or unstated, None),
        ("Paper", card.paper or unstated, link(card.paper)),
        ("Source", card.source or unstated, link(card.source)),
    ]
    if card.weights:
        facts.append(("Weights", card.weights[:16], None))
    if not card.differentiable:
        facts.append(("Gradients", "none: attacks that need them do not apply", None))
    return tuple(facts)


def _galleries(results: ModelResults) -> tuple[SampleGallery, ...]:
    order = [*(group for group in TOPICS if group != "undisturbed"), "undisturbed"]
    by_group = {group: [run for run in results.runs if run.group == group and run.pictures] for group in order}
    filled = {group: runs for group, runs in by_group.items() if runs}
    budget = PICTURE_BYTES // max(1, sum(any(run.shown_samples for run in runs) for runs in filled.values()))
    return tuple(
        SampleGallery(
            title=TOPICS[group],
            changed=group != "undisturbed",
            shown=picked([run.shown_samples for run in runs], budget),
            fitting=len({one.id for run in runs for one in run.shown_samples}),
            stored=sum(run.pictures for run in runs),
            is_known=any(run.kept is not None for run in runs),
        )
        for group, runs in filled.items()
    )


def _setups(runs: Sequence[MeasuredRun]) -> list[Setup]:
    """The runs by what they ran on and by command, in the order they were first met."""
    met: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, tuple[MeasuredRun, ...]]] = {}
    for run in runs:
        commands = met.setdefault((run.footer.device, tuple(sorted(run.footer.versions.items()))), {})
        commands[run.footer.command] = (*commands.get(run.footer.command, ()), run)
    return [Setup(device, versions, commands) for (device, versions), commands in met.items()]
