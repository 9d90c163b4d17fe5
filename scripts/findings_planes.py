"""Lines and planes over models of two sources of digits and their mixtures, from docs/planes.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.table import Table, table
from holdfast.trends.fits import fit

PLANES = Path(__file__).parents[1] / "docs" / "planes.csv"
SOURCES = ("mnist", "uci")


class DigitModels(NamedTuple):
    """Accuracies of models on both sources and on the shifted sets, and each model's group."""

    table: Table
    groups: tuple[str, ...]

    @property
    def shifted(self) -> tuple[str, ...]:
        return tuple(name for name in self.table.settings if name not in SOURCES)


class Explained(NamedTuple):
    """How well accuracies explain that on a shifted set: R² over all models, mean error over groups left out."""

    r2: float
    error: float


def read_planes(path: Path = PLANES) -> DigitModels | None:
    """The table; None where it has not been made."""
    if not path.is_file():
        return None
    cells: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    groups = []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        settings = [name for name in reader.fieldnames or () if name not in ("group", "recipe", "seed", "n", "runs")]
        for line in reader:
            model = f"{line['recipe']}-seed{line['seed']}"
            groups.append(line["group"])
            for setting, n in zip(settings, line["n"].split(), strict=True):
                counts[model, setting], cells[model, setting] = int(n), float(line[setting]) / 100
    return DigitModels(table(cells, counts=counts), tuple(groups))


def explained(models: DigitModels, y: str, x: Sequence[str]) -> Explained:
    """The fit of `y` on `x` on logit scale; a score of 0 or 1 counts as half a sample from it."""
    groups = np.array(models.groups)
    inputs = np.stack([inside(models.table, name) for name in x], axis=1)
    errors = np.empty(len(groups))
    for group in sorted(set(models.groups)):
        out = groups == group
        kept = [name for name, away in zip(models.table.models, out, strict=True) if not away]
        expected = fit(models.table, y, x, models=kept, zero="clip").expected(inputs[out])
        errors[out] = np.abs(expected - models.table.column(y)[out])
    return Explained(fit(models.table, y, x, zero="clip").r2, float(errors.mean()))


def inside(accuracies: Table, name: str) -> NDArray[np.float64]:
    """A column with scores of 0 and 1 moved half a sample inwards."""
    half = 0.5 / accuracies.count(name)
    return np.clip(accuracies.column(name), half, 1 - half)
