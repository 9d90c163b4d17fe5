"""What every dataset of image files shares, wherever the files lie: in folders, in tar shards, in tables."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse, NotRead
from holdfast.core.types import DatasetCard, Images
from holdfast.datasets.decoding import Fault, Framing, Opened, Unreadable, decoded, dimensions, in_parallel, is_fault

PAUSES = (0.05, 0.2)  # seconds before an image is read again


@dataclass(slots=True, eq=False)
class Encoded:
    """Images in files; `opened` gives the file at a position. Those that cannot be read are black and have a reason."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    opened: Callable[[int], Opened]
    framing: Framing

    def images(self, index: Sequence[int]) -> Images:
        return decoded_images(self.card, self.ids, index, self.opened, self.framing)


def decoded_images(
    card: DatasetCard, ids: Sequence[str], index: Sequence[int], opened: Callable[[int], Opened], framing: Framing
) -> Images:
    """The images at some positions, decoded on all cores."""
    import torch

    places = [int(place) for place in index]
    pixels = np.zeros((len(places), card.channels, *card.size), dtype=np.uint8)

    faults: list[str] = []

    def fill(position: int) -> str | None:
        try:
            image = _patiently(lambda: decoded(opened(places[position]), framing))
        except Unreadable as reason:
            return f"{ids[places[position]]} {reason}"
        except Fault as fault:
            faults.append(f"{ids[places[position]]} {fault}")
            return None
        if image.shape != pixels.shape[1:]:
            return f"{ids[places[position]]} is no longer {_sides(card.size)}"
        pixels[position] = image
        return None

    reasons = in_parallel(fill, range(len(places)))
    if faults:
        raise NotRead(
            f"{len(faults)} of {len(places)} images of `{card.name}` could not be read: {min(faults)}",
            hint="nothing is recorded for them; once they can be read, the same command goes on",
        )
    return Images(torch.from_numpy(pixels), {i: reason for i, reason in enumerate(reasons) if reason is not None})


def _patiently(read: Callable[[], NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Reads again after a fault, a few times: networks recover."""
    for pause in PAUSES:
        try:
            return read()
        except Fault as fault:
            if isinstance(fault.__cause__, FileNotFoundError):
                raise
            time.sleep(pause)
        except OSError as error:  # opening failed, before there was anything to decode
            if isinstance(error, FileNotFoundError) or not is_fault(error):
                raise Fault(f"cannot be read: {error}") from error
            time.sleep(pause)
    try:
        return read()
    except OSError as error:
        raise Fault(f"cannot be read: {error}") from error


def framed(channels: int, size: int | None, resize: int | None) -> Framing:
    """The framing asked for, checked."""
    if size is not None and size < 1:
        raise Misuse(f"`size` must be at least 1, got {size}")
    if resize is not None and (size is None or resize < size):
        raise Misuse(
            f"`resize={resize}` must be at least `size`, got size={size or 'none'}", hint="resize=256,size=224"
        )
    return Framing(channels, size, resize)


def image_size(
    framing: Framing, ids: Sequence[str], opened: Callable[[int], Opened], *, ref: str, path: str
) -> tuple[int, int]:
    """Height and width of every image after framing; without a `size` all files must have one size already."""
    if framing.size is not None:
        return framing.size, framing.size
    sizes: dict[tuple[int, int], str] = {}
    for name, size in zip(ids, in_parallel(lambda i: dimensions(opened(i)), range(len(ids))), strict=True):
        if size is not None:
            sizes.setdefault(size, name)
    if not sizes:
        raise HoldfastError(f"not one of the {len(ids)} images in {path} can be read")
    if len(sizes) > 1:
        (one, first), (other, second), *_ = sizes.items()
        raise HoldfastError(
            f"the images in {path} differ in size: {first} is {_sides(one)}, {second} is {_sides(other)}",
            hint=f"say the size you want: `{ref}:{path},size=224`",
        )
    return next(iter(sizes))


def listing_digest(facts: Iterable[tuple[object, ...]]) -> str:
    """A fingerprint of facts about files (ids, labels, bytes), in any order."""
    listing = sorted("\0".join(map(str, fact)) for fact in facts)
    return hashlib.sha256("\n".join(listing).encode()).hexdigest()[:20]


def _sides(size: tuple[int, int]) -> str:
    return f"{size[1]}x{size[0]}"
