"""Pictures of a run's samples in one file, under a seal that ties them to the run's rows."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from holdfast.store.files import Damaged
from holdfast.store.parquet_bytes import parquet_encoded, parquet_table, whole_file

FOLDER = "gallery"
KEY = b"holdfast gallery"
SCHEMA = pa.schema([("id", pa.string()), ("before", pa.binary()), ("after", pa.binary())])
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HINT = "`holdfast evaluate` with the same arguments makes the pictures again"


class Picture(NamedTuple):
    """One sample before and after its changes, as PNG bytes."""

    id: str
    before: bytes
    after: bytes


class Gallery(NamedTuple):
    """The pictures of a run. `rows` is the digest of the rows they were chosen by; None in files of older versions."""

    pictures: tuple[Picture, ...]
    rows: str | None


def gallery_to_parquet(run: str, rows: str, pictures: Sequence[Picture]) -> bytes:
    columns = {name: [getattr(picture, name) for picture in pictures] for name in Picture._fields}
    about = {"run": run, "rows": rows, "digest": gallery_digest(run, rows, pictures)}
    return parquet_encoded(pa.table(columns, schema=SCHEMA.with_metadata({KEY: json.dumps(about).encode()})))


def gallery_from_parquet(data: bytes, name: str, run: str) -> Gallery:
    """The pictures of a run; `Damaged` where they are not those that were written."""
    with whole_file(name, "gallery", HINT):
        table = parquet_table(data)
        metadata = table.schema.metadata or {}
        if not table.schema.equals(SCHEMA):
            raise Damaged(f"{name} is no gallery: its columns are {', '.join(table.column_names)}", hint=HINT)
        pictures = tuple(Picture(**row) for row in table.to_pylist())
        if not metadata:  # as versions before the seal wrote it
            return Gallery(pictures, None)
        about = json.loads(metadata[KEY])
        is_sound = about["run"] == run and about["digest"] == gallery_digest(run, about["rows"], pictures)
    if not is_sound:
        raise Damaged(f"{name} does not match its digest: it was changed or damaged after writing", hint=HINT)
    return Gallery(pictures, str(about["rows"]))


def gallery_digest(run: str, rows: str, pictures: Iterable[Picture]) -> str:
    """Covers the run, its rows, and every picture."""
    summed = hashlib.sha256(json.dumps([run, rows]).encode())
    for picture in pictures:
        for part in (picture.id.encode(), picture.before, picture.after):
            summed.update(f"{len(part)} ".encode())
            summed.update(part)
    return summed.hexdigest()


def problem_with(gallery: Gallery, name: str, *, rows: str, ids: Iterable[str]) -> str | None:
    """What is wrong with pictures beside the rows they belong to; None where nothing is."""
    if gallery.rows not in (None, "", rows):
        return f"{name} was made from other rows of its run"
    known = set(ids)
    for picture in gallery.pictures:
        if picture.id not in known:
            return f"{name} shows the sample `{picture.id}`, which its run does not have"
        for part in (picture.before, picture.after):
            if not is_png(part):
                return f"{name} has a picture of `{picture.id}` that is no PNG"
    return None


def is_png(data: bytes | None) -> bool:
    """Whether every chunk has its checksum, the first is the header, the last is the end, and the pixels unpack."""
    if data is None or not data.startswith(SIGNATURE):
        return False
    at, kinds, packed = len(SIGNATURE), [], b""
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if zlib.crc32(kind + body) != int.from_bytes(data[at + 8 + length : at + 12 + length], "big"):
            return False
        kinds.append(kind)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    try:
        return at == len(data) and kinds[:1] == [b"IHDR"] and kinds[-1:] == [b"IEND"] and bool(zlib.decompress(packed))
    except zlib.error:
        return False
