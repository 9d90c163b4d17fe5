"""Decoded arrays kept beside the files they came from, so that the second load maps them in an instant."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Labelled(NamedTuple):
    """Images (NCHW) with their labels."""

    images: NDArray[Any]
    labels: NDArray[Any]


def cached(name: str, files: Sequence[Path], read: Callable[[], Labelled], *, folder: Path) -> Labelled:
    """What `read` gives, from `folder` when these same files were read before.

    The name of a cached file carries the paths, sizes and times of its sources; other sources make another name. A
    folder that cannot be written means no cache, not a failure.
    """
    stem = f"{name}-{_digest(files)}"
    paths = [folder / f"{stem}-{part}.npy" for part in Labelled._fields]
    known = _known(paths)
    if known is not None:
        return known
    fresh = read()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for path, array in zip(paths, fresh, strict=True):
            save_atomically(path, array)
        for old in folder.glob(f"{name}-*.npy"):
            if old not in paths:
                old.unlink(missing_ok=True)
    return fresh


def save_atomically(path: Path, array: NDArray[Any]) -> None:
    """Writes a .npy under a temporary name and renames it when whole."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _known(paths: Sequence[Path]) -> Labelled | None:
    try:
        images, labels = (np.load(path, mmap_mode="r", allow_pickle=False) for path in paths)
    except (OSError, ValueError, EOFError):
        return None
    return Labelled(images, labels)


def _digest(files: Sequence[Path]) -> str:
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
