"""Which samples, in which order: a keyed, stratified order whose every prefix is a fair sample of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def stratified_order(ids: Sequence[str], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in an order whose first n samples hold each class in proportion, for every n.

    It depends on ids and labels alone, so every model and scenario sees the same samples, and a larger choice contains
    the smaller one.
    """
    rank = np.array([_keyed(name) for name in ids], dtype=np.uint64)
    place = np.empty(len(ids), dtype=np.float64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(rank[members], kind="stable")]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((rank, place))


def chosen(ids: Sequence[str], labels: NDArray[np.int64], samples: int | None) -> NDArray[np.int64]:
    """Positions of the samples asked for, in stratified order; all of them when there are no more."""
    order = stratified_order(ids, labels)
    return order if samples is None else order[:samples]


def _keyed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"samples").digest(), "little")
