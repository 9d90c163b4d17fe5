"""Short names that a store keeps: one odd file names nothing and hides no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.store.stored_names import write_name

ODD = {
    "deep": b"[" * 100_000,
    "a list": b"[1, 2]",
    "a BOM": b"\xef\xbb\xbf{}",
    "not UTF-8": b"\xff\xfe",
    "no fields": b"{}",
    "empty": b"",
    "an escape": json.dumps({"since": "0", "kind": "model", "name": "a\x1b[31m", "ref": "other"}).encode(),
    "a NUL": json.dumps({"since": "0", "kind": "model", "name": "a\0", "ref": "other"}).encode(),
    "a number": b'{"since": "0", "kind": "model", "name": 1e400, "ref": []}',
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_of_a_name_hides_no_other(kind: str, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_name(store, "model", "mine", "fashion-standard")
    (tmp_path / "names" / "0.json").write_bytes(ODD[kind])
    names = Store(str(tmp_path)).names()
    assert names.models["fashion-standard"] == "mine"
    assert all(name.isprintable() for name in names.models.values())
