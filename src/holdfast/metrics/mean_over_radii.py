"""Mean accuracy over the radii of a sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.means import mean_of_values
from holdfast.metrics.radius_curves import smallest_radii
from holdfast.store.rows import Rows

SWEEP = "sweep"


@register("metric", "mean-over-radii")
class MeanOverRadii:
    """Accuracy under a sweep, averaged over its radii; None for a run that is no sweep."""

    unit = "percent"

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        return over_radii(rows) if any(change.name == SWEEP for change in rows.footer.changes) else None


def over_radii(rows: Rows) -> Score:
    """Accuracy under a sweep, averaged over its radii."""
    return mean_of_values(radii_survived(rows))


def radii_survived(rows: Rows) -> NDArray[np.float64]:
    """The share of a sweep's radii at which each sample is still right."""
    sweeps = [change for change in rows.footer.changes if change.name == SWEEP]
    if not sweeps:
        raise HoldfastError(f"`{rows.footer.scenario}` is no sweep", hint="write it as `sweep:attack=(…),radii=[…]`")
    radii = np.array(sweeps[-1].args["radii"], dtype=np.float32)  # as rows hold them
    return np.asarray((smallest_radii(rows)[:, None] > radii[None]).mean(axis=1))
