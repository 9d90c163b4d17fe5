"""One row per sample: what the model said of it, what was done to it, and why it failed if it did."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, NoLabels
from holdfast.core.labels import NO_LABEL
from holdfast.store.footer import Footer

ALL_LOGITS = 128  # up to this many classes every logit is kept, above it the ten largest
EVERY = "all"  # what `--logits` says to keep them above it too
TOP = 10
FLOAT16_MOST = 65504.0
FLOAT16_LEAST = float(np.finfo(np.float16).smallest_subnormal)
FLOAT32_MOST = float(np.finfo(np.float32).max)
FAR = 256.0  # a largest logit beyond ±FAR becomes 0: float32 keeps a logsumexp of 256 to 1.5e-5, one of 1e5 to 0.004

NAMES = ("run", "model", "scenario")  # the same in every row of a file, so that a folder of files reads as one table
SCHEMA = pa.schema(
    [
        *[(name, pa.dictionary(pa.int32(), pa.string())) for name in NAMES],
        ("id", pa.string()),
        ("label", pa.int32()),
        ("prediction", pa.int32()),
        ("rank", pa.int32()),
        ("logits", pa.list_(pa.float16())),
        ("top_classes", pa.list_(pa.int32())),
        ("top_logits", pa.list_(pa.float16())),
        ("label_logit", pa.float32()),
        ("prediction_logit", pa.float32()),
        ("logsumexp", pa.float32()),
        ("size", pa.float32()),
        ("radius", pa.float32()),
        ("forwards", pa.int32()),
        ("backwards", pa.int32()),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Predictions:
    """What the engine knows of some samples, before it becomes rows. Logits are float32; NaN sizes mean none.

    A label is `NO_LABEL` where there is none.
    """

    ids: Sequence[str]
    labels: NDArray[np.int64]
    logits: NDArray[np.float32]
    sizes: NDArray[np.float32]
    radii: NDArray[np.float32]
    forwards: NDArray[np.int64]
    backwards: NDArray[np.int64]
    reasons: Sequence[str | None]


class Counts(NamedTuple):
    """How many rows are right, have their label among the five largest logits (None: no ranks), and failed.

    Without labels none is right or wrong.
    """

    right: int | None
    in_top5: int | None
    failed: int


@dataclass(frozen=True)
class Rows:
    """The rows of one run, with their footer."""

    table: pa.Table
    footer: Footer

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def ids(self) -> list[str]:
        return [str(name) for name in self.table.column("id").to_pylist()]

    @cached_property
    def has_labels(self) -> bool:
        return not self.table.column("label").null_count

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The classes that are right; refused where the samples have none."""
        if not self.has_labels:
            raise NoLabels(
                f"`{self.footer.dataset}` has no labels, so nothing says which answers of `{self.footer.model}` are "
                "right",
                hint="without labels there are `holdfast agree` and `holdfast predict`",
            )
        return np.asarray(self.table.column("label").to_numpy(), dtype=np.int64)

    @cached_property
    def predictions(self) -> NDArray[np.float64]:
        """The predicted class; NaN where the model gave no usable answer."""
        return self.floats("prediction")

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the prediction is the label. No usable answer is not correct."""
        return np.asarray(self.predictions == self.labels)

    @cached_property
    def failed(self) -> NDArray[np.bool_]:
        """Whether the row carries a reason."""
        return ~np.asarray(self.table.column("reason").is_null().to_numpy(zero_copy_only=False), dtype=bool)

    @cached_property
    def counts(self) -> Counts:
        has_ranks = self.table.column("rank").null_count < len(self)  # published predictions come without logits
        in_top5 = int((self.floats("rank") < 5).sum()) if has_ranks and self.has_labels else None
        return Counts(int(self.correct.sum()) if self.has_labels else None, in_top5, int(self.failed.sum()))

    @cached_property
    def digest(self) -> str:
        return rows_digest(self.table)

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The model's probability for its own prediction; NaN where it gave none."""
        return np.asarray(np.exp(self.floats("prediction_logit") - self.floats("logsumexp")))

    @cached_property
    def logits(self) -> NDArray[np.float64] | None:
        """All logits, samples x classes, or None where only the largest were kept. Rows without an answer are NaN.

        On the scale of `prediction_logit`; the prediction and the label have their exact logits, the others are as far
        below the prediction as float16 says.
        """
        present, kept = self.kept("logits")
        if not len(present):
            return None
        made = np.full((len(self), kept.shape[1]), np.nan)
        made[present] = self._restored(kept, present)
        return made

    @cached_property
    def widest(self) -> float:
        """The largest distance between two logits of a sample that the rows keep; 0 where they keep none."""
        kept = [self.kept(column)[1] for column in ("logits", "top_logits")]
        return max((float(np.ptp(lists, axis=1).max()) for lists in kept if lists.size), default=0.0)

    def kept(self, column: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Which rows have a list in this column, and the lists, all of one length."""
        lists = pa.concat_arrays(self.table.column(column).chunks or [pa.array([], SCHEMA.field(column).type)])
        present = np.flatnonzero(~np.asarray(lists.is_null().to_numpy(zero_copy_only=False), dtype=bool))
        values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        return present, values.reshape(len(present), -1 if len(present) else 0)

    def _restored(self, stored: NDArray[np.float64], present: NDArray[np.int64]) -> NDArray[np.float64]:
        """Logits from the numbers in a file: distances from the largest, or in files of old the logits themselves."""
        top = self.floats("prediction_logit")[present]
        # logits as they were, rounded to float16: none may pass or equal the prediction that was decided before
        old = np.minimum(stored, np.nextafter(top.astype(np.float32), np.float32(-np.inf))[:, None])
        made = np.where((stored.max(axis=1) == 0)[:, None], stored + top[:, None], old)
        every = np.arange(len(present))
        if self.has_labels:
            made[every, self.labels[present]] = self.floats("label_logit")[present]
        made[every, self.predictions[present].astype(np.int64)] = top
        return made

    def floats(self, column: str) -> NDArray[np.float64]:
        """A column as floats; NaN where there is no value."""
        values = self.table.column(column).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.asarray(values, dtype=np.float64)

    def sealed(self, footer: Footer) -> Rows:
        """The same rows ready to be written: under this footer, which takes on their count and digest."""
        footer = replace(footer, n=len(self), digest=self.digest, **self.counts._asdict())
        table = self.table
        for i, (name, text) in enumerate(_names(footer).items()):
            table = table.set_column(i, SCHEMA.field(name), _constant(text, len(self)))
        return Rows(table.replace_schema_metadata(footer.to_metadata()), footer)


def to_rows(predictions: Predictions, footer: Footer) -> Rows:
    """Rows from predictions: the answer is decided here, in full precision, before logits are rounded for storage.

    Of equal logits the first is ahead: in the prediction, in the rank and among the ten largest.
    """
    logits = predictions.logits
    answered: NDArray[np.bool_] = np.asarray(np.isfinite(logits).all(axis=1))
    safe = np.where(answered[:, None], logits, 0.0).astype(np.float64)
    known: NDArray[np.bool_] = np.asarray(predictions.labels != NO_LABEL)
    labels = np.where(known, predictions.labels, 0)
    best = safe.argmax(axis=1)
    every = np.arange(len(labels))
    label_logit = safe[every, labels]
    top = safe.max(axis=1)
    below = safe - top[:, None]
    zero = np.where(np.abs(top) > FAR, top, 0.0)
    lse = top - zero + np.log(np.exp(below).sum(axis=1))
    # ties count against the label unless it is the prediction itself: the first of equals wins, as in argmax
    ahead = (safe > label_logit[:, None]).sum(axis=1)
    ties_before = ((safe == label_logit[:, None]) & (np.arange(safe.shape[1]) < labels[:, None])).sum(axis=1)
    # what is behind stays behind: no tie is made by rounding
    stored = np.where(below < 0, np.clip(below, -FLOAT16_MOST, -FLOAT16_LEAST), 0.0).astype(np.float16)
    reasons = [
        reason if reason is not None or ok else "logits are not finite"
        for reason, ok in zip(predictions.reasons, answered, strict=True)
    ]
    everything = logits.shape[1] <= ALL_LOGITS or footer.logits == EVERY
    order = np.argsort(-safe, axis=1, kind="stable")[:, :TOP]
    columns: dict[str, pa.Array] = {
        **{name: _constant("", len(labels)) for name in NAMES},
        "id": pa.array(predictions.ids, pa.string()),
        "label": _nullable(labels, known, pa.int32()),
        "prediction": _nullable(best, answered, pa.int32()),
        "rank": _nullable(ahead + ties_before, answered & known, pa.int32()),
        "logits": _lists(stored, answered & everything, pa.float16()),
        "top_classes": _lists(order, answered & (not everything), pa.int32()),
        "top_logits": _lists(np.take_along_axis(stored, order, axis=1), answered & (not everything), pa.float16()),
        "label_logit": _nullable(_narrow(label_logit - zero), answered & known, pa.float32()),
        "prediction_logit": _nullable(_narrow(top - zero), answered, pa.float32()),
        "logsumexp": _nullable(lse, answered, pa.float32()),
        "size": _nullable(predictions.sizes, ~np.isnan(predictions.sizes), pa.float32()),
        "radius": _nullable(predictions.radii, ~np.isnan(predictions.radii), pa.float32()),
        "forwards": pa.array(predictions.forwards, pa.int32()),
        "backwards": pa.array(predictions.backwards, pa.int32()),
        "reason": pa.array(reasons, pa.string()),
    }
    return Rows(pa.table(columns, schema=SCHEMA), footer)


def joined_rows(pieces: Sequence[Rows], order: Sequence[str], footer: Footer) -> Rows:
    """The rows of several pieces in the given order of ids; a sample in two pieces is taken once."""
    table = pa.concat_tables([piece.table for piece in pieces], promote_options="default").combine_chunks()
    index_of: dict[str, int] = {}
    for i, name in enumerate(table.column("id").to_pylist()):
        index_of.setdefault(name, i)
    missing = [name for name in order if name not in index_of]
    if missing:
        raise HoldfastError(f"{len(missing)} of {len(order)} samples have no row, `{missing[0]}` first")
    return Rows(table.take([index_of[name] for name in order]), footer).sealed(footer)


def without(rows: Rows, ids: Sequence[str]) -> Rows:
    """The rows of all samples but these."""
    if not ids:
        return rows
    dropped = set(ids)
    return Rows(rows.table.filter(pa.array([name not in dropped for name in rows.ids])), rows.footer)


def is_named(table: pa.Table, footer: Footer) -> bool:
    """Whether the table has the columns of rows, and names the run, model and scenario of its footer throughout."""
    if table.schema.names != SCHEMA.names:
        return False
    return all(set(table.column(name).unique().to_pylist()) <= {text} for name, text in _names(footer).items())


def rows_digest(table: pa.Table) -> str:
    """sha256 of what the rows say, independent of file layout, compression and the names of the run."""
    summed = hashlib.sha256()
    for name in SCHEMA.names:
        if name in NAMES:
            continue
        summed.update(name.encode())
        for piece in _canonical(table.column(name).combine_chunks()):
            summed.update(piece)
    return summed.hexdigest()


def _canonical(column: pa.Array) -> list[bytes]:
    """Bytes that depend on the values alone: null mask, lengths, then values."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    pieces = [np.asarray(column.is_null().to_numpy(zero_copy_only=False)).tobytes()]
    if pa.types.is_list(column.type):
        return [*pieces, _lengths(pc.list_value_length(column)), *_canonical(column.flatten())]
    if pa.types.is_string(column.type):
        texts = column.fill_null("")
        return [*pieces, _lengths(pc.binary_length(texts)), "".join(texts.to_pylist()).encode()]
    filled = column.cast(pa.float64()) if pa.types.is_floating(column.type) else column.cast(pa.int64())
    return [*pieces, np.nan_to_num(filled.fill_null(0).to_numpy(zero_copy_only=False), nan=np.pi).tobytes()]


def _names(footer: Footer) -> dict[str, str]:
    return {"run": footer.key, "model": footer.model, "scenario": footer.scenario}


def _lengths(lengths: pa.Array) -> bytes:
    return np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64).tobytes()


def _constant(text: str, length: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int32)), pa.array([text], pa.string()))


def _narrow(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(values, -FLOAT32_MOST, FLOAT32_MOST)


def _nullable(values: NDArray[np.generic], present: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~present).cast(kind)


def _lists(values: NDArray[np.generic], present: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(np.where(present, values.shape[1], 0))]).astype(np.int32)
    mask = pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[present].ravel()).cast(kind), mask=mask)
