"""The spaces in which accuracies lie on a line: as they are, as log-odds, or as normal quantiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from holdfast.core.errors import Misuse, unknown

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Space:
    """A monotone map of fractions and its inverse. `has_edges`: 0 and 1 are infinitely far away."""

    name: str
    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    has_edges: bool

    def __str__(self) -> str:
        return self.name


def _same(values: Floats) -> Floats:
    return values


LINEAR = Space("linear", _same, _same, has_edges=False)
LOGIT = Space("logit", logit, expit, has_edges=True)
PROBIT = Space("probit", ndtri, ndtr, has_edges=True)
SPACES = {space.name: space for space in (LINEAR, LOGIT, PROBIT)}


def space_of(name: str | Space) -> Space:
    """The space with a name."""
    if isinstance(name, Space):
        return name
    if name not in SPACES:
        raise unknown("space", name, SPACES)
    return SPACES[name]


def fractions(values: Floats, what: str) -> Floats:
    """The values as float64, NaN for none; anything outside [0, 1] is an error."""
    values = np.asarray(values, dtype=np.float64)
    if np.any((values < 0) | (values > 1)):
        raise Misuse(
            f"{what} must be fractions in [0, 1], got [{np.nanmin(values):.4g}, {np.nanmax(values):.4g}]",
            hint="divide percentages by 100",
        )
    return values


def on_edge(values: Floats, space: Space) -> NDArray[np.bool_]:
    """Which values the space sends to infinity."""
    if not space.has_edges:
        return np.zeros(values.shape, dtype=bool)
    return np.asarray((values <= 0) | (values >= 1))


def inside(values: Floats, counts: NDArray[np.int64] | float) -> Floats:
    """The values at least half a sample away from 0 and 1."""
    margin = 0.5 / np.maximum(counts, 1)
    return np.clip(values, margin, 1 - margin)
