"""Labelled images with ids that never change: class folders, arrays, and the standard sets."""

from __future__ import annotations

from holdfast.core.registry import registry
from holdfast.core.types import Dataset

DEFAULT = "fashion-mnist-2k"


def load(text: str) -> Dataset:
    """The dataset that a ref stands for: `load("folder:/data/birds,size=224")`."""
    dataset: Dataset = registry.build(registry.bind("dataset", text))
    return dataset
