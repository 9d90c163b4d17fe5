"""The passes that a model's runs have before them: they decide whether a faster version of it is worth its making."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import overload

from holdfast.core.refs import Scenario
from holdfast.core.registry import registry
from holdfast.core.types import Cost

ENOUGH = 0.1  # of the passes of a job: what the runs before took of them tells what the others will take


@dataclass(slots=True)
class PassesAhead:
    """Passes to the images, at most, of each scenario; `left`: of those that have not ended.

    Attacks let go of broken samples, so runs take less: `share_taken` says what share, once some have ended.
    """

    bounds: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    taken: int = 0
    bound: int = 0

    def __post_init__(self) -> None:
        self.left = self.left or sum(self.bounds.values())

    def ended(self, scenario: str, taken: int | None) -> None:
        """A run has ended; `taken`: the passes of one that was measured now."""
        bound = self.bounds.get(scenario, 0)
        self.left -= bound
        if taken is not None and bound:
            self.taken += taken
            self.bound += bound

    @overload
    def share_taken(self) -> float | None: ...

    @overload
    def share_taken(self, otherwise: float) -> float: ...

    def share_taken(self, otherwise: float | None = None) -> float | None:
        """Of the passes that runs may take at most, the share that they did; `otherwise` while few have ended."""
        if self.bound == 0 or self.bound < ENOUGH * (self.bound + self.left):
            return otherwise
        return self.taken / self.bound


def scenario_cost(scenario: Scenario) -> Cost:
    """Passes that a sample takes at most, with the one that scores it."""
    costs = [registry.build(part).cost for part in scenario.changes]
    return Cost(1 + sum(cost.forwards for cost in costs), sum(cost.backwards for cost in costs))
