"""Where a sweep attacks each sample next, and which later attacks it may make ahead of their turn.

A sample's search asks at one level of the grid at a time, between one that did not break it and one that did. An attack
made ahead is only used once the search asks for it: made ahead or not, every search takes the same way.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torch import Tensor

SUCCESS_COST = 0.2  # of a failed attack, which runs to its end; measured 0.05 to 0.3 over the attacks here

Span = tuple[int, int]  # a level that did not break the sample, and one that did


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What an attack on a sample at a level came to: an image with its size, and why where it went wrong.

    `broken_at`: the smallest level that the image counts at, which may be lower than that of the attack; None where it
    failed.
    """

    image: Tensor
    size: float
    broken_at: int | None
    reason: str | None = None


@dataclass(slots=True)
class LevelSearch:
    """The search of one sample: not broken at `low`, broken at `high`, until they are neighbours.

    Level 0 is no attack, the last one means that no radius breaks it. `results`: those not asked for yet, by level.
    """

    high: int
    low: int = 0
    results: dict[int, LevelResult] = field(default_factory=dict)

    @property
    def span(self) -> Span:
        return self.low, self.high

    @property
    def is_over(self) -> bool:
        return self.high - self.low < 2

    @property
    def level(self) -> int:
        """Where to attack next."""
        return split_level(self.span)

    def follow(self) -> Iterator[LevelResult]:
        """Goes on as far as there are results, and returns those that it asked for, in turn."""
        while not self.is_over and self.level in self.results:
            result = self.results.pop(level := self.level)
            if result.broken_at is None:
                self.low = level
            else:
                self.high = min(result.broken_at, self.high)
            yield result
        self.results = {level: result for level, result in self.results.items() if self.low < level < self.high}

    def after(self, span: Span) -> list[tuple[float, Span]]:
        """What may be left to search after the attack between these levels, and how likely each is."""
        (low, high), level = span, split_level(span)
        if (result := self.results.get(level)) is None:
            share = (level - low) / (high - low)  # every threshold is as likely
            rests = [(share, (low, level)), (1 - share, (level, high))]
        else:
            rests = [(1.0, (level, high) if result.broken_at is None else (low, min(result.broken_at, high)))]
        return [(share, (low, high)) for share, (low, high) in rests if high - low > 1]


def next_attacks(searches: Mapping[int, LevelSearch], filled: int) -> list[tuple[int, int]]:
    """The samples whose search is not over, each with the level to attack it at.

    Where these are fewer than `filled`, the attacks that are likeliest to be asked for later make up the number.
    """
    attacks = [(sample, search.level) for sample, search in searches.items() if not search.is_over]
    if len(attacks) >= filled:
        return attacks
    begun = [(sample, searches[sample]) for sample, _ in attacks]
    later = [(-chance, sample, span) for sample, search in begun for chance, span in search.after(search.span)]
    heapq.heapify(later)
    while later and len(attacks) < filled:
        chance, sample, span = heapq.heappop(later)
        search, level = searches[sample], split_level(span)
        if level not in search.results:
            attacks.append((sample, level))
        for share, rest in search.after(span):
            heapq.heappush(later, (chance * share, sample, rest))
    return attacks


def split_level(span: Span) -> int:
    low, high = span
    return low + splits(high - low)[high - low]


@functools.cache
def splits(most: int) -> tuple[int, ...]:
    """Where to attack between low and high, by their distance: cheapest on average if every threshold is as likely.

    A failure costs a whole attack, a success much less, so it pays to come from above.
    """
    cost, split = [0.0, 0.0], [0, 0]
    for n in range(2, most + 1):
        options = [(j / n * (SUCCESS_COST + cost[j]) + (n - j) / n * (1 + cost[n - j]), j) for j in range(1, n)]
        best, at = min(options)
        cost.append(best)
        split.append(at)
    return tuple(split)


@functools.cache
def depth(most: int) -> int:
    """Most attacks that a search may need for one sample."""
    longest = [0, 0]
    for n in range(2, most + 1):
        longest.append(1 + max(longest[splits(most)[n]], longest[n - splits(most)[n]]))
    return longest[most]
