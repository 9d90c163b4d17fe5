"""The answers of several models to the same samples, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, NoLabels
from holdfast.core.labels import no_labels
from holdfast.trends.spaces import Floats

if TYPE_CHECKING:
    from holdfast.metrics import Rows


class SharedPredictions(NamedTuple):
    """Predictions (models, samples), NaN for no answer, with the labels of the samples; `left_out` counts samples.

    A sample is left out when some model did not see it. `unlabelled`: why there are no labels, where there are none.
    """

    models: tuple[str, ...]
    ids: tuple[str, ...]
    predictions: Floats
    known_labels: NDArray[np.int64]
    left_out: int
    unlabelled: NoLabels | None = None

    @property
    def labels(self) -> NDArray[np.int64]:
        """The classes that are right; refused where the samples have none."""
        if self.unlabelled is not None:
            raise self.unlabelled
        return self.known_labels

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.asarray(self.predictions == self.labels)


def side_by_side(rows: Mapping[str, Rows]) -> SharedPredictions:
    """The answers to the samples that every model saw, in the order of the first one."""
    first = next(iter(rows.values()), None)
    if first is None:
        raise HoldfastError("no models to put side by side")
    shared = set(first.ids).intersection(*(each.ids for each in rows.values()))
    every = set().union(*(each.ids for each in rows.values()))
    ids = tuple(name for name in first.ids if name in shared)
    if not ids:
        raise HoldfastError(
            f"the {len(rows)} models share no samples", hint="evaluate all on the same dataset with the same --samples"
        )
    predictions, labels = [], []
    unlabelled: NoLabels | None = None
    for each in rows.values():
        row = {name: i for i, name in enumerate(each.ids)}
        index = [row[name] for name in ids]
        predictions.append(np.asarray(each.predictions, dtype=np.float64)[index])
        try:
            labels.append(np.asarray(each.labels)[index])
        except NoLabels as why:
            unlabelled = why
            labels.append(no_labels(len(ids)))
    if any((other != labels[0]).any() for other in labels[1:]):
        raise HoldfastError("the models were measured with different labels for the same samples")
    return SharedPredictions(tuple(rows), ids, np.stack(predictions), labels[0], len(every) - len(ids), unlabelled)
