"""How sure a model is of answers that a change broke, by name."""

from __future__ import annotations

from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.along_ratios import confidence_before_after
from holdfast.store.rows import Rows


@register("metric", "mean-confidence-when-broken", source="the posterior agreement paper; see docs/metrics.md")
class ConfidenceWhenBroken:
    """Mean confidence in wrong answers to samples that were right before the change; None where none was broken.

    None without reference rows.
    """

    unit = "percent"

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        after = None if reference is None else confidence_before_after(reference, rows).after
        return None if after is None or not after.n else after
