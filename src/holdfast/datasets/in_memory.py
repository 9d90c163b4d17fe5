"""The dataset for everything that is an array: the standard sets and a user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.labels import is_labelled
from holdfast.core.types import DatasetCard, Images

Pixels = NDArray[Any]
CHUNK = 256  # images hashed at once: bounds memory when the array is a mapped file


@dataclass(slots=True, eq=False)
class InMemory:
    """Images of one array (NCHW, uint8 or float), in memory or mapped from a file."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    pixels: Pixels

    def images(self, index: Sequence[int]) -> Images:
        import torch

        some = self.pixels[np.asarray(index, dtype=np.int64)]
        kind = np.uint8 if some.dtype == np.uint8 else np.float32
        return Images(torch.from_numpy(np.ascontiguousarray(some, dtype=kind)), {})


def in_memory(
    name: str,
    pixels: Pixels,
    labels: NDArray[Any],
    *,
    ids: Sequence[str],
    classes: Sequence[str],
    licence: str = "",
    source: str = "",
) -> InMemory:
    """A dataset of arrays, checked: one label and one id per image, no id twice, every label a class.

    Without labels (`labels.no_labels`) there are no classes either.
    """
    count, channels, height, width = pixels.shape
    if not count:
        raise HoldfastError(f"`{name}` holds no images")
    for what, given in (("labels", len(labels)), ("ids", len(ids))):
        if given != count:
            raise HoldfastError(f"`{name}` has {count} images and {given} {what}", hint="there must be one per image")
    if (twice := first_duplicate(ids)) is not None:
        raise HoldfastError(
            f"the id `{twice}` appears twice in `{name}`", hint="an id names one image; make them unique"
        )
    if is_labelled(labels) and not (labels.min() >= 0 and labels.max() < len(classes)):
        raise HoldfastError(
            f"labels of `{name}` must lie in 0…{len(classes) - 1}, got {labels.min()}…{labels.max()}",
            hint="labels count from 0; give one class name per label",
        )
    whole = np.asarray(labels, dtype=np.int64)
    card = DatasetCard(
        name=name,
        classes=tuple(classes),
        channels=channels,
        size=(height, width),
        fingerprint=fingerprint(pixels, whole, ids),
        licence=licence,
        source=source,
    )
    return InMemory(card, ids, whole, pixels)


def numbered(numbers: Iterable[int], *, width: int, prefix: str = "") -> tuple[str, ...]:
    """Ids made of positions: `00042`, `test-00042`."""
    return tuple(f"{prefix}{number:0{width}d}" for number in numbers)


def first_duplicate(ids: Sequence[str]) -> str | None:
    """The first name that appears twice; None where all differ."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            return name
        seen.add(name)
    return None


def fingerprint(pixels: Pixels, labels: NDArray[np.int64], ids: Sequence[str]) -> str:
    """A digest of the content, the same for NHWC and NCHW files and on every machine."""
    digest = hashlib.sha256(f"{pixels.shape} {pixels.dtype.newbyteorder('<').str}".encode())
    little = pixels.dtype.newbyteorder("<")
    for start in range(0, len(pixels), CHUNK):
        digest.update(np.ascontiguousarray(pixels[start : start + CHUNK], dtype=little).data)
    digest.update(np.ascontiguousarray(labels, dtype="<i8").data)
    digest.update("\0".join(ids).encode())
    return digest.hexdigest()[:20]
