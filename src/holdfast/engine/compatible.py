"""Whether a model and a dataset belong together: channels, classes and labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.labels import is_labelled
from holdfast.core.types import DatasetCard, ModelCard

MAP_HINT = (
    "`answers=` of folder, arrays, hf and webdataset takes a list of names or numbers, a file, `imagenet`, or how many "
    "classes the model has where labels are its class numbers"
)


def fits(model: ModelCard, dataset: DatasetCard, labels: NDArray[np.int64]) -> None:
    """Refuses a model and a dataset that cannot belong together."""
    if model.channels != dataset.channels:
        raise HoldfastError(
            f"`{model.name}` takes {model.channels} channels, the images of `{dataset.name}` have {dataset.channels}",
            hint="choose a model trained on such images, or a dataset with that many channels",
        )
    if not is_labelled(labels):
        return
    label_map = None if dataset.answers is None else dataset.answers.of(model.classes)
    if label_map is not None and label_map.known != model.classes:
        raise HoldfastError(
            f"`{model.name}` knows {model.classes} classes, `{dataset.name}` asks for a model of {label_map.known} "
            f"({label_map.words})",
            hint=f"choose a model of {label_map.known} classes, or another way to answer: `answers=…` of the dataset",
        )
    known = model.classes if label_map is None else label_map.classes
    counts = f"`{model.name}` has {model.classes:,} classes and `{dataset.name}` has {len(dataset.classes):,}"
    way = f"order the classes as the model does, starting at 0, or say which of its classes answer: {MAP_HINT}"
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= known):
        raise HoldfastError(
            f"labels of `{dataset.name}` run from {int(labels.min())} to {int(labels.max())}, "
            f"`{model.name}` knows the classes 0 to {known - 1}: {counts}",
            hint=f"the label map is wrong: {way}",
        )
    if label_map is None and len(dataset.classes) != model.classes:
        raise HoldfastError(counts, hint=f"a label of one is no class of the other: {way}")
