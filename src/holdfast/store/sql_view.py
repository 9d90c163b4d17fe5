"""Rows of finished runs as a view of DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.store.files import Files

if TYPE_CHECKING:
    import duckdb


def rows_view(files: Files, paths: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """A connection with the view `rows` over these files."""
    import duckdb

    if not paths:
        raise HoldfastError(f"no finished runs in {files.url}", hint="`holdfast evaluate` makes some")
    connection = duckdb.connect()
    if not files.is_local:
        connection.register_filesystem(files.fs)
        scheme = files.url.split("://")[0]
        paths = [f"{scheme}://{path.lstrip('/')}" for path in paths]
    connection.read_parquet(list(paths)).create_view("rows")
    return connection
