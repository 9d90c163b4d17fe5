"""Epochs chosen by posterior agreement against those chosen by accuracy, from docs/selected-epochs.csv."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

from holdfast.core.intervals import CONFIDENCE
from holdfast.core.types import Score, without_interval
from holdfast.store.published import published

TABLE = Path(__file__).parents[1] / "docs" / "selected-epochs.csv"
PRINTED = "posterior-agreement"  # what the paper's Table 1 has
TESTS = tuple(f"test-{number}" for number in range(1, 6))


class ChosenEpoch(NamedTuple):
    """The epoch that a training's validation chooses, and its mean accuracy on the five test sets, as a share."""

    method: str
    opportunity: str
    seed: int
    first: int
    by: str
    epoch: int
    accuracy: float


def read_epochs(path: Path = TABLE) -> list[ChosenEpoch]:
    """All lines of the table; none where there is no table."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            ChosenEpoch(
                line["method"],
                line["opportunity"],
                int(line["seed"]),
                int(line["from_epoch"]),
                line["by"],
                int(line["epoch"]),
                mean(float(line[test]) for test in TESTS) / 100,
            )
            for line in csv.DictReader(file)
        ]


def differences(epochs: Sequence[ChosenEpoch], method: str, first: int, opportunity: str | None = None) -> list[float]:
    """For each training, accuracy of the epoch chosen by agreement less that of the one chosen by accuracy."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for each in epochs:
        if (each.method, each.first) == (method, first) and opportunity in (None, each.opportunity):
            found.setdefault((each.opportunity, each.seed), {})[each.by] = each.accuracy
    return [pair["agreement"] - pair["accuracy"] for pair in found.values() if len(pair) == 2]


def mean_difference(values: Sequence[float]) -> Score:
    """Their mean, with Student's interval over trainings."""
    if len(values) < 2:
        return without_interval(mean(values), len(values), "one training")
    reach = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / math.sqrt(len(values))
    return Score(mean(values), mean(values) - reach, mean(values) + reach, len(values))


def printed_differences(method: str, opportunities: Sequence[str]) -> list[float]:
    """What the paper prints for a method under these shortcuts, over its five test sets."""
    table = published(PRINTED).table
    models = [f"{method.upper()} {opportunity.upper()}" for opportunity in opportunities]
    columns = [table.column(f"{test}-difference") for test in TESTS]
    found = [float(column[table.models.index(name)]) for name in models if name in table.models for column in columns]
    return [value for value in found if math.isfinite(value)]
