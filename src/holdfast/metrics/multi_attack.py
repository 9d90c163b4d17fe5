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
from holdfast.core.refs import parse_ref
from holdfast.core.types import Score
from holdfast.metrics.resampling import RESAMPLES, percentiles

Array = NDArray[np.float64]


class Strength(NamedTuple):
    """An attack at one strength. No attack at all is `CLEAN`."""

    attack: str
    strength: float

    def __str__(self) -> str:
        return f"{self.attack} {self.strength:g}" if self.attack else "no attack"


CLEAN = Strength("", 0.0)
NORMS = ("l1", "l2", "linf")
SAME_THREAT = {"fgsm": "linf", "fast-lpa": "lpips", "lpa": "lpips", "ppgd": "lpips", "lpips": "lpips"}


@dataclass(frozen=True, slots=True, eq=False)
class Battery:
    """A model's accuracy under a set of attacks, beside the best known accuracy under each.

    `accuracies` and `best` (the paper's acc*) are fractions, one per entry; NaN where a cell is missing. `n` and
    `best_n` are the samples every accuracy rests on, 0 where nobody said.
    """

    entries: tuple[Strength, ...]
    accuracies: Array
    best: Array
    n: int = 0
    best_n: int = 0

    def __post_init__(self) -> None:
        assert len(self.entries) == len(self.accuracies) == len(self.best), "one accuracy of each kind per entry"
        if len(set(self.entries)) != len(self.entries):
            twice = next(name for i, name in enumerate(self.entries) if name in self.entries[:i])
            raise Misuse(f"`{twice}` stands twice among the attacks")
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
        wanted = set(entries)
        kept = [i for i, entry in enumerate(self.entries) if entry in wanted]
        return replace(
            self,
            entries=tuple(self.entries[i] for i in kept),
            accuracies=self.accuracies[kept],
            best=self.best[kept],
        )

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
    accuracies: Mapping[Strength, float], best: Mapping[Strength, float], *, n: int = 0, best_n: int = 0
) -> Battery:
    """The cells of a model over the attacks that `best` has; what only the model has is left out."""
    entries = tuple(best)
    values = np.array([accuracies.get(entry, math.nan) for entry in entries], dtype=np.float64)
    return Battery(entries, values, np.array([best[entry] for entry in entries], dtype=np.float64), n, best_n)


def competitiveness(
    cells: Battery, *, missing: str = "refuse", resamples: int = RESAMPLES, seed: int = 0
) -> Competitiveness:
    """CR_ind-avg, CR_ind-worst, CR_exp and CR_max, with intervals where the counts are known.

    Missing cells are refused; `missing="count"` takes what there is, and `measured` then says how much.
    """
    kept = _complete(cells, missing)
    ratios = kept.accuracies / kept.best
    drawn, drawn_best = _redrawn(kept, resamples, seed)
    with np.errstate(divide="ignore", invalid="ignore"):  # a redrawn best accuracy may be 0: its ratio takes no part
        drawn_ratios = drawn / drawn_best
        pairs = (
            (ratios.mean(), drawn_ratios.mean(axis=1)),
            (ratios.min(), drawn_ratios.min(axis=1)),
            (kept.accuracies.mean() / kept.best.mean(), drawn.mean(axis=1) / drawn_best.mean(axis=1)),
            (kept.accuracies.min() / kept.best.min(), drawn.min(axis=1) / drawn_best.min(axis=1)),
        )
    average, worst, expected, most = (percentiles(float(value), drawn, cells.n) for value, drawn in pairs)
    entry = kept.entries[int(ratios.argmin())]
    return Competitiveness(average, worst, expected, most, entry, len(kept), len(cells))


def single_competitiveness(
    cells: Battery, *, missing: str = "refuse", resamples: int = RESAMPLES
) -> dict[str, Competitiveness]:
    """The ratios of each attack type alone, over its strengths and no attack, as the paper has it."""
    return {
        attack: competitiveness(
            cells.of([entry for entry in cells.entries if entry == CLEAN or entry.attack == attack]),
            missing=missing,
            resamples=resamples,
        )
        for attack in cells.attacks
    }


def uar(cells: Battery, *, missing: str = "refuse", resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Score]:
    """UAR of each attack type: accuracies summed over strengths, as a share of the best known. No clean term."""
    made = {}
    for attack in cells.attacks:
        part = _complete(cells.of([entry for entry in cells.entries if entry.attack == attack]), missing)
        drawn, best = _redrawn(part, resamples, seed)
        value = float(part.accuracies.sum() / part.best.sum())
        made[attack] = percentiles(value, drawn.sum(axis=1) / best.sum(axis=1), cells.n)
    return made


def mean_uar(cells: Battery, *, missing: str = "refuse", resamples: int = RESAMPLES, seed: int = 0) -> Score:
    """mUAR: the mean of UAR over attack types."""
    kept = _complete(cells.of([entry for entry in cells.entries if entry != CLEAN]), missing)
    drawn, best = _redrawn(kept, resamples, seed)
    values, replicates = [], []
    for attack in kept.attacks:
        mine = np.array([entry.attack == attack for entry in kept.entries])
        values.append(kept.accuracies[mine].sum() / kept.best[mine].sum())
        replicates.append(drawn[:, mine].sum(axis=1) / best[:, mine].sum(axis=1))
    return percentiles(float(np.mean(values)), np.mean(replicates, axis=0), cells.n)


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


def inside_outside(
    cells: Battery, trained: Mapping[str, float], *, missing: str = "refuse", resamples: int = RESAMPLES
) -> InsideOutside:
    """CR-in and CR-out: the same ratios over known and over unforeseen attacks."""
    seen = set(knowledge(cells.entries, trained).seen)
    parts = (cells.of(seen), cells.of(set(cells.entries) - seen))
    return InsideOutside(
        *(competitiveness(part, missing=missing, resamples=resamples) if len(part) else None for part in parts)
    )


# inside


def _complete(cells: Battery, missing: str) -> Battery:
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


def _redrawn(cells: Battery, resamples: int, seed: int) -> tuple[Array, Array]:
    """Accuracies as other draws of samples would have them; NaN where no count is known."""
    random = np.random.default_rng(seed)
    return (
        _on_same_samples(random, cells.accuracies, cells.n, resamples),
        _on_same_samples(random, cells.best, cells.best_n, resamples)
        if cells.n and cells.best_n
        else (np.broadcast_to(cells.best, (resamples, len(cells)))),
    )


def _on_same_samples(random: np.random.Generator, accuracies: Array, n: int, resamples: int) -> Array:
    """Draws of accuracies measured on the same n samples, of which only the counts are known.

    Taken to be as alike as they can be (a sample that one attack breaks is broken by every stronger one): no average of
    them can spread more, so intervals err to the wide side.
    """
    if not n:
        return np.full((resamples, len(accuracies)), np.nan)
    order = np.argsort(accuracies)
    steps = np.diff(accuracies[order], prepend=0.0, append=1.0)
    counts = random.multinomial(n, steps / steps.sum(), size=resamples)
    made = np.empty((resamples, len(accuracies)))
    made[:, order] = np.cumsum(counts, axis=1)[:, :-1] / n
    return made
