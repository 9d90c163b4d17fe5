"""Parquet files to and from bytes, read by the calling thread alone.

`pyarrow.parquet.read_table(io.BytesIO(…))` leaves the last reference to a Python object to Arrow's threads. One that
lets go of it while the interpreter ends is stopped inside C++, and the process aborts: `terminate called without an
active exception`.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


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
