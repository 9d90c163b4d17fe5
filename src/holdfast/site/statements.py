"""The findings in plain sentences, each with what it rests on. What was not measured is said, not passed over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.types import Score
from holdfast.core.values import number_text
from holdfast.metrics.means import mean_of
from holdfast.metrics.unions import average_accuracy
from holdfast.site import wording
from holdfast.site.cautions import Cautions
from holdfast.site.half_lost import HalfLost, half_lost
from holdfast.site.headline import Headline, by_threat, headline, run_threat, unmeasured_training
from holdfast.site.model_results import MeasuredRun, ModelResults

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
LISTED = 6
HALF = 0.5


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or two under a topic, with the score they speak of where there is one; `more` is said below."""

    topic: str
    text: str
    score: Score | None = None
    partial: bool = False
    more: tuple[str, ...] = ()


def statements(runs: Sequence[MeasuredRun], dataset: str) -> list[Statement]:
    """What the runs on one dataset say."""
    made = []
    for group, topic in TOPICS.items():
        chosen = headline(runs, group)
        if chosen is not None:
            some = [other for other in runs if other.group == group]
            run = chosen.run
            text = " ".join([_sentence(chosen, some, dataset), *_drop(run), *_doubt(run, some)])
            more = (*_wrong_class(run), *(_about_attacks(chosen, some) if group == "attacked" else ()))
            score, behind = (_mean(some), some) if group == "corrupted" else (run.accuracy, [run])
            made.append(Statement(topic, text, score, any(one.footer.is_partial for one in behind), more))
    missing = [name for group, name in MISSING.items() if headline(runs, group) is None]
    if missing:
        names = wording.joined_words(missing)
        were, them = ("was", "it") if missing == [MISSING["both"]] else ("were", "them")
        text = f"{names[0].upper()}{names[1:]} {were} not measured on {dataset}, so nothing is claimed about {them}."
        made.append(Statement("Not measured", text))
    return made


def comparison_statement(results: ModelResults) -> Statement:
    """How the model compares with the others of the store, counted over paired comparisons."""
    topic = "Beside other models"
    met = [
        (dataset, chosen.run)
        for dataset, runs in results.datasets.items()
        for chosen in (headline(runs, group) for group in TOPICS)
        if chosen is not None and any(other.comparison for other in chosen.run.beside)
    ]
    if not met:
        return Statement(topic, "No other model of this store was measured under the same scenarios.")
    several = len({dataset for dataset, _ in met}) > 1
    parts = [
        ("undisturbed" if run.group == "undisturbed" else f"under {run.label}")
        + f"{f' ({dataset})' if several else ''} {_verdicts(run)}"
        for dataset, run in met
    ]
    return Statement(topic, f"On the same samples, {'; '.join(parts)}.")


def caution_statement(trust: Cautions) -> Statement:
    """What to know before believing the numbers, in one sentence."""
    topic = "Before you rely on it"
    facts = []
    if trust.unreadable:
        facts.append(f"{wording.counted(len(trust.unreadable), 'file')} of rows could not be read")
    if trust.subsets:
        rest = "rests" if trust.partial_runs == 1 else "rest"
        runs = f"{trust.partial_runs} of {trust.runs} runs" if trust.runs > 1 else "the one run"
        facts.append(f"{runs} {rest} on a part of the samples")
    if trust.flags:
        names = wording.joined_words([flag.name for flag in trust.flags])
        was = "was" if len(trust.flags) == 1 else "were"
        facts.append(f"{wording.counted(len(trust.flags), 'kind')} of flag {was} raised ({names})")
    if trust.failures:
        failed = sum(failure.samples for failure in trust.failures)
        facts.append(f"{wording.counted(failed, 'sample')} failed")
    if not facts:
        return Statement(topic, "Every run covers its whole dataset, no flag was raised and no sample failed.")
    text = wording.joined_words(facts)
    return Statement(topic, f"{text[0].upper()}{text[1:]}. The next part says which.")


def half_sentence(half: HalfLost | None) -> str:
    """The radius where half of what is right is lost, or why it is not known."""
    if half is None:
        return (
            "The radius where half of what it gets right is lost is not known: "
            "no undisturbed run on the same samples says what was right."
        )
    attack = half.attack
    if half.radius is None:
        kept = half.last.kept
        assert kept is not None, "a line is made of runs that say what is kept"
        return (
            f"Half of what it gets right is not lost up to radius {number_text(half.radii[-1])}, the largest measured "
            f"({attack}): there it keeps {wording.percent_text(kept)} of it "
            f"({wording.interval_text(kept)}, {wording.counted(kept.n, 'sample')})."
        )
    if len(half.runs) == 1:
        return (
            f"Half of what it gets right is lost below radius {number_text(half.radii[0])}, the only one measured "
            f"({attack})."
        )
    in_levels = all(number_text(radius).endswith("/255") for radius in half.radii)
    about = wording.radius_text(half.radius.value, in_levels=in_levels, digits=2)
    return (
        f"Half of what it gets right is lost at a radius of about {about}, interpolated "
        f"({_span(half.radius)}, {wording.counted(half.radius.n, 'sample')} right when undisturbed; {half.attack})."
    )


def _span(radius: Score) -> str:
    """`between 16/255 and 32/255 at 95 % or more`; an end that was not reached is left open."""
    if not radius.low:
        return f"below {number_text(radius.high)} at 95 % or more" if math.isfinite(radius.high) else "no bound at 95 %"
    if math.isinf(radius.high):
        return f"above {number_text(radius.low)} at 95 % or more"
    return f"between {number_text(radius.low)} and {number_text(radius.high)} at 95 % or more"


