"""Mixtures of two runs on the same samples: how much of a set is attacked, or shifted.

The posterior agreement experiments measure along such mixtures: adversarial ratio and shift ratio 0 is the first run,
1 the second.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.values import number_text
from holdfast.metrics.accuracy import aligned
from holdfast.store.rows import Rows


def adversarial_ratio(clean: Rows, attacked: Rows, ratio: float) -> Rows:
    """The rows of a set of which the share `ratio` is attacked: those whose perturbation is smallest.

    All samples were attacked; the clean row comes back for the 1 - ratio with the largest perturbation. Of equal
    sizes the later sample comes back first. A sample without a size (its attack failed) counts as the largest.
    """
    sizes = attacked.floats("size")
    if np.isnan(sizes).all():
        raise HoldfastError(
            f"no row of run {attacked.footer.key} has the size of a perturbation", hint="give the rows of an attack"
        )
    order = np.argsort(np.where(np.isnan(sizes), np.inf, sizes), kind="stable")
    taken = np.zeros(len(attacked), dtype=bool)
    taken[order[: _count(ratio, len(attacked), "adversarial ratio")]] = True
    return _mixed(clean, attacked, taken, "adversarial ratio", ratio)


def shift_ratio(reference: Rows, shifted: Rows, ratio: float) -> Rows:
    """The rows of a set of which the share `ratio` is shifted: the last of the reference's order.

    The first 1 - ratio of the samples come from the reference, the rest from the shifted environment; nothing is
    shuffled.
    """
    shifted = _paired(shifted, reference)
    unshifted = len(reference) - _count(ratio, len(reference), "shift ratio")
    return _mixed(reference, shifted, np.arange(len(reference)) >= unshifted, "shift ratio", ratio)


def _count(ratio: float, n: int, what: str) -> int:
    if not 0 <= ratio <= 1:
        raise Misuse(f"{what} must lie in [0, 1], got {ratio}")
    return round(ratio * n)


def _paired(one: Rows, other: Rows) -> Rows:
    """The rows of `one` in the order of `other`, which must be of the same samples and the same model."""
    if (one.footer.model, one.footer.weights) != (other.footer.model, other.footer.weights):
        raise HoldfastError(f"the rows are of two models, {other.footer.model} and {one.footer.model}")
    if len(one) != len(other):
        raise HoldfastError(
            f"run {other.footer.key} has {len(other)} samples, run {one.footer.key} has {len(one)}",
            hint="evaluate both on the same samples: same dataset and same --samples",
        )
    paired = aligned(one, other.ids)
    if not np.array_equal(paired.labels, other.labels):
        raise HoldfastError(f"runs {other.footer.key} and {one.footer.key} have other labels for the same samples")
    return paired


def _mixed(first: Rows, second: Rows, taken: NDArray[np.bool_], what: str, ratio: float) -> Rows:
    """The rows of `second` where `taken`, else of `first`, in the order of `second`; each keeps the name of its run."""
    first = _paired(first, second)
    both = pa.concat_tables([first.table.replace_schema_metadata(), second.table.replace_schema_metadata()])
    every = np.arange(len(second))
    table = both.unify_dictionaries().take(np.where(taken, every + len(second), every))
    facts = {**second.footer.facts, what: number_text(ratio), "mixed with": first.footer.key}
    return Rows(table, replace(second.footer, facts=facts))
