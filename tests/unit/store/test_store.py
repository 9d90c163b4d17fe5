"""The store: whole or absent, checked on every read, readable by others."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.store import Footer, Rows, Store
from holdfast.store import files as files_module
from holdfast.store.files import NoRoom
from holdfast.store.retrying import RetryingFiles
from holdfast.store.store import Damaged, Picture


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store") if request.param == "local" else f"memory://{tmp_path.name}")


@pytest.fixture
def done(store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> Rows:
    footer = footer_for(key="k" * 20)
    rows = rows_for([True, False, True], footer=footer)
    return store.finish([rows], rows.ids, footer)


def test_rows_read_back_as_written(store: Store, done: Rows) -> None:
    back = store.read("k" * 20)
    assert back.footer == done.footer
    assert back.table.equals(done.table)
    assert store.footers() == {"k" * 20: done.footer}


def test_a_run_is_found_by_its_key_or_not_at_all(store: Store, done: Rows) -> None:
    found = store.find(done.footer.key)
    assert found is not None
    assert found.ids == done.ids
    assert store.has(done.footer.key)
    assert store.find("0" * 20) is None
    assert not store.has("0" * 20)


def test_parts_make_a_run_and_are_gone_when_it_is_whole(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    footer = footer_for(key="p" * 20)
    store.add_part(rows_for([True, False], footer=footer, ids=["a", "b"]))
    store.add_part(rows_for([True], footer=footer, ids=["c"]))
    assert set(store.unfinished()) == {"p" * 20}
    assert not store.has("p" * 20)
    whole = store.finish(store.parts("p" * 20), ["c", "a", "b"], footer)
    assert whole.ids == ["c", "a", "b"]
    assert store.has("p" * 20)
    assert store.unfinished() == {}
    assert store.parts("p" * 20) == []


def damage(store: Store, name: str, how: str) -> None:
    data = bytearray(store.files.read(name))
    if how == "truncated":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = bytearray()
    elif how == "not ours":
        data = bytearray(b"hello")
    store.files.fs.pipe_file(store.files.path(name), bytes(data))


@pytest.mark.parametrize("how", ["truncated", "empty", "not ours"])
def test_a_damaged_file_is_never_read_as_rows(store: Store, done: Rows, how: str) -> None:
    name = f"rows/{done.footer.key}.parquet"
    damage(store, name, how)
    (finding,) = store.verify()
    assert finding.problem is not None
    with pytest.raises(Damaged):
        store.read(done.footer.key)
    with pytest.warns(HoldfastWarning, match="moved to damaged/"):
        assert not store.has(done.footer.key)
    assert store.files.names("damaged", "") != [], "it is kept for inspection"
    assert not store.files.exists(name)


def test_a_changed_cell_is_found(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    """A valid Parquet file with one number changed: only the digest can tell."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    store, footer = Store(str(tmp_path)), footer_for(key="k" * 20)
    rows = rows_for([True, False], footer=footer)
    store.finish([rows], rows.ids, footer)
    table = pq.read_table(io.BytesIO(store.files.read(f"rows/{footer.key}.parquet")))
    forged = table.set_column(
        table.schema.get_field_index("prediction"), table.schema.field("prediction"), pa.array([0, 1], pa.int32())
    )
    pq.write_table(forged, tmp_path / "rows" / f"{footer.key}.parquet")
    with pytest.raises(Damaged, match="does not match its digest"):
        store.read(footer.key)


def test_a_file_under_a_wrong_name_is_found(store: Store, done: Rows) -> None:
    store.files.fs.copy(store.files.path(f"rows/{done.footer.key}.parquet"), store.files.path("rows/other.parquet"))
    problems = {finding.name: finding.problem for finding in store.verify()}
    assert problems[f"rows/{done.footer.key}.parquet"] is None
    assert "holds the rows of run" in (problems["rows/other.parquet"] or "")


def test_a_foreign_parquet_file_is_told_apart(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = Store(str(tmp_path))
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "rows" / "a.parquet")
    assert store.footers() == {}
    assert "no footer" in (store.verify()[0].problem or "")


