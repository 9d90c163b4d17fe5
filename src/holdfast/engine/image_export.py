"""The images that a run scored, out of the store: float32 as they were, and 8-bit pictures to look at."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.core.errors import Misuse, NoLabels
from holdfast.core.labels import NO_LABEL, no_labels
from holdfast.engine.device import Width, full_precision
from holdfast.engine.gallery import StoredJob, png, stored_job
from holdfast.engine.measure import final_logits
from holdfast.store import Store

SHARD = 256  # samples made again at once


@dataclass(frozen=True, slots=True, eq=False)
class RunImages:
    """Samples of a run made again. Images are float32, NCHW, in [0, 1]; predictions are NaN where there was no answer.

    `as_stored` counts samples whose prediction is that of the stored row, `right_when_rounded` those whose image is
    wrong as it was scored and right once rounded to 8 bits.
    """

    run: str
    model: str
    scenario: str
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    predictions: NDArray[np.float64]
    before: NDArray[np.float32]
    after: NDArray[np.float32]
    classes: tuple[str, ...]
    as_stored: int
    right_when_rounded: int

    def write(self, folder: Path, *, pictures: bool) -> Path:
        """Writes `images.npz` and gives its path; with `pictures` also a PNG per sample, in a folder per class."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "images.npz"
        np.savez_compressed(
            path,
            images=self.after,
            before=self.before,
            labels=self.labels,
            predictions=self.predictions,
            ids=np.array(self.ids),
            classes=np.array(self.classes),
        )
        for i, name in enumerate(self.ids if pictures else ()):
            label, prediction = (self._class(value) for value in (self.labels[i], self.predictions[i]))
            target = folder / _file_name(label) / f"{_file_name(name)}--{_file_name(prediction)}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(png(torch.from_numpy(self.after[i])))
        return path

    def _class(self, number: float) -> str:
        if np.isnan(number):
            return "no answer"
        if number == NO_LABEL:
            return "no label"
        return self.classes[int(number)] if int(number) < len(self.classes) else str(int(number))


class _Part(NamedTuple):
    """Some samples made again."""

    labels: NDArray[np.int64]
    predictions: NDArray[np.float64]
    before: NDArray[np.float32]
    after: NDArray[np.float32]
    right_when_rounded: NDArray[np.bool_]


def run_images(
    store: Store,
    key: str,
    *,
    failures: bool = True,
    limit: int | None = None,
    device: str = "auto",
    trust: bool = False,
) -> RunImages:
    """The images of a run, made again from its keyed draws: those that the model is wrong on, or all.

    `limit`: at most so many of each class. Only with `trust` may the model be code.
    """
    if limit is not None and limit < 1:
        raise Misuse(f"--limit is 1 or more, got {limit}")
    stored = stored_job(store, key, device=device, trust=trust)
    rows, footer = stored.rows, stored.rows.footer
    if failures and not rows.has_labels:
        raise NoLabels(
            f"nothing says where run {footer.key} is wrong: it has no labels", hint="--all exports all images"
        )
    labels = rows.labels if rows.has_labels else no_labels(len(rows))
    seen: Counter[int] = Counter()
    kept = []
    for i in range(len(rows)):
        if not failures or not rows.correct[i]:
            seen[int(labels[i])] += 1
            if limit is None or seen[int(labels[i])] <= limit:
                kept.append(i)
    if not kept:
        raise Misuse(f"the model is right on every sample of run {footer.key}", hint="--all exports them all")
    ids = [rows.ids[i] for i in kept]
    width = Width.for_model(stored.job.model, stored.job.dataset.card, stored.device)
    with full_precision():
        parts = [_part(stored, ids[start : start + SHARD], width) for start in range(0, len(ids), SHARD)]
    whole, then = _Part(*map(np.concatenate, zip(*parts, strict=True))), rows.predictions[kept]
    return RunImages(
        footer.key,
        footer.model,
        footer.scenario,
        tuple(ids),
        whole.labels,
        whole.predictions,
        whole.before,
        whole.after,
        footer.classes or tuple(map(str, range(footer.card.classes))),
        int(((whole.predictions == then) | (np.isnan(whole.predictions) & np.isnan(then))).sum()),
        int(whole.right_when_rounded.sum()),
    )


def _part(stored: StoredJob, ids: list[str], width: Width) -> _Part:
    job = stored.job
    measured = width.recovering(lambda value: job.measured(ids, stored.device, value), lambda _: None)
    made = measured.predictions()
    predictions = np.where(np.isfinite(made.logits).all(axis=1), made.logits.argmax(axis=1), np.nan)
    rounded = (measured.after * 255).round() / 255
    shown = final_logits(job.model, rounded, width.value).argmax(1).cpu().numpy()
    before, after = (images.float().cpu().numpy() for images in (measured.before, measured.after))
    right_when_rounded = (predictions != made.labels) & (shown == made.labels)
    return _Part(made.labels, predictions, before, after, right_when_rounded)


def _file_name(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^\w.-]+", "-", text).strip(".-")[:100] or "unnamed"
