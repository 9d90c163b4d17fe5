"""What cells of one job share: decoded images, and what the model said of images before an attack."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from holdfast.core.refs import Ref
from holdfast.core.types import Dataset, Images

MOST_DECODED = 4 << 30  # bytes
MOST_SAID = 1 << 28  # bytes
SLOW = 1e-4  # seconds per image: what takes longer to read is worth keeping

Place = tuple[object, ...]


class Remembering:
    """A dataset whose images are kept once decoded, where decoding is slow, up to a number of bytes."""

    def __init__(self, dataset: Dataset, most: int = MOST_DECODED) -> None:
        self.card, self.ids, self.labels = dataset.card, dataset.ids, dataset.labels
        self.dataset, self.most, self.held = dataset, most, 0
        self.kept: dict[bytes, Images] = {}

    def images(self, index: Sequence[int]) -> Images:
        place = np.asarray(index, dtype=np.int64).tobytes()
        if place in self.kept:
            return self.kept[place]
        begun = time.perf_counter()
        images = self.dataset.images(index)
        size = images.pixels.nbytes
        if time.perf_counter() - begun > SLOW * len(index) and self.held + size <= self.most:
            self.kept[place] = images
            self.held += size
        return images


class Said:
    """Logits of one model by what was done to the images, the latest kept; an attack need not ask again."""

    def __init__(self, most: int = MOST_SAID) -> None:
        self.most, self.held = most, 0
        self.kept: OrderedDict[Place, dict[str, Tensor]] = OrderedDict()

    def keep(self, place: Place, ids: Sequence[str], logits: Tensor) -> None:
        if logits.nbytes > self.most:
            return
        self.kept.setdefault(place, {}).update(zip(ids, logits.detach().to("cpu", torch.float32), strict=True))
        self.kept.move_to_end(place)
        self.held += logits.nbytes
        while self.held > self.most:
            _, oldest = self.kept.popitem(last=False)
            self.held -= sum(row.nbytes for row in oldest.values())

    def recall(self, place: Place, ids: Sequence[str], device: torch.device) -> Tensor | None:
        """The logits of these samples, None unless all are known."""
        known = self.kept.get(place)
        if known is None or not ids or any(name not in known for name in ids):
            return None
        return torch.stack([known[name] for name in ids]).to(device)

    def forget(self) -> None:
        self.kept.clear()
        self.held = 0


def place_of(dataset: Ref, changes: Sequence[Ref], data: str, seed: int) -> Place:
    """What decides which images a model sees."""
    return (dataset.key, data, seed, *(part.key for part in changes))
