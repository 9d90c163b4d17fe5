"""Mean accuracy over the radii of a sweep, by name."""

from __future__ import annotations

from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.columns import SWEEP, over_radii
from holdfast.store.rows import Rows


@register("metric", "mean-over-radii")
class MeanOverRadii:
    """Accuracy under a sweep, averaged over its radii; None for a run that is no sweep."""

    unit = "percent"

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        return over_radii(rows) if any(change.name == SWEEP for change in rows.footer.changes) else None
