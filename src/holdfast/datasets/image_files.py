"""Datasets of image files, wherever the files are (folders, tar shards, tables): decoding in parallel, and framing.

Many files at once are decoded by processes (`decoder_pool`), and kept decoded on disk (`decoded_cache`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse, NotRead
from holdfast.core.types import DatasetCard, Images

if TYPE_CHECKING:
    from holdfast.datasets.decoded_cache import DecodedCache

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
MODES = {1: "L", 3: "RGB"}
# what Pillow raises for damaged files, over all its decoders
DAMAGE = (
    *(OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError),
    *(TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError, AssertionError),
)

Opened = Path | BinaryIO  # a file by its path, or opened
Source = Path | bytes  # a file by its path, or its bytes
Item = TypeVar("Item")
Result = TypeVar("Result")
PAUSES = (0.05, 0.2)  # seconds before an image is read again


class NotAnImage(Exception):  # noqa: N818 - never leaves this package
    """Why a file gave no image: it was read, and holds none."""


class ReadFailure(Exception):  # noqa: N818 - never leaves this package
    """Why a file could not be read: it is gone, or the disk, the network or memory failed."""


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file becomes pixels: shorter side to `resize`, then the centre `size` x `size`; None leaves it as it is.

    Resizing is Pillow's bilinear with antialiasing and sides round as in torchvision, so that published ImageNet
    accuracies come out the same. The EXIF orientation is ignored, as there. `border` pixels go from each side first.
    """

    channels: int
    size: int | None = None
    resize: int | None = None
    border: int = 0


@dataclass(slots=True, eq=False)
class ImageFiles:
    """A dataset of image files, decoded on all cores; `opened` gives the file at a position.

    Files that hold no image are black and have a reason.
    """

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    opened: Callable[[int], Opened]
    framing: Framing
    stamp: Callable[[int], int] | None = None  # stands for a file as it is, see `decoded_cache`; None: by its path
    cache: DecodedCache | None = field(default=None, init=False)
    is_cached: bool = field(default=False, init=False)  # whether a cache was looked for

    def images(self, index: Sequence[int]) -> Images:
        import torch

        positions = [int(position) for position in index]
        shape = (len(positions), self.card.channels, *self.card.size)
        stamps, missing, pixels = self._from_cache(positions, shape)
        wrong = self._decode(positions, missing, pixels)
        if self.cache is not None:
            cache, fresh = self.cache, [row for row in missing if row not in wrong]
            in_parallel(lambda row: cache.write(positions[row], stamps[row], pixels[row]), fresh)
        failures = [f"{self.ids[positions[i]]} {why}" for i, why in wrong.items() if isinstance(why, ReadFailure)]
        if failures:
            raise NotRead(
                f"{len(failures)} of {len(positions)} images of `{self.card.name}` could not be read: {min(failures)}",
                hint="nothing is recorded for them; once they can be read, the same command goes on",
            )
        reasons = {row: f"{self.ids[positions[row]]} {wrong[row]}" for row in sorted(wrong)}
        return Images(torch.from_numpy(pixels), reasons)

    def file_bytes(self, position: int) -> bytes:
        """The file at a position as it is."""
        file = self.opened(position)
        return file.read_bytes() if isinstance(file, Path) else file.read()

    def _from_cache(
        self, positions: Sequence[int], shape: tuple[int, ...]
    ) -> tuple[list[int], list[int], NDArray[np.uint8]]:
        """The stamp of every row, the rows that are not in the cache, and the pixels of those that are."""
        from holdfast.datasets.decoded_cache import cache_of

        pixels = np.zeros(shape, dtype=np.uint8)
        if not self.is_cached:
            self.cache, self.is_cached = cache_of(self.ids, (self.framing,), shape[1:]), True
        if self.cache is None:
            return [], list(range(len(positions))), pixels
        cache = self.cache
        stamps = in_parallel(self._stamp, positions)
        known = in_parallel(lambda row: cache.read(positions[row], stamps[row], pixels[row]), range(len(positions)))
        return stamps, [row for row, is_known in enumerate(known) if not is_known], pixels

    def _stamp(self, position: int) -> int:
        from holdfast.datasets.decoded_cache import path_stamp

        if self.stamp is not None:
            return self.stamp(position)
        file = self.opened(position)
        return path_stamp(file) if isinstance(file, Path) else 0

    def _decode(
        self, positions: Sequence[int], missing: Sequence[int], pixels: NDArray[np.uint8]
    ) -> dict[int, Exception]:
        """Fills in the missing rows; what was wrong with those that could not be had."""
        from holdfast.datasets.decoder_pool import pool_for

        def source(row: int) -> Source:
            file = self.opened(positions[row])
            return file if isinstance(file, Path) else file.read()

        def fill(row: int) -> Exception | None:
            try:
                image = read_with_retries(lambda: source(row), self.framing)
            except (NotAnImage, ReadFailure) as why:
                return why
            if image.shape != pixels.shape[1:]:
                return NotAnImage(f"is no longer {_sides(self.card.size)}")
            pixels[row] = image
            return None

        pool = pool_for(len(missing))
        left = missing if pool is None else pool.decode(source, missing, pixels, self.framing)
        return {row: why for row, why in zip(left, in_parallel(fill, left), strict=True) if why is not None}


