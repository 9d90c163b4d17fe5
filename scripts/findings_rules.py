"""What a finding is, and what the claims of several papers are judged with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from findings_measured import FEWEST, STANDARD, Measured, value_of

from holdfast.core.rounding import percent, shown
from holdfast.core.table import table
from holdfast.core.types import Score
from holdfast.trends.fits import fit

OOD = "OODRobustBench, arXiv:2310.12793"
MULTI = "MultiRobustBench, arXiv:2302.10980"
MULTI_ID = "Multi-ID effective robustness, arXiv:2302.01381"
AGREEMENT = "Posterior agreement"
TESTBED = "ImageNet testbed, arXiv:2007.00644"
STRONG, WEAK = 0.9, 0.5  # R²
NOISES = ("gaussian-noise", "shot-noise", "impulse-noise")
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told here"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of a paper and what the store says. `rule`: what decides."""

    paper: str
    claim: str
    theirs: str
    ours: str
    verdict: str
    rule: str


def number(score: Score) -> str:
    between = f" [{shown(score.low, 2)}, {shown(score.high, 2)}]" if score.has_interval else ""
    return f"{shown(score.value, 2)}{between}"


def points(score: Score) -> str:
    """A difference of shares with its interval, in points."""
    return (
        f"{percent(score.value, signed=True)} [{percent(score.low, signed=True)}, {percent(score.high, signed=True)}]"
    )


def unknown_because(paper: str, claim: str, theirs: str, why: str, rule: str) -> Finding:
    return Finding(paper, claim, theirs, why, UNKNOWN, rule)


def lines_finding(claim: str, theirs: str, rule: str, found: Mapping[str, Score], data: Measured) -> Finding:
    if not found:
        why = f"{len(data.models)} models; a line needs {FEWEST} with both scores"
        return unknown_because(OOD, claim, theirs, why, rule)
    strong = [name for name, score in found.items() if score.value >= STRONG]
    weakest = min(found, key=lambda name: found[name].value)
    strongest = max(found, key=lambda name: found[name].value)
    ours = (
        f"{len(strong)} of {len(found)} shifts; median R² {shown(median(s.value for s in found.values()), 2)}, "
        f"{strongest} {number(found[strongest])}, {weakest} {number(found[weakest])}"
    )
    return Finding(OOD, claim, theirs, ours, HOLDS if len(strong) > len(found) / 2 else FAILS, rule)


def off_the_line(data: Measured, names: Sequence[str]) -> dict[str, float]:
    """How far models lie above the line of accuracy under corruptions that all other standard ones draw."""
    base = {m: (value_of(data.clean(m)), data.corrupted(m)) for m in data.models if data.group(m) == STANDARD}
    known = {m: (x, y) for m, (x, y) in base.items() if x is not None and y is not None}
    above: dict[str, float] = {}
    for name in names:
        others = {
            (m, part): value for m, pair in known.items() if m != name for part, value in zip("xy", pair, strict=True)
        }
        if name in known and len(others) >= 2 * (FEWEST - 1):
            x, y = known[name]
            above[name] = y - float(fit(table(others), "y", "x").expected(np.array([[x]]))[0])
    return above


def moved_off_the_line(
    data: Measured,
    paper: str,
    claim: str,
    theirs: str,
    rule: str,
    words: Sequence[str],
    good: Callable[[list[float]], bool],
) -> Finding:
    chosen = [m for m in data.models if data.group(m) == STANDARD and any(word in m for word in words)]
    above = off_the_line(data, chosen)
    if not above:
        return unknown_because(paper, claim, theirs, f"{FEWEST} standard models with all corruptions are needed", rule)
    ours = "; ".join(f"{name} {percent(value, signed=True)} points" for name, value in above.items())
    return Finding(paper, claim, theirs, ours, HOLDS if good(list(above.values())) else FAILS, rule)
