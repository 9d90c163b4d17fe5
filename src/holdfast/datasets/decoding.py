"""Image files to pixels, many at once; a file that cannot be read is a reason, not an exception."""

from __future__ import annotations

import functools
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
MODES = {1: "L", 3: "RGB"}
# what Pillow raises for damaged files, over all its decoders
DAMAGE = (
    *(OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError),
    *(TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError, AssertionError),
)

Opened = Path | BinaryIO  # a file by its path, or its bytes
Item = TypeVar("Item")
Result = TypeVar("Result")


class Unreadable(Exception):  # noqa: N818 - never leaves this package
    """Why a file gave no image: it was read, and holds none."""


class Fault(Exception):  # noqa: N818 - never leaves this package
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


def decoded(file: Opened, framing: Framing) -> NDArray[np.uint8]:
    """The pixels of one file, CHW. Raises `Unreadable` for a file without an image, `Fault` for one not read."""
    try:
        with Image.open(file) as opened:
            if opened.mode.startswith(("I", "F")):
                raise Unreadable(f"has pixels of mode {opened.mode}, not of 8 bits")
            image = _framed(opened.convert(MODES[framing.channels]), framing)
    except DAMAGE as damage:
        raise (Fault if is_fault(damage) else Unreadable)(_reason(damage)) from damage
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[None] if framing.channels == 1 else pixels.transpose(2, 0, 1)


def is_fault(error: BaseException) -> bool:
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


def _framed(image: Any, framing: Framing) -> Any:
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
    return f"cannot be read: {damage}" if str(damage) else f"cannot be read: {type(damage).__name__}"