def decode(file: Opened, framing: Framing) -> NDArray[np.uint8]:
    """The pixels of one file, CHW. Raises `NotAnImage` for a file without an image, `ReadFailure` for one not read."""
    try:
        with Image.open(file) as opened:
            if opened.mode.startswith(("I", "F")):
                raise NotAnImage(f"has pixels of mode {opened.mode}, not of 8 bits")
            image = _resized_and_cropped(opened.convert(MODES[framing.channels]), framing)
    except DAMAGE as damage:
        raise (ReadFailure if is_read_failure(damage) else NotAnImage)(_reason(damage)) from damage
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[None] if framing.channels == 1 else pixels.transpose(2, 0, 1)


def is_read_failure(error: BaseException) -> bool:
    """Whether an error says that reading failed, not what was read: the system gave it a number, or memory ran out."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)


def dimensions(file: Opened) -> tuple[int, int] | None:
    """Height and width from the header alone; None when it cannot be read."""
    try:
        with Image.open(file) as opened:
            return opened.height, opened.width
    except DAMAGE:
        return None


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of every item, in order, by a shared pool of threads; Pillow decodes outside the GIL."""
    return list(_pool(os.getpid()).map(function, items))


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process: the threads of a pool do not survive a fork."""
    return ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1), thread_name_prefix=f"decode-{process}")


def _resized_and_cropped(image: Any, framing: Framing) -> Any:
    if framing.border:
        image = image.crop((framing.border, framing.border, *(side - framing.border for side in image.size)))
    if framing.size is None:
        return image
    short = framing.resize or framing.size
    width, height = image.size
    if min(width, height) != short:
        wide = width > height
        longer = int(short * max(width, height) / min(width, height))
        image = image.resize((longer, short) if wide else (short, longer), Image.Resampling.BILINEAR)
    width, height = image.size
    left, top = round((width - framing.size) / 2), round((height - framing.size) / 2)
    return image.crop((left, top, left + framing.size, top + framing.size))


def _reason(damage: BaseException) -> str:
    if isinstance(damage, FileNotFoundError):
        return "is gone"
    text = re.sub(r" ?<[^<>]* at 0x[0-9a-f]+>", "", str(damage))  # of bytes in memory: another address each time
    return f"cannot be read: {text or type(damage).__name__}"


def read_with_retries(source: Callable[[], Source], framing: Framing) -> NDArray[np.uint8]:
    """The pixels of one file, read a few times where reading fails: networks recover."""
    for pause in (*PAUSES, None):
        try:
            return decode(as_readable(source()), framing)
        except ReadFailure as failure:
            if pause is None or isinstance(failure.__cause__, FileNotFoundError):
                raise
        except OSError as error:  # opening failed, before there was anything to decode
            if pause is None or isinstance(error, FileNotFoundError) or not is_read_failure(error):
                raise ReadFailure(f"cannot be read: {error}") from error
        time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def as_readable(source: Source) -> Opened:
    """Something that Pillow reads."""
    return io.BytesIO(source) if isinstance(source, bytes) else source


def framing_of(channels: int, size: int | None, resize: int | None) -> Framing:
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
