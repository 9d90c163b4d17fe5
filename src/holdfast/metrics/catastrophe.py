"""Catastrophic degradation: a model that loses far more under a shift than the other models do.

OODRobustBench (arXiv:2310.12793, section 3.2 and Appendix E) shows such outliers under noise: one model loses 46
points of robustness where the average is 9. An outlier is what lies beyond the whiskers of its box plots, drawn over
the other models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.table import Table
from holdfast.core.types import Flag

FENCE = 1.5  # interquartile ranges beyond the upper quartile: Tukey's whisker
FEWEST = 8  # other models: fewer have no quartiles to speak of
LEAST = 0.01  # an outlier by less than a point over the whisker is no catastrophe


class Catastrophe(NamedTuple):
    """A model under a shift: what it loses, what the others lose (median), and the most that is usual among them."""

    model: str
    shift: str
    loss: float
    typical: float
    usual: float
    others: int

    @property
    def flag(self) -> Flag:
        """For a report or a board."""
        return Flag(
            "catastrophic-degradation",
            "warning",
            f"loses {100 * self.loss:.1f} points under {self.shift}, where {self.others} other models lose "
            f"{100 * self.typical:.1f} (median) and {100 * self.usual:.1f} at most usually",
        )


def catastrophes(
    table: Table, reference: str, shifts: Sequence[str] | None = None, *, fence: float = FENCE
) -> tuple[Catastrophe, ...]:
    """Every model and shift whose loss is an outlier against the other models, largest excess first.

    The loss is the score under `reference` minus that under the shift. Cells without a value take no part; a shift that
    fewer than nine models have is refused if it was asked for by name, else passed over.
    """
    start = table.column(reference)
    found = []
    for shift in shifts if shifts is not None else [name for name in table.settings if name != reference]:
        losses = start - table.column(shift)
        known = np.flatnonzero(~np.isnan(losses))
        if len(known) <= FEWEST:
            if shifts is None:
                continue
            raise Misuse(
                f"{len(known)} models have both `{reference}` and `{shift}`, an outlier takes {FEWEST + 1} at least"
            )
        for place in known:
            others = losses[known[known != place]]
            low, typical, high = np.quantile(others, [0.25, 0.5, 0.75])
            usual = float(high + fence * (high - low))
            if losses[place] > usual + LEAST:
                loss = float(losses[place])
                found.append(Catastrophe(table.models[place], shift, loss, float(typical), usual, len(others)))
    return tuple(sorted(found, key=lambda each: each.usual - each.loss))
