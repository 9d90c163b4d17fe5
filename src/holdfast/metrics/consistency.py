"""Error consistency by name: how alike the errors of each model are to those of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.accuracy import aligned
from holdfast.metrics.averages import mean_of
from holdfast.metrics.error_consistency import consistency_matrix, error_consistency
from holdfast.store.rows import Rows


@register("metric", "error-consistency", source="arXiv:2006.16736")
class ErrorConsistency:
    """Cohen's κ of being right: with another model (`model`), else the mean over all others; 1 for the same errors.

    Of the samples that both saw. Against `reference` rows, those of the same model without the change.
    """

    per_model = True

    def __init__(self, *, model: str | None = None) -> None:
        self.model = model

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        return None if reference is None else _kappa(rows, reference)

    def of_predictions(self, rows: Mapping[str, Rows]) -> Mapping[str, Score]:
        if self.model is not None and self.model not in rows:
            raise unknown("model measured under this scenario", self.model, rows)
        if len(rows) < 2:
            raise HoldfastError("error consistency is of two models or more, and one was measured")
        scores_by_model: dict[str, list[Score]] = {name: [] for name in rows}
        for one, other in combinations(rows, 2):
            if self.model in (None, one, other):
                score = _kappa(rows[one], rows[other])
                for name in (one, other):
                    if self.model in (None, one if name == other else other):
                        scores_by_model[name].append(score)
        defined = {
            name: scores for name, scores in scores_by_model.items() if not any(math.isnan(s.value) for s in scores)
        }
        return {name: mean_of(scores) for name, scores in defined.items() if scores}

    def matrix(self, rows: Mapping[str, Rows]) -> dict[str, object]:
        """κ of every pair, on the samples that all models saw."""
        shared = set.intersection(*(set(each.ids) for each in rows.values()))
        ids = [name for name in next(iter(rows.values())).ids if name in shared]
        return {
            "models": list(rows),
            "kappa": consistency_matrix([aligned(each, ids) for each in rows.values()]).tolist() if ids else [],
            "n": len(ids),
        }


def _kappa(one: Rows, other: Rows) -> Score:
    theirs = set(other.ids)
    shared = [name for name in one.ids if name in theirs]
    if not shared:
        raise HoldfastError(f"`{one.footer.model}` and `{other.footer.model}` share no samples")
    return error_consistency(aligned(one, shared), aligned(other, shared))
