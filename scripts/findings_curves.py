"""Posterior agreement and AFR_T of three models over ratio and radius, from docs/agreement-curves.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CURVES = Path(__file__).parents[1] / "docs" / "agreement-curves.csv"
UNDEFENDED, DEFENDED, MASKING = ROLES = ("undefended", "defended", "masking")


class CurvePoint(NamedTuple):
    """A model at a radius (of 255) and a share of attacked samples."""

    role: str
    radius: int
    ratio: float
    agreement: float
    beta: float
    afr: float


def read_curves(path: Path = CURVES) -> list[CurvePoint]:
    """All points; none where the table has not been made."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            CurvePoint(
                line["role"],
                int(line["radius"]),
                float(line["ratio"]),
                float(line["pa"]),
                float(line["beta"]),
                float(line["afr_t"]) / 100,
            )
            for line in csv.DictReader(file)
        ]


def above_the_defended(points: Sequence[CurvePoint], role: str, measure: str) -> tuple[int, int]:
    """At how many of how many ratios and radii a model reaches what the defended one has, or more."""
    by_role = {(p.role, p.radius, p.ratio): float(getattr(p, measure)) for p in points}
    cells = [(p.radius, p.ratio) for p in points if p.role == role]
    return sum(by_role[role, *cell] >= by_role[DEFENDED, *cell] for cell in cells), len(cells)
