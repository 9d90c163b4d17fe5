"""A random part of any dataset, chosen by ids: neither the order of the dataset nor its other samples matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse, NoLabels
from holdfast.core.labels import is_labelled
from holdfast.core.refs import digest
from holdfast.core.registry import register
from holdfast.core.types import Dataset, DatasetCard, Images, bytes_of_file
from holdfast.datasets import load


@dataclass(slots=True, eq=False)
class ChosenSamples:
    """Some samples of another dataset, with their ids, labels and classes."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    whole: Dataset
    positions: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images:
        return self.whole.images(self.positions[np.asarray(index, dtype=np.int64)].tolist())

    def file_bytes(self, position: int) -> bytes:
        return bytes_of_file(self.whole, int(self.positions[position]))


def subset_of(whole: Dataset, positions: NDArray[np.int64]) -> ChosenSamples:
    """The samples at these positions, in this order."""
    if not len(positions):
        raise HoldfastError(f"nothing of `{whole.card.name}` is left", hint="ask for a larger share, or more samples")
    ids = tuple(whole.ids[position] for position in positions.tolist())
    card = replace(whole.card, fingerprint=digest(["chosen", whole.card.fingerprint, list(ids)]))
    return ChosenSamples(card, ids, whole.labels[positions], whole, positions)


def keyed_order(ids: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Positions in a random order that is a function of seed and ids: a longer choice contains every shorter one."""
    from holdfast.core.noise import Noise

    keys = Noise.of(seed, ids).scope("choice").keys.numpy()
    return np.argsort(keys, kind="stable")


def keyed_choice(
    ids: Sequence[str], count: int, seed: int, *, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The positions of `count` samples chosen at random, in the order of the dataset."""
    positions = np.arange(len(ids)) if among is None else among
    order = keyed_order([ids[position] for position in positions.tolist()], seed)
    return np.sort(positions[order[:count]])


@register("dataset", "subsample", tags=("built",))
def subsample(
    dataset: str,
    *,
    share: float | None = None,
    count: int | None = None,
    per_class: bool = False,
    rest: bool = False,
    seed: int = 0,
) -> ChosenSamples:
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
        if not is_labelled(whole.labels):
            raise NoLabels(f"`per_class` needs labels, and `{dataset}` has none", hint="leave `per_class` out")
        groups = [np.flatnonzero(whole.labels == label) for label in np.unique(whole.labels)]
    counts = [round(share * len(group)) if share is not None else count or 0 for group in groups]
    for group, some in zip(groups, counts, strict=True):
        if some > len(group):
            where = f"`{whole.card.classes[whole.labels[group[0]]]}`" if per_class else f"`{dataset}`"
            raise HoldfastError(f"{where} has {len(group)} samples, not {some}", hint=f"count={len(group)} or fewer")
    parts = [keyed_choice(whole.ids, some, seed, among=group) for group, some in zip(groups, counts, strict=True)]
    positions = np.sort(np.concatenate(parts))
    if rest:
        positions = np.setdiff1d(np.arange(len(whole.ids)), positions)
    return subset_of(whole, positions)
