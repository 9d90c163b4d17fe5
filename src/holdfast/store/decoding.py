"""From the bytes of a file of rows to rows, or to what is wrong with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.store.files import Damaged, Foreign
from holdfast.store.footer import FOOTER_KEY, Footer, OtherFormat
from holdfast.store.parquet_bytes import parquet_file, whole_file
from holdfast.store.rows import SCHEMA, Rows, is_named, rows_digest

SUFFIX = ".parquet"
LARGEST = 1 << 26  # bytes of columns that a file may always claim
RATIO = 2000  # and beyond that, how many times its own size: no rows compress that well
HINT = "`holdfast evaluate` with the same arguments moves it aside and measures again"
LEFT = "it is left where it is: move it out of the store, or read it with the version of holdfast that wrote it"


def decoded_rows(data: bytes, name: str, *, is_kept: bool = True) -> Rows:
    """The rows of a file, checked against their digest and footer; of one that a store keeps, the name too."""
    with whole_file(name, "Parquet file", HINT):
        file = parquet_file(data)
        footer = footer_of(file.metadata, name, is_kept=is_kept)
        _check_claims(file.metadata, footer, len(data), name)
        table = file.read(use_threads=False)
        if not table.schema.equals(SCHEMA):  # the hint in a file at its Arrow types is under no seal
            table = table.cast(SCHEMA.with_metadata(table.schema.metadata))
        is_sound = is_named(table, footer) and table.num_rows == footer.n and rows_digest(table) == footer.digest
    if not is_sound:
        raise Damaged(f"{name} does not match its digest: it was changed or damaged after writing", hint=HINT)
    return Rows(table, footer)


def decoded_footer(data: bytes, name: str) -> Footer:
    """The footer of a file from its bytes or their end."""
    with whole_file(name, "Parquet file", HINT):
        return footer_of(pq.read_metadata(pa.BufferReader(data)), name)


def footer_of(about: pq.FileMetaData, name: str, *, is_kept: bool = True) -> Footer:
    """The footer in the metadata of a file of this name."""
    metadata = about.metadata or {}
    try:
        footer = Footer.from_metadata(metadata)
    except OtherFormat as error:
        raise Foreign(f"{name} has {error.problem}", hint=error.hint) from error
    if footer is None:
        problem = f"{name} has no footer of holdfast's, or a damaged one"
        is_ours = FOOTER_KEY in metadata or about.schema.to_arrow_schema().names == SCHEMA.names
        raise Damaged(problem, hint=HINT) if is_ours else Foreign(problem, hint=LEFT)
    if is_kept and not belongs(name, footer.key):
        raise Damaged(f"{name} holds the rows of run {footer.key}", hint=HINT)
    return footer


def belongs(name: str, key: str) -> bool:
    """Whether a file of this name may hold rows of the run."""
    if name.startswith("parts/"):
        return name.split("/")[1] == key
    return name == row_name(key)


def row_name(key: str) -> str:
    return f"rows/{key}{SUFFIX}"


def _check_claims(about: pq.FileMetaData, footer: Footer, size: int, name: str) -> None:
    """Before anything is unpacked: a damaged file may claim more than any memory holds."""
    if about.num_rows != footer.n:
        raise Damaged(f"{name} does not match its digest: it has {about.num_rows:,} of {footer.n:,} rows", hint=HINT)
    claimed = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if not 0 <= claimed <= LARGEST + RATIO * size:
        raise Damaged(f"{name} is not a whole Parquet file: it claims {claimed:,} bytes of columns", hint=HINT)
