"""Decoded pixels of image files, kept on disk: the second suite reads bytes and decodes nothing.

One pair of files per dataset and framing, shared by all processes of a machine: the pixels of all rows in a sparse
file, and for each row the stamp of the file that it was decoded from (path, size and time of its last change) with a
checksum. A row counts only where both match, so a changed file, a torn write or another dataset is decoded again.
`HOLDFAST_DECODED` is the number of bytes that may be kept (such as 20e9); 0 keeps nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.core.home import data_home

LIMIT = "HOLDFAST_DECODED"
MOST_BYTES = 32e9
DISK_SHARE = 0.2  # of what is free
LEAST_FILES = 256  # fewer are decoded in a second
UNCHANGED_FOR = 2.0  # seconds since a file's last change: a later change may leave its time as it is
ROW = np.dtype([("stamp", "<u8"), ("checksum", "<u4")])


class DecodedCache:
    """The pixels of one dataset in one framing, by row."""

    def __init__(self, folder: Path, name: str, count: int, shape: tuple[int, ...]) -> None:
        self.shape, self.each = shape, int(np.prod(shape))
        self.pixels = os.open(folder / f"{name}.pixels", os.O_RDWR | os.O_CREAT, 0o644)
        handle = os.open(folder / f"{name}.rows", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(self.pixels, count * self.each)
            os.ftruncate(handle, count * ROW.itemsize)
        finally:
            os.close(handle)
        os.utime(folder / f"{name}.rows")
        self.rows = np.memmap(folder / f"{name}.rows", dtype=ROW, mode="r+", shape=(count,))
        self.is_full = False

    def read(self, row: int, stamp: int, into: NDArray[np.uint8]) -> bool:
        """Fills in the pixels of a row where they are those of the file with this stamp."""
        known = self.rows[row]
        if stamp == 0 or int(known["stamp"]) != stamp:
            return False
        data = os.pread(self.pixels, self.each, row * self.each)
        if len(data) != self.each or zlib.crc32(data) != int(known["checksum"]):
            return False
        into[...] = np.frombuffer(data, dtype=np.uint8).reshape(self.shape)
        return True

    def write(self, row: int, stamp: int, pixels: NDArray[np.uint8]) -> None:
        """Keeps the pixels of a row; where the disk is full or fails, nothing more is kept."""
        if stamp == 0 or self.is_full:
            return
        data = np.ascontiguousarray(pixels).tobytes()
        try:
            is_whole = os.pwrite(self.pixels, data, row * self.each) == self.each
        except OSError:
            is_whole = False
        if is_whole:
            self.rows[row] = (stamp, zlib.crc32(data))
        else:
            self.is_full = True

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self.pixels)


def cache_of(ids: Sequence[str], facts: Sequence[object], shape: tuple[int, ...]) -> DecodedCache | None:
    """The cache of a dataset with these ids and other facts; None where it is small, or there is no room for it."""
    if len(ids) < LEAST_FILES:
        return None
    folder = data_home().parent / "decoded"
    needed = len(ids) * int(np.prod(shape))
    name = hashlib.sha256(repr([shape, *facts]).encode() + "\0".join(ids).encode()).hexdigest()[:24]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _make_room(folder, needed, keep=name):
            return None
        return DecodedCache(folder, name, len(ids), shape)
    except OSError:  # a cache that cannot be had is no error
        return None


def file_stamp(facts: tuple[object, ...], changed: float) -> int:
    """A number that stands for a file as it is; 0 where it changed so lately that another change could go unseen."""
    if not 0 < changed < time.time() - UNCHANGED_FOR:
        return 0
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def times(about: os.stat_result) -> tuple[int, ...]:
    """What changes when a file does: its size, and the times of its content and of its entry, which no tool sets."""
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def path_stamp(path: Path) -> int:
    try:
        about = path.stat()
    except OSError:
        return 0
    return file_stamp((str(path.absolute()), *times(about)), about.st_mtime)


def _make_room(folder: Path, needed: int, *, keep: str) -> bool:
    """Lets go of what was used longest ago until so many bytes fit; False where they never will."""
    limit = float(os.environ.get(LIMIT) or MOST_BYTES) if os.environ.get(LIMIT) != "0" else 0.0
    others = sorted(
        (rows for rows in folder.glob("*.rows") if rows.stem != keep), key=lambda rows: rows.stat().st_mtime
    )
    held = {rows: _bytes(rows) + _bytes(rows.with_suffix(".pixels")) for rows in others}
    own = _bytes(folder / f"{keep}.pixels")
    most = min(limit, sum(held.values()) + own + DISK_SHARE * shutil.disk_usage(folder).free)
    if needed > most:
        return False
    total = sum(held.values())
    for rows in others:
        if total + needed <= most:
            break
        rows.unlink(missing_ok=True)
        rows.with_suffix(".pixels").unlink(missing_ok=True)
        total -= held[rows]
    return True


def _bytes(file: Path) -> int:
    """On the disk: a sparse file takes less than its length."""
    try:
        return 512 * file.stat().st_blocks
    except OSError:
        return 0
