"""Folders and tars of small images, as the published sets are laid out."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image


def picture(name: str, size: tuple[int, int] = (8, 8)) -> bytes:
    """A small image of its own colours, in the format that the name says."""
    colour = np.random.default_rng(zlib.crc32(name.encode())).integers(0, 256, (*size, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(colour).save(stream, "PNG" if name.endswith(".png") else "JPEG")
    return stream.getvalue()


def write_tree(root: Path, names: Iterable[str], size: tuple[int, int] = (8, 8)) -> None:
    content = picture("one", size), picture("one.png", size)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content[name.endswith(".png")])


def write_tar(path: Path, names: Iterable[str], *, mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name in names:
            content = picture(name)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