def test_a_damaged_part_is_moved_aside(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    footer = footer_for(key="p" * 20)
    store.add_part(rows_for([True], footer=footer, ids=["a"]))
    store.add_part(rows_for([True], footer=footer, ids=["b"]))
    damage(store, store.files.names("parts", ".parquet")[0], "truncated")
    with pytest.warns(HoldfastWarning, match="not a whole Parquet file"):
        assert len(store.parts(footer.key)) == 1
    assert len(store.parts(footer.key)) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_says_so_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_for: Callable[..., Rows], code: int
) -> None:
    store = Store(str(tmp_path))
    kept = rows_for([True], ids=["a"])
    store.add_part(kept)

    def full(_: object) -> None:
        raise OSError(code, "no space")

    monkeypatch.setattr(files_module.os, "fsync", full)
    with pytest.raises(NoRoom) as caught:
        store.add_part(rows_for([True], ids=["b"]))
    assert "run the same command again" in str(caught.value)
    assert [rows.ids for rows in store.parts(kept.footer.key)] == [["a"]]
    assert store.files.leftovers() == []


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path, rows_for: Callable[..., Rows]) -> None:
    (tmp_path / "parts").write_text("a file where a folder should be")
    with pytest.raises(HoldfastError, match="cannot write"):
        Store(str(tmp_path)).add_part(rows_for([True]))


