"""Accuracy: the share of samples the model gets right, plain, in the top k, and under attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.store.rows import Rows


class Metric(Protocol):
    """A score of some rows, against reference rows where it needs them. Pure: no torch, no files."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None: ...


def accuracy(rows: Rows) -> Score:
    """Share of samples whose top prediction is the label, with its interval."""
    return wilson(int(rows.correct.sum()), len(rows))


@register("metric", "accuracy", source="Wilson 1927, doi:10.1080/01621459.1927.10502953")
class Accuracy:
    """Share of samples whose top prediction is the label; a sample without a usable answer counts as wrong."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return accuracy(rows)


@register("metric", "top-k-accuracy")
class TopK:
    """Share of samples whose label is among the k largest logits."""

    def __init__(self, *, k: int = 5) -> None:
        if k < 0:
            raise Misuse(f"`k` is 0 or more, got {k}")
        self.k = k

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return wilson(int((rows.floats("rank") < self.k).sum()), len(rows))


@register("metric", "robust-accuracy")
class RobustAccuracy:
    """Share of samples that stay right under the scenario's attack; None for a scenario without one.

    With a reference (the same samples unattacked), a sample must be right there too: an attack that happens to mend a
    mistake does not make the model more robust.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        if not rows.footer.is_attacked:
            return None
        right = rows.correct
        if reference is not None:
            right = right & aligned(reference, rows.ids).correct
        return wilson(int(right.sum()), len(rows))


def worst_case(runs: Sequence[Rows]) -> Score:
    """Share of samples that stay right in every one of the runs."""
    if not runs:
        raise HoldfastError("the worst case over no runs is not defined")
    right = np.ones(len(runs[0]), dtype=bool)
    for rows in runs:
        right &= aligned(rows, runs[0].ids).correct
    return wilson(int(right.sum()), len(right))


def aligned(rows: Rows, ids: Sequence[str]) -> Rows:
    """The rows of these samples, in this order."""
    if list(ids) == rows.ids:
        return rows
    row = {name: i for i, name in enumerate(rows.ids)}
    missing = [name for name in ids if name not in row]
    if missing:
        raise HoldfastError(
            f"{len(missing)} of {len(ids)} samples are not in run {rows.footer.key}, `{missing[0]}` first",
            hint="evaluate both on the same samples: same dataset and same --samples",
        )
    return Rows(rows.table.take([row[name] for name in ids]), rows.footer)
