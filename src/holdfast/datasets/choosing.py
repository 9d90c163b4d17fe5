"""Some samples of a dataset, chosen by their ids: the order of the dataset and its other samples do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import digest
from holdfast.core.types import Dataset, DatasetCard, Images


@dataclass(slots=True, eq=False)
class Chosen:
    """Some samples of another dataset, with their ids, labels and classes."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    whole: Dataset
    places: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images:
        return self.whole.images(self.places[np.asarray(index, dtype=np.int64)].tolist())


def chosen(whole: Dataset, places: NDArray[np.int64], *, name: str = "") -> Chosen:
    """The samples at these places, in this order."""
    if not len(places):
        raise HoldfastError(f"nothing of `{whole.card.name}` is left", hint="ask for a larger share, or more samples")
    ids = tuple(whole.ids[place] for place in places.tolist())
    card = replace(
        whole.card, name=name or whole.card.name, fingerprint=digest(["chosen", whole.card.fingerprint, list(ids)])
    )
    return Chosen(card, ids, whole.labels[places], whole, places)


def keyed_order(ids: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Positions in a random order that is a function of seed and ids: a longer choice contains every shorter one."""
    from holdfast.core.noise import Noise

    keys = Noise.of(seed, ids).scope("choice").keys.numpy()
    return np.argsort(keys, kind="stable")


def first(ids: Sequence[str], count: int, seed: int, *, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The places of `count` samples chosen at random, in the order of the dataset."""
    places = np.arange(len(ids)) if among is None else among
    order = keyed_order([ids[place] for place in places.tolist()], seed)
    return np.sort(places[order[:count]])
