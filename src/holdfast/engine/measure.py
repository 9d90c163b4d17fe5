"""One shard through the changes and the model: the only place where samples are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref
from holdfast.core.types import Batch, Change, Changed, Classifier, Dataset, exact_version_of
from holdfast.engine.shards import ImagesKey, LogitCache, Shard, on_device, out_of_range
from holdfast.engine.two_step import TwoStepScorer
from holdfast.store.rows import Predictions


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """All that stays the same from shard to shard of a run."""

    model: Classifier
    dataset: Dataset
    changes: Sequence[tuple[Ref, Change]]
    seed: int
    device: torch.device
    logit_cache: LogitCache | None = None
    source: Ref | None = None
    scorer: TwoStepScorer | None = None  # where the model itself need not score every sample

    def key(self, changes: int) -> ImagesKey:
        """Names the images after the first so many changes."""
        assert self.source is not None, "logits are cached by the dataset's ref"
        refs = [self.source, *(ref for ref, _ in self.changes[:changes])]
        return (self.dataset.card.fingerprint, self.seed, *(ref.key for ref in refs))


@dataclass(frozen=True, slots=True)
class Measured:
    """A shard after its changes: the images before and after, what the changes reported, the logits at the end.

    `changed` has one row per usable sample. On a GPU the work may still be under way; `predictions` waits for it.
    """

    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    usable: list[int]
    reasons: dict[int, str]
    before: Tensor
    after: Tensor
    logits: Tensor
    changed: Changed

    def predictions(self) -> Predictions:
        """What becomes rows, in numpy since the store does without torch; unusable samples have no logits."""
        changed = self.changed
        reasons = self.reasons | {self.usable[i]: why for i, why in changed.reasons.items()}
        forwards, backwards = self._spread(changed.forwards, 0), self._spread(changed.backwards, 0)
        forwards[self.usable] += 1  # the one that scores the result
        return Predictions(
            ids=self.ids,
            labels=self.labels,
            logits=self._spread(self.logits, np.nan),
            sizes=self._spread(changed.size, np.nan),
            radii=self._spread(changed.radius, np.nan),
            forwards=forwards.astype(np.int64),
            backwards=backwards.astype(np.int64),
            reasons=[reasons.get(i) for i in range(len(self.ids))],
        )

    def _spread(self, values: Tensor | None, empty: float) -> NDArray[np.float32]:
        """One row per sample of the shard."""
        full = np.full((len(self.ids), *([] if values is None else values.shape[1:])), empty, dtype=np.float32)
        if values is not None:
            full[self.usable] = values.cpu().numpy()
        return full


def measure(setting: MeasureSettings, shard: Shard, *, width: int) -> Measured:
    """Applies the changes in order and scores the result; what cannot be read or scored is a row with a reason."""
    dataset, index = setting.dataset, shard.index
    ids = tuple(dataset.ids[i] for i in index)
    images = on_device(shard.images.pixels, setting.device)
    reasons: dict[int, str] = dict(shard.images.failed)
    if shard.images.pixels.dtype != torch.uint8:  # bytes cannot leave the range
        readable = np.array([i for i in range(len(ids)) if i not in reasons], dtype=np.int64)
        reasons |= {int(readable[i]): why for i, why in out_of_range(images[torch.from_numpy(readable)]).items()}

    usable = [i for i in range(len(ids)) if i not in reasons]
    whole = len(usable) == len(ids)
    kept = torch.tensor(usable, dtype=torch.int64, device=setting.device)
    labels = torch.from_numpy(np.asarray(dataset.labels[index])).to(setting.device)
    batch = Batch(images if whole else images[kept], labels if whole else labels[kept], tuple(ids[i] for i in usable))
    changed = _through_changes(setting, batch, width)
    attacked = any(ref.kind == "attack" for ref, _ in setting.changes)
    if setting.scorer is None or not len(batch):
        logits = final_logits(setting.model, changed.images, width)
    else:
        logits, twice = setting.scorer(changed.images, width, batch.labels if attacked else None)
        changed = changed.then(Changed(changed.images, forwards=twice.long()))
    if setting.scorer is None and setting.logit_cache is not None and not attacked:
        setting.logit_cache.keep(setting.key(len(setting.changes)), batch.ids, logits)
    return Measured(
        ids=ids,
        labels=np.asarray(dataset.labels[index], dtype=np.int64),
        usable=usable,
        reasons=reasons,
        before=images,
        after=changed.images if whole else images.index_copy(0, kept, changed.images),
        logits=logits,
        changed=changed,
    )


def _through_changes(setting: MeasureSettings, batch: Batch, width: int) -> Changed:
    changed = Changed(batch.images)
    if not setting.changes or not len(batch):
        return changed
    noise = Noise.of(setting.seed, batch.ids, setting.device)
    for number, (ref, change) in enumerate(setting.changes):
        # severities and radii share their draws on purpose: neighbouring cells of a table differ by the level alone
        own = noise.scope(f"{number} {ref.name}")
        logits = None
        if setting.logit_cache is not None and ref.kind == "attack":
            logits = setting.logit_cache.recall(setting.key(number), batch.ids, setting.device)
        part = Batch(changed.images, batch.labels, batch.ids, logits)
        changed = changed.then(change(setting.model, part, own, width=width))
    return changed


def final_logits(model: Classifier, images: Tensor, width: int) -> Tensor:
    """Logits in float32, `width` images at a time; an error where they are not what the card says."""
    classes, asked = model.card.classes, exact_version_of(model) or model
    if not len(images):
        return images.new_empty((0, classes))
    with torch.no_grad():
        logits = torch.cat([asked(images[i : i + width]).to(torch.float32) for i in range(0, len(images), width)])
    if logits.shape != (len(images), classes):
        raise HoldfastError(
            f"`{model.card.name}` returned logits of shape {tuple(logits.shape)} for {len(images)} images, "
            f"its card says {classes} classes",
            hint="give the right number of classes, or return plain logits of shape (images, classes)",
        )
    return logits
