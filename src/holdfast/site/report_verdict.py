"""The verdict on a model: one claim and its reasons, from the runs on one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.types import Score
from holdfast.site import wording
from holdfast.site.headline import Headline, headline
from holdfast.site.model_results import MeasuredRun

NEARLY_ALL, HOLDS, MOST, ALMOST_NONE = 0.9, 0.75, 0.5, 0.1
SERIOUS = ("error", "warning")
LISTED = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim in a few words, and the sentences it rests on. `holds` is None where nothing can be claimed."""

    claim: str
    text: str
    holds: bool | None


def verdict(runs: Sequence[MeasuredRun]) -> Verdict:
    """Of the runs on one dataset: under the stated attack, and over all corruptions measured.

    What is kept are the samples right when undisturbed that stay right. A claim is made where the whole interval
    allows it: under attack a model holds up from three quarters, in part from one half.
    """
    clean, attack = headline(runs, "undisturbed"), headline(runs, "attacked")
    corrupted = [run for run in runs if run.group == "corrupted" and run.kept is not None and run.kept.n]
    sentences = [*_about_chance(clean), *_about_attack(attack), *_about_corruptions(corrupted)]
    raised = [] if attack is None else [flag.name for flag in attack.run.footer.flags if flag.level in SERIOUS]
    if raised:
        sentences.append(f"Read this first: {wording.joined_words(raised)} was raised for that attack.")
    claim, holds = _claim(clean, attack, corrupted)
    return Verdict(claim, " ".join(sentences), holds)


def is_chance(clean: Headline | None) -> bool:
    """Whether the undisturbed accuracy may be that of guessing."""
    return clean is not None and bool(clean.run.footer.classes) and clean.run.accuracy.low <= _guess(clean)


def _claim(
    clean: Headline | None, attack: Headline | None, corrupted: Sequence[MeasuredRun]
) -> tuple[str, bool | None]:
    if is_chance(clean):
        return "Undisturbed it is no better than guessing.", None
    if attack is None and not corrupted:
        return "How it holds up is not known yet.", None
    lost = any(_loses_most(run) for run in corrupted)
    if attack is None:
        if lost:
            return "It does not hold up under every corruption; attacks were not measured.", False
        return "It holds up under the corruptions measured; attacks were not measured.", True
    kept = attack.run.kept
    if kept is None or not kept.n or kept.low < MOST <= kept.high:
        return "Whether it holds up under attack is open.", None
    if kept.high < MOST:
        return "It does not hold up under attack.", False
    part = "" if kept.low >= HOLDS else " in part"
    if not corrupted:
        return f"It holds up{part} under attack; corruptions were not measured.", True
    if lost:
        return f"It holds up{part} under attack, not under every corruption.", False
    if part:
        return f"It holds up{part} under attack, and under the corruptions measured.", True
    return "It holds up.", True


def _about_chance(clean: Headline | None) -> list[str]:
    if clean is None or not is_chance(clean):
        return []
    guess = wording.whole_percent(_guess(clean))
    return [
        f"It gets {wording.with_bounds(clean.run.accuracy)} right, and guessing gets {guess}: "
        "the classes may be in another order, or the images prepared in another way."
    ]


def _about_attack(attack: Headline | None) -> list[str]:
    if attack is None:
        return []
    run = attack.run
    where = f"Under {run.label}{f', {attack.why},' if attack.why else ''}"
    if run.kept is None or not run.kept.n:
        return [
            f"{where} {wording.percent_text(run.accuracy)} stay right; what that costs is not known "
            "without an undisturbed run."
        ]
    share, samples = wording.percent_text(run.kept), wording.counted(run.kept.n, "sample")
    rests = f"{share} of {samples} ({wording.interval_text(run.kept)})"
    level = _level(run.kept)
    if level in ("nearly all", "most", "about half", "almost none"):
        return [f"{where} it keeps {level} of what it gets right: {rests}."]
    return [f"{where} it loses most of what it gets right and keeps {rests}."]


def _about_corruptions(corrupted: Sequence[MeasuredRun]) -> list[str]:
    if not corrupted:
        return []
    count = wording.counted(len(corrupted), "corruption scenario")
    lost = sorted((run for run in corrupted if _loses_most(run)), key=lambda run: run.accuracy.value)
    if lost:
        more = [f"{len(lost) - LISTED} more"] if len(lost) > LISTED else []
        names = wording.joined_words([*(run.label for run in lost[:LISTED]), *more])
        return [f"Under {len(lost)} of {count} it loses most of what it gets right: {names}."]
    worst = min(corrupted, key=lambda run: run.kept.value if run.kept is not None else 1.0)
    assert worst.kept is not None, "only runs that say what is kept are listed"
    rests = f"{wording.percent_text(worst.kept)} is kept ({wording.interval_text(worst.kept)})"
    none = "Under none" if len(corrupted) > 1 else "Not even under the one"
    if worst.kept.low <= MOST:
        none = "Under the worst"
        return [f"{none} of {count}, {worst.label}, it may lose half of what it gets right: {rests}."]
    return [f"{none} of {count} does it lose most of what it gets right; under the worst, {worst.label}, {rests}."]


def _level(kept: Score | None) -> str | None:
    if kept is None or not kept.n:
        return None
    if kept.low >= MOST:
        return "nearly all" if kept.low >= NEARLY_ALL else "most"
    if kept.high < MOST:
        return "almost none" if kept.high < ALMOST_NONE else "little"
    return "about half"


def _loses_most(run: MeasuredRun) -> bool:
    return run.kept is not None and run.kept.n > 0 and run.kept.high < MOST


def _guess(clean: Headline) -> float:
    return 1 / max(1, len(clean.run.footer.classes))
