"""Rows in, scores with intervals out. No torch, no files.

What a metric of your own is made of has its names here: `from holdfast.metrics import Rows, Score, register, wilson`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.core.intervals import wilson as wilson
    from holdfast.core.registry import register as register
    from holdfast.core.types import Score as Score
    from holdfast.core.types import without_interval as without_interval
    from holdfast.metrics.accuracy import Metric as Metric
    from holdfast.metrics.accuracy import aligned as aligned
    from holdfast.metrics.scopes import OfBattery as OfBattery
    from holdfast.metrics.scopes import OfRuns as OfRuns
    from holdfast.metrics.scopes import OfTable as OfTable
    from holdfast.store.rows import Rows as Rows

HOMES = {
    **dict.fromkeys(("Metric", "aligned"), "holdfast.metrics.accuracy"),
    **dict.fromkeys(("OfBattery", "OfRuns", "OfTable"), "holdfast.metrics.scopes"),
    **dict.fromkeys(("Score", "without_interval"), "holdfast.core.types"),
    "Rows": "holdfast.store.rows",
    "register": "holdfast.core.registry",
    "wilson": "holdfast.core.intervals",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES)