def test_leftovers_of_a_dead_writer_are_never_read(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    store, footer = Store(str(tmp_path)), footer_for(key="k" * 20)
    (tmp_path / "rows").mkdir(parents=True)
    (tmp_path / "rows" / f".{footer.key}.parquet.abc.tmp").write_bytes(b"half a file")
    assert store.footers() == {}
    assert not store.has(footer.key)
    assert len(store.files.leftovers()) == 1


def test_siblings_are_other_choices_of_the_same_measurement(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    small = footer_for(key="a" * 20, family="same", samples=2)
    other = footer_for(key="b" * 20, family="different")
    for footer in (small, other):
        rows = rows_for([True, False], footer=footer)
        store.finish([rows], rows.ids, footer)
    found = store.siblings(footer_for(key="c" * 20, family="same"))
    assert [rows.footer.key for rows in found] == ["a" * 20]


def test_the_index_is_derived(store: Store, done: Rows) -> None:
    before = store.footers()
    assert store.files.exists("index.parquet")
    for content in (b"", b"nonsense", b'{"rows/x": 1}', json.dumps({"rows/x": {"stamp": 1}}).encode()):
        store.files.fs.pipe_file(store.files.path("index.parquet"), content)
        assert store.footers() == before
    store.files.remove("index.parquet")
    assert store.footers() == before


def test_the_index_follows_the_files(store: Store, done: Rows) -> None:
    store.footers()
    store.files.remove(f"rows/{done.footer.key}.parquet")
    assert store.footers() == {}


def test_pictures_read_back(store: Store) -> None:
    pictures = [Picture("a", b"one", b"two"), Picture("b", b"three", b"four")]
    store.add_pictures("k", pictures)
    assert store.pictures("k") == pictures
    assert store.pictures("none") == []


def test_duckdb_reads_the_folder_as_it_is(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    store = Store(str(tmp_path))
    for i, right in enumerate([[True, False, True], [True, True, True]]):
        footer = footer_for(f"m{i}", key=f"{i}" * 20)
        rows = rows_for(right, footer=footer)
        store.finish([rows], rows.ids, footer)
    query = (
        f"select model, avg((label = prediction)::int) from '{tmp_path}/rows/*.parquet' group by model order by model"
    )
    assert duckdb.sql(query).fetchall() == [("m0", 2 / 3), ("m1", 1.0)]


def test_the_views_agree(store: Store, done: Rows) -> None:
    assert store.sql("select id from rows order by id").fetchall() == [("s0",), ("s1",), ("s2",)]
    assert store.arrow().to_table().column("id").to_pylist() == ["s0", "s1", "s2"]
    frame = store.pandas()
    assert (frame["label"] == frame["prediction"]).tolist() == done.correct.tolist()
    assert frame["model"].unique().tolist() == ["m"]


def test_an_empty_store_answers_plainly(store: Store) -> None:
    assert store.footers() == {}
    assert store.verify() == []
    assert store.unfinished() == {}
    with pytest.raises(HoldfastError, match="no finished runs"):
        store.sql("select 1")
    with pytest.raises(HoldfastError, match="no rows of run"):
        store.read("nothing")


def test_no_flipped_byte_is_ever_read_as_rows(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    """Every kind of damage is `Damaged`, or harmless: the rows that come back are the rows that were written."""
    import random

    store, footer = Store(str(tmp_path)), footer_for(key="k" * 20)
    rows = rows_for([True, False, True, True], footer=footer)
    written = store.finish([rows], rows.ids, footer)
    path = tmp_path / "rows" / f"{footer.key}.parquet"
    whole = path.read_bytes()
    rng = random.Random(0)
    found = 0
    for offset in rng.sample(range(len(whole)), 400):
        broken = bytearray(whole)
        broken[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        try:
            assert store.read(footer.key).table.equals(written.table)
        except Damaged:
            found += 1
        for finding in store.verify():
            assert finding.problem is None or isinstance(finding.problem, str)
        store.footers()
    assert found > 200


class Meanwhile:
    """Another worker, who finishes a run just before the so-manieth question to the files."""

    def __init__(self, worker: Store, finish: Callable[[], Any], turn: int) -> None:
        self.worker, self.finish, self.left = worker, finish, turn

    def before(self, real: Any) -> Any:
        def asked(files: Any, *words: Any) -> Any:
            if files is not self.worker.files:
                self.left -= 1
                if self.left == 0:
                    self.finish()
            return real(files, *words)

        return asked


def test_status_has_every_run_while_another_worker_finishes_it(
    tmp_path: Path,
    run: Callable[..., Any],
    rows_for: Callable[..., Rows],
    footer_for: Callable[..., Footer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the run is finished between two questions, it is done or under way, and stands there once."""
    for turn in range(1, 12):
        folder = tmp_path / f"store{turn}"
        store, footer = Store(str(folder)), footer_for(key="p" * 20)
        store.add_part(rows_for([True, False], footer=footer, ids=["a", "b"]))
        store.add_part(rows_for([True], footer=footer, ids=["c"]))
        finish = partial(store.finish, store.parts(footer.key), ["a", "b", "c"], footer)
        meanwhile = Meanwhile(store, finish, turn)
        with monkeypatch.context() as patch:
            for name in ("read", "tail", "exists", "listing"):
                patch.setattr(RetryingFiles, name, meanwhile.before(getattr(RetryingFiles, name)))
            answer = run("status", "--json", "--store", str(folder))
        assert (answer.code, answer.err) == (0, "")
        assert [record["run"] for record in json.loads(answer.out)["runs"]] == [footer.key], turn


@pytest.mark.parametrize("radius", ["8/255", "0.1", "2/255", "0.3", "1/3", "64/255", "0.05"])
def test_sql_finds_what_a_radius_breaks_when_both_sides_are_float(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], radius: str
) -> None:
    """As docs/rows.md says: a column of float32 is compared with a float32."""
    store, footer = Store(str(tmp_path)), footer_for(key="k" * 20)
    value = float(Fraction(radius))
    radii = np.array([value, np.nextafter(np.float32(value), np.float32(1)), value / 2, np.inf], np.float32)
    rows = rows_for([False, False, False, True], footer=footer, radii=radii)
    store.finish([rows], rows.ids, footer)
    query = f"select id from rows where radius <= ({radius})::float order by id"
    assert store.sql(query).fetchall() == [("s0",), ("s2",)]
    frame = store.pandas()
    assert frame[frame["radius"] <= np.float32(value)]["id"].tolist() == ["s0", "s2"]


@pytest.mark.parametrize("place", ["nowhere://x", "python::", "github://a"])
def test_a_place_on_no_filesystem_is_misuse(place: str) -> None:
    with pytest.raises(Misuse, match="neither a folder nor a place on a filesystem"):
        Store(place)


def test_a_filesystem_without_its_package_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(files_module.fsspec.core, "url_to_fs", lacking)
    with pytest.raises(HoldfastError, match="`s3://bucket/rows` is on a filesystem that needs a package: Install s3fs"):
        Store("s3://bucket/rows")
