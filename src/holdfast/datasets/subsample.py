"""A random part of any dataset."""

from __future__ import annotations

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.datasets import load
from holdfast.datasets.choosing import Chosen, chosen, first


@register("dataset", "subsample", tags=("built",))
def subsample(
    dataset: str,
    *,
    share: float | None = None,
    count: int | None = None,
    per_class: bool = False,
    rest: bool = False,
    seed: int = 0,
) -> Chosen:
    """A random part of a dataset: a share of it or a count of samples, over all or of every class.

    `subsample:(cifar10:split=train),share=0.05`. A sample's chance depends on seed and id alone, so that a larger part
    contains every smaller one and the order of the dataset does not matter. With `rest` it is what the part leaves:
    what to train on where the part is held out to test.
    """
    if (share is None) == (count is None):
        raise Misuse("`subsample` needs `share` or `count`, one of them", hint="share=0.1, or count=1000")
    if share is not None and not 0 < share <= 1:
        raise Misuse(f"`share` must lie in (0, 1], got {share}")
    if count is not None and count < 1:
        raise Misuse(f"`count` must be at least 1, got {count}")
    whole = load(dataset)
    groups = [np.arange(len(whole.ids))]
    if per_class:
        groups = [np.flatnonzero(whole.labels == label) for label in np.unique(whole.labels)]
    wanted = [round(share * len(group)) if share is not None else count or 0 for group in groups]
    for group, some in zip(groups, wanted, strict=True):
        if some > len(group):
            where = f"`{whole.card.classes[whole.labels[group[0]]]}`" if per_class else f"`{dataset}`"
            raise HoldfastError(f"{where} has {len(group)} samples, not {some}", hint=f"count={len(group)} or fewer")
    parts = [first(whole.ids, some, seed, among=group) for group, some in zip(groups, wanted, strict=True)]
    places = np.sort(np.concatenate(parts))
    if rest:
        places = np.setdiff1d(np.arange(len(whole.ids)), places)
    return chosen(whole, places)
