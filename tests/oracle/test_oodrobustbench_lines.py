"""OODRobustBench prints effective robustness, not its lines; what is printed gives the lines back, and their limits.

Score minus effective robustness is what the paper's line expects. If that is a straight line through raw percentages,
a fit recovers it up to the rounding of the table, and its value at 100 % is the printed upper limit.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.core.table import table
from holdfast.trends.fits import Fit
from holdfast.trends.robustness import conversion_rate, effective_robustness, printed_line, upper_limit

PRINTED = Path(holdfast.__file__).parent / "store" / "published"
TRAINING = "oodrobustbench-training"
pytestmark = pytest.mark.skipif(
    not (PRINTED / f"{TRAINING}.csv").exists(), reason="the transcribed tables are not here"
)


def printed(name: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with (PRINTED / f"{name}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["value"]:
                found[row["model"]][row["setting"]] = float(row["value"]) / 100
    return found


def trained_on() -> dict[str, str]:
    with (PRINTED / f"{TRAINING}.models.csv").open(newline="") as file:
        return {row["model"]: row["trained_on"] for row in csv.DictReader(file)}


def recovered(dataset: str, x: str, y: str, beyond: str) -> tuple[Fit, float]:
    """The paper's line, and how far the printed effective robustness is from ours at most."""
    data = trained_on()
    rows = {
        name: row for name, row in printed(TRAINING).items() if data[name] == dataset and {x, y, beyond} <= set(row)
    }
    scores = table({(name, setting): row[setting] for name, row in rows.items() for setting in (x, y, beyond)})
    line = printed_line(scores, y=y, x=x, beyond=beyond)
    return line, float(np.abs(effective_robustness(line, scores) - scores.column(beyond)).max())


# dataset, shift, its effective robustness, upper limit as printed in section 5
LINES = [
    ("CIFAR10", "ood-d-robustness", "ood-d-effective-robustness", 0.66),
    ("CIFAR10", "ood-t-robustness", "ood-t-effective-robustness", 0.52),
    ("ImageNet", "ood-d-robustness", "ood-d-effective-robustness", 0.43),
    ("ImageNet", "ood-t-robustness", "ood-t-effective-robustness", 0.52),
]


@pytest.mark.parametrize(("dataset", "shift", "beyond", "limit"), LINES)
def test_adversarial_effective_robustness_is_above_a_straight_line_with_the_printed_limit(
    dataset: str, shift: str, beyond: str, limit: float
) -> None:
    line, apart = recovered(dataset, "id-robustness", shift, beyond)
    # two numbers of two decimals, cut or rounded: 0.01 points
    assert apart < 0.0001
    assert round(upper_limit(line), 2) == limit
    assert 0 < conversion_rate(line) < 1


@pytest.mark.parametrize("dataset", ["CIFAR10", "ImageNet"])
def test_effective_robustness_of_accuracy_is_above_a_straight_line_too(dataset: str) -> None:
    _, apart = recovered(dataset, "id-accuracy", "ood-d-accuracy", "ood-d-effective-accuracy")
    assert apart < 0.0001
