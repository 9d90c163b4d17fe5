"""Labelled images with ids that never change: class folders, arrays, and the standard sets.

What a dataset of your own is made of has its names here: `from holdfast.datasets import InMemory, register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.lazy import lazy_names
from holdfast.core.registry import register, registry
from holdfast.core.types import Dataset, DatasetCard, Images

if TYPE_CHECKING:
    from holdfast.datasets.from_python import read_samples as read_samples
    from holdfast.datasets.in_memory import InMemory as InMemory

DEFAULT = "fashion-mnist-2k"
HOMES = {"InMemory": "holdfast.datasets.in_memory", "read_samples": "holdfast.datasets.from_python"}
__all__ = ["DEFAULT", "Dataset", "DatasetCard", "Images", "load", "register", *HOMES]
__getattr__, _ = lazy_names(__name__, HOMES)


def load(text: str) -> Dataset:
    """The dataset that a ref stands for: `load("folder:/data/birds,size=224")`."""
    dataset: Dataset = registry.build(registry.bind("dataset", text))
    return dataset
