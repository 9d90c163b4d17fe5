"""Competitiveness against many attacks: how close a model comes to models trained on each attack alone.

Definitions of MultiRobustBench (arXiv:2302.10980); UAR of Kang et al. (arXiv:1908.08016). All shares are fractions
here, so a published competitiveness ratio of 67.76 is 0.6776.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.refs import parse_ref
from holdfast.core.types import Score, without_interval
from holdfast.metrics.difference_tests import exact_bounds
from holdfast.metrics.means import DRAWS, SampledValues, mean_over, scaled

Array = NDArray[np.float64]


class Strength(NamedTuple):
    """An attack at one strength. No attack at all is `CLEAN`."""

    attack: str
    strength: float

    def __str__(self) -> str:
        return f"{self.attack} {self.strength:g}" if self.attack else "no attack"


CLEAN = Strength("", 0.0)
NORMS = ("l1", "l2", "linf")
NO_COUNT = "the number of samples behind the accuracies is not known"
SAME_THREAT = {"fgsm": "linf", "fast-lpa": "lpips", "lpa": "lpips", "ppgd": "lpips", "lpips": "lpips"}


@dataclass(frozen=True, slots=True, eq=False)
class Battery:
    """A model's accuracy under a set of attacks, beside the best known accuracy under each.

    `accuracies` and `best` (the paper's acc*) are fractions, one per entry; NaN where a cell is missing. `n` and
    `best_n` are the samples every accuracy rests on, 0 where unknown. `outcomes` are the samples behind each
    accuracy and whether they stay right, where that is known: only it tells how accuracies vary together.
    """

    entries: tuple[Strength, ...]
    accuracies: Array
    best: Array
    n: int = 0
    best_n: int = 0
    outcomes: tuple[SampledValues, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.entries) == len(self.accuracies) == len(self.best), "one accuracy of each kind per entry"
        assert len(self.outcomes) in (0, len(self.entries)), "outcomes of every entry or of none"
        if len(set(self.entries)) != len(self.entries):
            twice = next(name for i, name in enumerate(self.entries) if name in self.entries[:i])
            raise Misuse(f"`{twice}` is listed twice among the attacks")
        known = np.concatenate([self.accuracies, self.best])
        known = known[~np.isnan(known)]
        if ((known < 0) | (known > 1)).any():
            raise Misuse(f"accuracies are fractions, got {known.max():g}", hint="divide percentages by 100")

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def missing(self) -> int:
        return int(np.isnan(self.accuracies).sum())

    def of(self, entries: Iterable[Strength]) -> Battery:
        """Only some of the entries, in their own order."""
        kept_entries = set(entries)
        kept = [i for i, entry in enumerate(self.entries) if entry in kept_entries]
        return replace(
            self,
            entries=tuple(self.entries[i] for i in kept),
            accuracies=self.accuracies[kept],
            best=self.best[kept],
            outcomes=tuple(self.outcomes[i] for i in kept) if self.outcomes else (),
        )

    def with_attack(self, attack: str) -> Battery:
        """No attack, and one attack at its strengths."""
        return self.of([entry for entry in self.entries if entry == CLEAN or entry.attack == attack])

    @property
    def cells(self) -> tuple[SampledValues, ...]:
        """The samples behind every accuracy, right or wrong.

        Where only counts are known, the attacks count as nested: a sample that one breaks is broken by every attack
        under which accuracy is lower.
        """
        if self.outcomes:
            return self.outcomes
        every = np.arange(self.n)
        return tuple(SampledValues(every, every < round(accuracy * self.n)) for accuracy in self.accuracies)

    @property
    def attacks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.attack for entry in self.entries if entry != CLEAN))


class Competitiveness(NamedTuple):
    """The four ratios of one battery. `worst` is the entry that sets the individual worst case.

    `measured` of `entries` cells went in: fewer only where `missing="count"` was asked for.
    """

    average: Score
    individual_worst: Score
    expected: Score
    maximum: Score
    worst: Strength
    measured: int
    entries: int

    @property
    def is_complete(self) -> bool:
        return self.measured == self.entries


def battery(
    accuracies: Mapping[Strength, float],
    best: Mapping[Strength, float],
    *,
    n: int = 0,
    best_n: int = 0,
    outcomes: Mapping[Strength, SampledValues] | None = None,
) -> Battery:
    """The cells of a model over the attacks that `best` has; what only the model has is left out."""
    entries = tuple(best)
    values = np.array([accuracies.get(entry, math.nan) for entry in entries], dtype=np.float64)
    known = outcomes is not None and all(entry in outcomes for entry in entries)
    return Battery(
        entries,
        values,
        np.array([best[entry] for entry in entries], dtype=np.float64),
        n,
        best_n,
        tuple(outcomes[entry] for entry in entries) if known and outcomes is not None else (),
    )


def competitiveness(
    cells: Battery, *, missing: str = "refuse", resamples: int = DRAWS, seed: int = 0
) -> Competitiveness:
    """CR_ind-avg, CR_ind-worst, CR_exp and CR_max, with intervals where the counts are known.

    Missing cells are refused; `missing="count"` takes what there is, and `measured` then says how much. `resamples` and
    `seed` are those of `means.mean_over`.
    """
    kept = _complete(cells, missing)
    each = np.ones(len(kept)) / len(kept)
    return Competitiveness(
        _weighted(kept, each / kept.best, resamples, seed),
        _smallest(kept, kept.best),
        _weighted(kept, each / kept.best.mean(), resamples, seed, of_sum=True),
        _smallest(kept, np.full(len(kept), kept.best.min())),
        kept.entries[int((kept.accuracies / kept.best).argmin())],
        len(kept),
        len(cells),
    )


def single_competitiveness(cells: Battery, *, resamples: int = DRAWS) -> dict[str, Competitiveness]:
    """The ratios of each attack type alone, over its strengths and no attack, as the paper has it."""
    return {attack: competitiveness(cells.with_attack(attack), resamples=resamples) for attack in cells.attacks}


def uar(cells: Battery, *, resamples: int = DRAWS) -> dict[str, Score]:
    """UAR of each attack type: accuracies summed over strengths, as a share of the best known. No clean term."""
    made = {}
    for attack in cells.attacks:
        part = _complete(cells.of([entry for entry in cells.entries if entry.attack == attack]))
        made[attack] = _weighted(part, np.ones(len(part)) / part.best.sum(), resamples, of_sum=True)
    return made


def mean_uar(cells: Battery, *, resamples: int = DRAWS) -> Score:
    """mUAR: the mean of UAR over attack types."""
    kept = _complete(cells.of([entry for entry in cells.entries if entry != CLEAN]))
    names = np.array([entry.attack for entry in kept.entries])
    sums = {attack: float(kept.best[names == attack].sum()) for attack in kept.attacks}
    weights = np.array([1 / (len(sums) * sums[entry.attack]) for entry in kept.entries])
    return _weighted(kept, weights, resamples, of_sum=True)


# what the learner knew


class Knowledge(NamedTuple):
    """Which entries a model was trained on. `setting` is `full`, `partial` or `none`; no attack counts as known."""

    seen: tuple[Strength, ...]
    share: float
    setting: str


def knowledge(entries: Iterable[Strength], trained: Mapping[str, float]) -> Knowledge:
    """From the attacks of training and their strengths: every strength up to that one is known."""
    every = tuple(entries)
    seen = tuple(entry for entry in every if entry == CLEAN or entry.strength <= trained.get(entry.attack, -math.inf))
    attacks_seen = [entry for entry in seen if entry != CLEAN]
    setting = "full" if len(seen) == len(every) else "partial" if attacks_seen else "none"
    return Knowledge(seen, len(seen) / len(every) if every else math.nan, setting)


def trained_strengths(threats: Iterable[str], attacks: Iterable[str]) -> dict[str, float]:
    """For each attack, the largest radius at which its threat was trained on, by the refs on a model's card.

    `pgd-linf:radius=8/255` on the card makes `mm5-linf` up to 8/255 known: the threat counts, not the attack.
    """
    largest: dict[str, float] = {}
    for text in threats:
        parsed = parse_ref(text)
        radius = parsed.keywords.get("radius", parsed.positional[0] if parsed.positional else None)
        if isinstance(radius, bool) or not isinstance(radius, int | float):
            raise Misuse(f"the threat `{text}` has no radius", hint="write it out on the card: pgd-linf:radius=8/255")
        threat = threat_of(parsed.name)
        largest[threat] = max(largest.get(threat, 0.0), float(radius))
    return {name: largest[threat_of(name)] for name in attacks if threat_of(name) in largest}


def threat_of(attack: str) -> str:
    """What an attack may change: `linf` of `mm5-linf`, `lpips` of `ppgd`, else the attack itself."""
    if attack in SAME_THREAT:
        return SAME_THREAT[attack]
    kind, _, norm = attack.rpartition("-")
    return norm if norm in NORMS and not kind.startswith("jpeg") else attack


class InsideOutside(NamedTuple):
    """Competitiveness on the entries a model was trained on, and on the others; None where there are none."""

    inside: Competitiveness | None
    outside: Competitiveness | None


def inside_outside(cells: Battery, trained: Mapping[str, float], *, resamples: int = DRAWS) -> InsideOutside:
    """CR-in and CR-out: the same ratios over known and over unforeseen attacks."""
    seen = set(knowledge(cells.entries, trained).seen)
    parts = (cells.of(seen), cells.of(set(cells.entries) - seen))
    return InsideOutside(*(competitiveness(part, resamples=resamples) if len(part) else None for part in parts))


# inside


def _complete(cells: Battery, missing: str = "refuse") -> Battery:
    if missing not in ("refuse", "count"):
        raise Misuse(f"`missing` is refuse or count, got `{missing}`")
    if not len(cells):
        raise HoldfastError("no attacks to average over")
    if np.isnan(cells.best).any():
        entry = cells.entries[int(np.isnan(cells.best).argmax())]
        raise HoldfastError(f"there is no best known accuracy under {entry}")
    if (cells.best == 0).any():
        entry = cells.entries[int((cells.best == 0).argmax())]
        raise HoldfastError(f"the best known accuracy under {entry} is 0, and no ratio to it is defined")
    absent = np.isnan(cells.accuracies)
    if not absent.any():
        return cells
    entry = cells.entries[int(absent.argmax())]
    if missing == "refuse" or absent.all():
        raise HoldfastError(
            f"{int(absent.sum())} of {len(cells)} accuracies are missing, {entry} first",
            hint='measure them, or take what there is with missing="count" and show the count',
        )
    return cells.of([entry for entry, gone in zip(cells.entries, absent, strict=True) if not gone])


def _weighted(cells: Battery, weights: Array, draws: int, seed: int = 0, *, of_sum: bool = False) -> Score:
    """Σ weight x accuracy; the weights have the best accuracies in them, each its own or (`of_sum`) a sum of them."""
    value = float(weights @ cells.accuracies)
    if not cells.n:
        return without_interval(value, 0, NO_COUNT)
    total = float(weights.sum())
    if not total * value:
        more = 0.0
    else:
        # of a ratio a / b: the variance that an error of b adds, relative to a / b
        by_best = weights * cells.accuracies / cells.best if not of_sum else value * weights / (weights @ cells.best)
        more = _variance_of_sum(by_best, cells.best, cells.best_n) / total**2
    taken = [cell._replace(weight=float(weight)) for cell, weight in zip(cells.cells, weights, strict=True)]
    made = scaled(mean_over(taken, more=more, draws=draws, seed=seed), total)
    return replace(made, value=value, low=min(made.low, value), high=max(made.high, value), n=cells.n)


def _variance_of_sum(weights: Array, shares: Array, n: int) -> float:
    """The variance of Σ weight x share for shares of the same n samples, nested; 0 where n is not known."""
    if not n:
        return 0.0
    covariance = np.minimum.outer(shares, shares) - np.outer(shares, shares)
    return float(weights @ covariance @ weights) / n


def _smallest(cells: Battery, best: Array) -> Score:
    """The smallest accuracy / best, right for any way in which accuracies vary together.

    It lies above the smallest of the lower bounds in 97.5 % of cases or more, as the entry that is truly smallest lies
    above its own; and below all upper bounds together, each made for its part of 5 %. The two ends are not missed as
    often together: entries as low as the smallest keep the lower end down, and others leave their part of 5 % unused.
    """
    value = float((cells.accuracies / best).min())
    if not cells.n:
        return without_interval(value, 0, NO_COUNT)
    counts = [len(np.asarray(cell.values)) for cell in cells.cells]
    right = [round(accuracy * n) for accuracy, n in zip(cells.accuracies, counts, strict=True)]
    miss = (1 - CONFIDENCE) / (2 if cells.best_n else 1)  # half of it for the best accuracies, where they were measured
    low, _ = exact_bounds(right, counts, miss)
    apart = len({np.asarray(cell.values, dtype=bool).tobytes() for cell in cells.cells})
    _, high = exact_bounds(right, counts, 2 * miss / max(apart, 2))
    below, above = best, best
    if cells.best_n:
        below, above = exact_bounds(np.round(best * cells.best_n), cells.best_n, miss / len(cells))
    with np.errstate(divide="ignore"):
        made = float((low / above).min()), float((high / below).min())
    return Score(value, min(made[0], value), max(made[1], value), cells.n)
