"""The findings in plain sentences, each with what it rests on. What was not measured is said, not passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.types import Score
from holdfast.site import wording
from holdfast.site.findings import Findings, Measured
from holdfast.site.trust import Trust

TOPICS = {
    "undisturbed": "Undisturbed",
    "corrupted": "Corrupted",
    "attacked": "Attacked",
    "both": "Corrupted and attacked",
}
MISSING = {
    "undisturbed": "the undisturbed images",
    "corrupted": "corruptions",
    "attacked": "attacks",
    "both": "corruption and attack together",
}

VERDICTS = {
    "better": "it is better than",
    "worse": "it is worse than",
    "no difference shown": "no difference is shown to",
}
FEW = 2


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or two under a topic, with the score they speak of where there is one."""

    topic: str
    text: str
    score: Score | None = None
    partial: bool = False


def headline(runs: Sequence[Measured], group: str) -> Measured | None:
    """The run that speaks for a group: the one with the lowest accuracy."""
    some = [run for run in runs if run.group == group and run.accuracy.n]
    return min(some, key=lambda run: (run.accuracy.value, run.label), default=None)


def statements(runs: Sequence[Measured], dataset: str) -> list[Statement]:
    """What the runs on one dataset say."""
    said = []
    for group, topic in TOPICS.items():
        run = headline(runs, group)
        if run is not None:
            some = [other for other in runs if other.group == group]
            text = " ".join([_sentence(run, some, dataset), *_drop(run), *_doubt(run, some)])
            said.append(Statement(topic, text, run.accuracy, run.footer.is_partial))
    missing = [name for group, name in MISSING.items() if headline(runs, group) is None]
    if missing:
        names = wording.listed(missing)
        were, them = ("was", "it") if missing == [MISSING["both"]] else ("were", "them")
        text = f"{names[0].upper()}{names[1:]} {were} not measured on {dataset}, so nothing is claimed about {them}."
        said.append(Statement("Not measured", text))
    return said


def standing(found: Findings) -> Statement:
    """How the model compares with the others of the store, counted over paired comparisons."""
    topic = "Beside other models"
    met = [
        (dataset, run)
        for dataset, runs in found.datasets.items()
        for run in (headline(runs, group) for group in TOPICS)
        if run is not None and any(other.comparison for other in run.beside)
    ]
    if not met:
        return Statement(topic, "No other model of this store was measured under the same scenarios.")
    several = len({dataset for dataset, _ in met}) > 1
    parts = [f"{_where(run)}{f' ({dataset})' if several else ''} {_verdicts(run)}" for dataset, run in met]
    return Statement(topic, f"On the same samples, {'; '.join(parts)}.")


def caution(trust: Trust) -> Statement:
    """What to know before believing the numbers, in one sentence."""
    topic = "Before you rely on it"
    said = []
    if trust.unreadable:
        said.append(f"{wording.counted(len(trust.unreadable), 'file')} of rows could not be read")
    if trust.subsets:
        rest = "rests" if trust.partial_runs == 1 else "rest"
        said.append(f"{trust.partial_runs} of {wording.counted(trust.runs, 'run')} {rest} on a part of the samples")
    if trust.flags:
        names = wording.listed([flag.name for flag in trust.flags])
        said.append(f"{wording.counted(len(trust.flags), 'kind')} of flag {_was(trust.flags)} raised ({names})")
    if trust.failures:
        failed = sum(failure.samples for failure in trust.failures)
        said.append(f"{wording.counted(failed, 'sample')} failed")
    if not said:
        return Statement(topic, "Every run covers its whole dataset, no flag was raised and no sample failed.")
    text = wording.listed(said)
    return Statement(topic, f"{text[0].upper()}{text[1:]}. The next part says which.")


def _sentence(run: Measured, some: Sequence[Measured], dataset: str) -> str:
    share, rests = wording.percent(run.accuracy), wording.with_interval(run.accuracy, run.footer)
    if run.group == "undisturbed":
        return f"Undisturbed, it gets {share} right on {dataset} ({rests})."
    if run.group == "corrupted":
        if len(some) == 1:
            return f"Under the one corruption measured, {run.label}, it gets {share} right ({rests})."
        return f"Of {len(some)} corruption scenarios measured, the worst is {run.label}: {share} right ({rests})."
    start = "Under attack" if run.group == "attacked" else _together(run)
    lowest = f", the lowest of {len(some)} such scenarios measured" if len(some) > 1 else ""
    return f"{start} ({run.label}) {share} stay right ({rests}){lowest}."


def _together(run: Measured) -> str:
    kinds = [change.kind == "attack" for change in run.footer.changes]
    return "Corrupted and then attacked" if kinds == sorted(kinds) else "Corrupted and attacked"


def _drop(run: Measured) -> list[str]:
    lost = run.difference
    if lost is None:
        return []
    on = f"on the same {wording.counted(lost.n, 'sample')}"
    if lost.low <= 0 <= lost.high:
        return [f"No difference to undisturbed is shown {on} ({wording.interval(lost)} points)."]
    size = wording.points(lost).lstrip(f"+{wording.MINUS}")
    where = "below" if lost.value < 0 else "above"
    return [f"That is {size} points {where} undisturbed {on} (difference {wording.interval(lost)})."]


def _doubt(run: Measured, some: Sequence[Measured]) -> list[str]:
    near = [other for other in some if other is not run and other.accuracy.low <= run.accuracy.high]
    said = []
    if run.group == "corrupted" and near:
        said.append(f"The intervals of {wording.counted(len(near), 'other')} overlap with it.")
    if run.group in ("attacked", "both"):
        said.append("This is an upper limit: a stronger attack may leave fewer.")
    return said


def _verdicts(run: Measured) -> str:
    """`better than vit-tiny and worse than 3 others`: names while they are few."""
    said = []
    for verdict, words in VERDICTS.items():
        names = [other.footer.model for other in run.beside if other.comparison and other.comparison.verdict == verdict]
        if names:
            said.append(f"{words} {wording.listed(names) if len(names) <= FEW else f'{len(names)} others'}")
    return wording.listed(said)


def _where(run: Measured) -> str:
    return "undisturbed" if run.group == "undisturbed" else f"under {run.label}"


def _was(things: Sequence[object]) -> str:
    return "was" if len(things) == 1 else "were"
