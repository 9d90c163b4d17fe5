"""The small types that pass between packages."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from holdfast.core.labels import LabelMap, LabelMapChoice
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

    def flat(self, name: str) -> dict[str, float]:
        """The number and its bounds as fields of a record."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


NO_LABELS = "no labels"  # what tables show in the place of an accuracy


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

    `answers` says how a model's classes answer for these, one map or one by the model's card (None: they are the same);
    `reference` is the scenario of the set without the shift, to compare with.
    """

    name: str
    classes: tuple[str, ...]
    channels: int
    size: tuple[int, int]
    fingerprint: str
    licence: str = ""
    source: str = ""
    answers: LabelMap | LabelMapChoice | None = None
    reference: str = ""


class Images(NamedTuple):
    """Decoded images (NCHW; uint8, or float32 in [0, 1]); `failed`: position → why it could not be read."""

    pixels: Tensor
    failed: dict[int, str]


@runtime_checkable
class Dataset(Protocol):
    """Labelled images with ids that never change: the same file or row has the same id on every machine.

    Where nobody labelled them every label is `labels.NO_LABEL`, and the card names no classes.
    """

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images: ...


@runtime_checkable
class HasFiles(Protocol):
    """A dataset of files, whose bytes tell whether they are still those that were measured."""

    def file_bytes(self, position: int) -> bytes: ...


def bytes_of_file(dataset: Dataset, position: int) -> bytes:
    """The file of a sample as it is; nothing where it is in no file."""
    return dataset.file_bytes(position) if isinstance(dataset, HasFiles) else b""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known about a classifier. `threats` are the attacks it was trained on, as refs.

    `size` is the side of the images it takes; in its own evaluation their shorter side becomes `resize` first, and the
    centre is cropped. `kind` says how it was made (standard, zero-shot, fine-tuned), `group` which models it is
    compared with as one: both are facts to choose models by and to part them, and change no run.
    """

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
    resize: int | None = None
    kind: str = ""
    group: str = ""


@runtime_checkable
class Classifier(Protocol):
    """Logits for images in [0, 1]; normalisation and resizing live inside, and gradients flow."""

    card: ModelCard

    def __call__(self, images: Tensor) -> Tensor: ...


class BatchLengths(Protocol):
    """The batch lengths that a model is best asked with."""

    def fit(self, count: int, passes: int = 1) -> int:
        """The length for so many samples, which are about to take so many passes."""
        ...


class ExactVersion(Protocol):
    """A model in full precision, asked in few batch lengths."""

    @property
    def lengths(self) -> BatchLengths: ...

    def __call__(self, images: Tensor) -> Tensor: ...


class FastVersion(Protocol):
    """A quicker version of a model in lower precision: for gradients and a first opinion, never for scores.

    `error`: by how much the lead of one class over another may be off. `weak`: the parts of attacks that it was found
    too weak for. `records`: whether a loop may record its steps as CUDA graphs, which it keeps in `replays`. `several`:
    whether the loop takes more than one gradient of a pass. `scores`: what the model answers, quicker than itself, with
    leads that are off by `score_error` at most; None where there is no such thing.
    """

    error: float = 0.0
    scores: Callable[[Tensor], Tensor] | None = None
    score_error: float = 0.0
    weak: frozenset[Hashable] = frozenset()
    lengths: BatchLengths | None = None
    records: bool = False
    replays: object = None
    several: bool = False

    def __call__(self, images: Tensor) -> Tensor: ...

    def improve(self, length: int, *, gradients: bool) -> None:  # noqa: ARG002 - most versions stay as they are
        """Called between two rounds of steps, with the number of samples in the batch."""
        return


def fast_version_of(model: Classifier) -> FastVersion | None:
    """The fast version of a classifier that may have one, as `fast`."""
    fast: FastVersion | None = getattr(model, "fast", None)
    return fast


def exact_version_of(model: Classifier) -> ExactVersion | None:
    """The classifier itself in few batch lengths, as `exact`; None where any length is as good."""
    exact: ExactVersion | None = getattr(model, "exact", None)
    return exact


def drop_recordings(model: Classifier) -> None:
    """Lets go of recorded steps: each keeps the memory of a whole pass."""
    if (fast := fast_version_of(model)) is not None:
        fast.replays = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Images (float32, NCHW, in [0, 1]) with their labels and ids.

    `logits` are the model's for these very images, where an earlier run of the same job computed them.
    """

    images: Tensor
    labels: Tensor
    ids: tuple[str, ...]
    logits: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Tensor) -> Batch:
        """Only these samples, without their logits."""
        return Batch(self.images[rows], self.labels[rows], tuple(self.ids[i] for i in rows.tolist()))


@dataclass(slots=True)
class Changed:
    """The images that a change made of a batch, with what is known of them. All tensors are per sample.

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

    def then(self, later: Changed) -> Changed:
        """Both changes taken together: passes add up, sizes and radii are those of the last change that has any."""
        return Changed(
            later.images,
            size=self.size if later.size is None else later.size,
            radius=self.radius if later.radius is None else later.radius,
            reasons=self.reasons | later.reasons,
            forwards=_sum(self.forwards, later.forwards),
            backwards=_sum(self.backwards, later.backwards),
            facts=self.facts | later.facts,
            tallies=added(self.tallies, later.tallies),
        )


@dataclass(slots=True, kw_only=True)
class AttackResult(Changed):
    """What an attack made of a batch. `broken` is its own view: the run scores the images again in full precision.

    `variable` is the threat's variable at the end, for a later attack to start from.
    """

    size: Tensor
    broken: Tensor
    forwards: Tensor
    backwards: Tensor
    variable: Tensor | None = None


def added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Counts of both, by name."""
    return one | {name: one.get(name, 0) + count for name, count in other.items()}


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


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
