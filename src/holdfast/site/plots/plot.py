"""What a plot of the site is: words for the page, and data for the script that draws it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIGITS = 12  # enough that a value is written as the table writes it


@dataclass(frozen=True, slots=True)
class Plot:
    """One interactive plot. `kind` names what draws it; `data` goes into the page."""

    id: str
    kind: str
    title: str
    about: str
    data: dict[str, object]


def json_numbers(values: Iterable[float] | NDArray[np.float64], digits: int = DIGITS) -> list[float | None]:
    """Numbers as JSON has them: rounded, None where there is none."""
    array = np.round(np.asarray(values, dtype=np.float64), digits)
    return [value if known else None for value, known in zip(array.tolist(), np.isfinite(array), strict=True)]


def json_number(value: float, digits: int = DIGITS) -> float | None:
    return json_numbers([value], digits)[0]
