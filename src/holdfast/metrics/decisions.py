"""Decisions for continuous integration: is a score too low, is a model worse, each with the sentence why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args
from xml.etree import ElementTree

from holdfast.core.errors import unknown
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.rounding import percent
from holdfast.metrics.compare import Comparison
from holdfast.metrics.summary import Line

By = Literal["interval", "value"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one score passes. `subject` is the model, `scenario` what it was measured under."""

    subject: str
    scenario: str
    passed: bool
    sentence: str


def judged_by(text: str) -> By:
    """`interval`: only what the samples show counts; `value`: the number itself does."""
    ways: dict[str, By] = {way: way for way in get_args(By)}
    if text not in ways:
        raise unknown("way to judge", text, ways)
    return ways[text]


def under(lines: Sequence[Line], threshold: float, by: By) -> list[Decision]:
    """Which scores lie under a threshold: with their whole interval, or by their value alone."""
    decisions = []
    for line in lines:
        score = line.accuracy
        failed = (score.high if by == "interval" else score.value) < threshold
        is_low = score.value < threshold
        relation = "is under" if failed else "is not shown to be under" if is_low else "is not under"
        decisions.append(
            Decision(
                line.footer.model,
                line.footer.scenario,
                not failed,
                f"{line.footer.model} under {line.footer.scenario}: {score.percent()} of {score.n:,} {relation} "
                f"{percent(threshold)} %",
            )
        )
    return decisions


def worse(comparisons: Sequence[Comparison], one: str, other: str, by: By) -> list[Decision]:
    """Under which scenarios model `one` is worse than `other`.

    By interval: McNemar's test on the samples, by Holm's procedure over all scenarios, so that the chance of any false
    alarm is at most 5 %, in however many scenarios they are compared. By value: any loss counts.
    """
    failing = _holm([each.chance for each in comparisons])
    decisions = []
    for each, is_shown in zip(comparisons, failing, strict=True):
        is_lower = each.difference.value < 0
        failed = is_lower and (is_shown or by == "value")
        verdict = "is worse than" if failed else "is not shown to be worse than" if is_lower else "is not worse than"
        points = [percent(number) for number in (each.difference.value, each.difference.low, each.difference.high)]
        decisions.append(
            Decision(
                one,
                each.scenario,
                not failed,
                f"{one} {verdict} {other} under {each.scenario}: {points[0]} points [{points[1]}, {points[2]}] on "
                f"{each.one.n:,} samples, p = {each.chance:.2g}"
                + (f", judged among {len(comparisons)} scenarios" if len(comparisons) > 1 else ""),
            )
        )
    return decisions


def junit_text(name: str, decisions: Sequence[Decision]) -> str:
    """The decisions as JUnit XML, which CI systems show as tests."""
    failures = str(sum(not decision.passed for decision in decisions))
    counts = {"tests": str(len(decisions)), "failures": failures}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    for decision in decisions:
        about = {"classname": _printable(decision.subject), "name": _printable(decision.scenario)}
        case = ElementTree.SubElement(suite, "testcase", about)
        if not decision.passed:
            ElementTree.SubElement(case, "failure", {"message": _printable(decision.sentence)})
        ElementTree.SubElement(case, "system-out").text = _printable(decision.sentence)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _holm(chances: Sequence[float]) -> list[bool]:
    """Which of several p-values count at the level of the intervals, by Holm's step-down procedure."""
    counts = [False] * len(chances)
    for rank, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        if chances[i] >= (1 - CONFIDENCE) / (len(chances) - rank):
            break
        counts[i] = True
    return counts


def _printable(text: str) -> str:
    """Without control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
