"""The idx format of MNIST and its successors: a magic number, the sides, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.datasets.files import unpacked

MOST_PACKED = 1100  # gzip makes 1,032 bytes of one at most
BYTES = 0x08  # the type code of unsigned bytes, the only one these datasets use


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes."""
    start = 4 * (1 + dimensions)
    try:
        with unpacked(path) as stream:
            content = stream.read(start)
            if content[:4] != bytes([0, 0, BYTES, dimensions]) or len(content) < start:
                raise HoldfastError(f"{path} is not an idx file of bytes with {dimensions} dimensions")
            shape = tuple(int(side) for side in np.frombuffer(content[4:start], dtype=">u4"))
            content += stream.read(min(math.prod(shape), MOST_PACKED * path.stat().st_size) + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise HoldfastError(f"{path} is damaged: {damage}", hint="get it again with `holdfast data get`") from damage
    if len(content) - start != math.prod(shape):
        raise HoldfastError(
            f"{path} should hold {math.prod(shape)} bytes after its header, got "
            f"{'more' if len(content) - start > math.prod(shape) else len(content) - start}",
            hint="get it again with `holdfast data get`",
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
