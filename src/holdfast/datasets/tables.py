"""Columns of a table in a file: CSV, Parquet or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.damage import DAMAGED
from holdfast.core.errors import HoldfastError, Misuse, unknown


def columns_of(file: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """The named columns, as lists of plain values."""
    import pyarrow as pa

    if not file.is_file():
        raise Misuse(f"there is no table {file}", hint=f"give a file that ends in {', '.join(READERS)}")
    if file.suffix not in READERS:
        raise Misuse(f"{file} is not a table that can be read", hint=f"give a file that ends in {', '.join(READERS)}")
    try:
        table = READERS[file.suffix](file)
        for name in names:
            if name not in table.column_names:
                raise unknown(f"column of {file.name}", name, table.column_names)
        return {name: table.column(name).to_pylist() for name in names}
    except (pa.ArrowException, *DAMAGED) as problem:
        raise HoldfastError(f"{file} cannot be read: {str(problem).partition(chr(10))[0]}") from problem


def _csv(file: Path) -> Any:
    from pyarrow import csv

    return csv.read_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True))


def _parquet(file: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(file).read()


def _json_lines(file: Path) -> Any:
    """By Python's own reader: Arrow's ends the process over some files that are not JSON."""
    import pyarrow as pa

    with file.open(encoding="utf-8") as lines:
        return pa.Table.from_pylist([json.loads(line) for line in lines if line.strip()])


READERS: dict[str, Callable[[Path], Any]] = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