def _sentence(chosen: Headline, some: Sequence[MeasuredRun], dataset: str) -> str:
    run = chosen.run
    share, rests = wording.percent_text(run.accuracy), wording.with_interval(run.accuracy, run.footer)
    if run.group == "undisturbed":
        return f"Undisturbed, it gets {share} right on {dataset} ({rests})."
    if run.group == "corrupted":
        if len(some) == 1:
            return f"Under the one corruption measured, {run.label}, it gets {share} right ({rests})."
        mean = _mean(some)
        return (
            f"Over {len(some)} corruption scenarios it gets {wording.percent_text(mean)} right on average "
            f"({wording.interval_text(mean)}). The worst is {run.label}: {share} right ({rests})."
        )
    start = "Under attack" if run.group == "attacked" else _together(run)
    why = f", {chosen.why}" if chosen.why else ""
    kind = "attacks" if run.group == "attacked" else "scenarios"
    lowest = f", the lowest of {chosen.alike} {kind} at this radius" if chosen.alike > 1 else ""
    return f"{start} ({run.label}{why}) {share} stay right ({rests}){lowest}."


def _mean(runs: Sequence[MeasuredRun]) -> Score:
    """The mean over scenarios, as boards have it; with an interval from the samples where all hold the same."""
    some = [run for run in runs if run.accuracy.n]
    rows = [run.predictions for run in some if run.predictions is not None]
    if len(rows) == len(some) and len({frozenset(one.ids) for one in rows}) == 1:
        return average_accuracy(rows)
    return mean_of([run.accuracy for run in some])


def _together(run: MeasuredRun) -> str:
    kinds = [change.kind == "attack" for change in run.footer.changes]
    return "Corrupted and then attacked" if kinds == sorted(kinds) else "Corrupted and attacked"


def _drop(run: MeasuredRun) -> list[str]:
    lost = run.difference
    if lost is None:
        return []
    on = f"on the same {wording.counted(lost.n, 'sample')}"
    if lost.low <= 0 <= lost.high:
        return [f"No difference to undisturbed is shown {on} ({wording.interval_text(lost)} points)."]
    size = wording.points_text(lost).lstrip(f"+{wording.MINUS}")
    where = "below" if lost.value < 0 else "above"
    return [f"That is {size} points {where} undisturbed {on} (difference {wording.interval_text(lost)})."]


def _doubt(run: MeasuredRun, some: Sequence[MeasuredRun]) -> list[str]:
    near = [other for other in some if other is not run and other.accuracy.low <= run.accuracy.high]
    if run.group == "corrupted" and near:
        return [f"The intervals of {wording.counted(len(near), 'other')} overlap with it."]
    is_attacked = run.group in ("attacked", "both")
    return ["This is an upper limit: a stronger attack may leave fewer."] if is_attacked else []


def _wrong_class(run: MeasuredRun) -> list[str]:
    """The class into which wrong answers fall, in words that fit how many do."""
    dominant = run.dominant
    if dominant is None:
        return []
    share = dominant.share
    most = "Most wrong predictions are one class" if share.low > HALF else "Wrong predictions are one class more often"
    return [
        f"{most}: {wording.with_commas(dominant.count)} of {wording.with_commas(share.n)} are "
        f"{quoted_class(run, dominant.index)} ({wording.percent_text(share)}, {wording.interval_text(share)}); "
        f"spread evenly it would be {wording.whole_percent(dominant.expected)}."
    ]


def quoted_class(run: MeasuredRun, index: int) -> str:
    names = run.footer.classes
    return f"“{names[index]}”" if index < len(names) else f"class {index}"


def _about_attacks(chosen: Headline, some: Sequence[MeasuredRun]) -> list[str]:
    """What of training was not tried, where half is lost, what other threats leave, and the lowest of all."""
    same = [run for run in some if run_threat(run) == chosen.threat]
    sentences = []
    for one in unmeasured_training(some):
        radius = f" at radius {number_text(one.radius)}" if one.radius is not None else ""
        sentences.append(f"It was trained against {one.attack}{radius}, which was not measured.")
    sentences.append(half_sentence(half_lost(same)))
    others = [one for one in by_threat(some) if one.threat != chosen.threat]
    if others:
        named = [f"{one.run.label}: {wording.with_bounds(one.run.accuracy)}" for one in others[:LISTED]]
        rest = f"; {len(others) - LISTED} more are in the table" if len(others) > LISTED else ""
        sentences.append(f"Other threats, each at its stated radius: {'; '.join(named)}{rest}.")
    lowest = min((run for run in some if run.accuracy.n), key=lambda run: (run.accuracy.value, run.label))
    if lowest.accuracy.value < chosen.run.accuracy.value:
        bounds = wording.with_bounds(lowest.accuracy)
        sentences.append(f"The lowest of all {len(some)} attacks and radii measured is {lowest.label}: {bounds}.")
    return sentences


def _verdicts(run: MeasuredRun) -> str:
    """`better than vit-tiny and worse than 3 others`: names while they are few."""
    parts = []
    for verdict, words in VERDICTS.items():
        names = [other.footer.model for other in run.beside if other.comparison and other.comparison.verdict == verdict]
        if names:
            parts.append(f"{words} {wording.joined_words(names) if len(names) <= FEW else f'{len(names)} others'}")
    return wording.joined_words(parts)
