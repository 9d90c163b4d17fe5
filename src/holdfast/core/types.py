"""The small types that pass between packages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from holdfast.core.labels import LabelMap
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from holdfast.core.noise import Noise


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its interval and the count it rests on; bounds are NaN where it has none, and `why` says why."""

    value: float
    low: float
    high: float
    n: int
    why: str = ""

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))

    def percent(self, digits: int = 1) -> str:
        """`87.3 % [85.1, 89.2]`, or `87.3 %` for a number without an interval."""
        value, low, high = (percent(number, digits) for number in (self.value, self.low, self.high))
        return f"{value} % [{low}, {high}]" if self.has_interval else f"{value} %"


def without_interval(value: float, n: int, why: str) -> Score:
    """A number for which there is no interval that covers as often as it says."""
    return Score(value, math.nan, math.nan, n, why)


@dataclass(frozen=True, slots=True)
class Flag:
    """A reason to read a number with care. `level` is `note`, `warning` or `error`; `name` never changes."""

    name: str
    level: str
    explanation: str


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """What is known about a dataset. `classes` in label order; `fingerprint` changes with the content.

    `answers` says how a model's classes answer for these (None: they are the same); `reference` is the scenario of the
    set without the shift, to compare with.
    """

    name: str
    classes: tuple[str, ...]
    channels: int
    size: tuple[int, int]
    fingerprint: str
    licence: str = ""
    source: str = ""
    answers: LabelMap | None = None
    reference: str = ""


class Images(NamedTuple):
    """Decoded images (NCHW; uint8, or float32 in [0, 1]); `failed`: position → why it could not be read."""

    pixels: Tensor
    failed: dict[int, str]


@runtime_checkable
class Dataset(Protocol):
    """Labelled images with ids that never change: the same file or row has the same id on every machine."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images: ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known about a classifier. `threats` are the attacks it was trained on, as refs."""

    name: str
    source: str
    classes: int
    channels: int = 3
    size: int | None = None
    weights: str = ""
    parameters: int = 0
    trained_on: str = ""
    threats: tuple[str, ...] = ()
    paper: str = ""
    licence: str = ""
    notes: str = ""
    differentiable: bool = True


@runtime_checkable
class Classifier(Protocol):
    """Logits for images in [0, 1]; normalisation and resizing live inside, and gradients flow."""

    card: ModelCard

    def __call__(self, images: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Images (float32, NCHW, in [0, 1]) with their labels and ids.

    `logits` is what the model said of these very images in an earlier cell of the same job, where it was asked.
    """

    images: Tensor
    labels: Tensor
    ids: tuple[str, ...]
    logits: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change made of a batch. All tensors are per sample.

    `size` is the size of the perturbation in the threat's own units, `radius` the smallest radius that broke the
    sample (sweeps and minimal attacks), `reasons` why a sample failed, by position. For the footer: `facts`, provenance
    in words, and `tallies`, counts that add up over batches.
    """

    images: Tensor
    size: Tensor | None = None
    radius: Tensor | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    forwards: Tensor | None = None
    backwards: Tensor | None = None
    facts: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """Most passes through the model that one sample can take."""

    forwards: int = 0
    backwards: int = 0


class Change(Protocol):
    """A corruption or an attack. At most `width` samples pass through the model at once."""

    @property
    def cost(self) -> Cost: ...

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, *, width: int) -> Changed: ...
