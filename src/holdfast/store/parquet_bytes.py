"""Parquet files to and from bytes, read by the calling thread alone.

`pyarrow.parquet.read_table(io.BytesIO(…))` leaves the last reference to a Python object to Arrow's threads. One that
lets go of it while the interpreter ends is stopped inside C++, and the process aborts: `terminate called without an
active exception`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.core.errors import HoldfastError
from holdfast.store.files import Damaged

NOT_PARQUET = (  # what Arrow raises on damage; ValueError: names that are not text; the others: metadata of other kinds
    *(pa.ArrowException, OSError, ValueError),
    *(TypeError, KeyError, IndexError, OverflowError, AttributeError),
)


def parquet_file(data: bytes) -> pq.ParquetFile:
    """The file of these bytes; read it with `use_threads=False`."""
    return pq.ParquetFile(pa.BufferReader(data))


def parquet_encoded(table: pa.Table) -> bytes:
    """The table as a file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def parquet_table(data: bytes) -> pa.Table:
    """All of its columns."""
    return parquet_file(data).read(use_threads=False)


@contextlib.contextmanager
def whole_file(name: str, what: str, hint: str) -> Iterator[None]:
    """Whatever a damaged file makes Arrow raise is `Damaged`; `MemoryError` passes: it says nothing about the file."""
    try:
        yield
    except (HoldfastError, MemoryError):
        raise
    except NOT_PARQUET as error:
        raise Damaged(f"{name} is not a whole {what}: {error}", hint=hint) from error
