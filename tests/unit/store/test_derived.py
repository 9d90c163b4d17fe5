"""What is derived cannot lie: an edited index, gallery or table of scores is noticed, and no number comes from it."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from holdfast.metrics.summary import lines
from holdfast.store import Footer, Rows, Store
from holdfast.store.files import CannotRead
from holdfast.store.galleries import Picture, gallery_to_parquet, is_png
from holdfast.store.index import index_from_bytes, index_to_bytes
from holdfast.store.published import published

KEY = "k" * 20
NAME = f"rows/{KEY}.parquet"


def png(seed: int = 0) -> bytes:
    sink = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)).save(sink, "PNG")
    return sink.getvalue()


@pytest.fixture
def add(tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> Callable[..., Rows]:
    def make(key: str, right: list[bool], **more: object) -> Rows:
        rows = rows_for(right, footer=footer_for(key=key, **more))
        return Store(str(tmp_path)).finish([rows], rows.ids, rows.footer)

    return make


@pytest.fixture
def store(tmp_path: Path, add: Callable[..., Rows]) -> Store:
    """Ten of eleven right, with an index."""
    add(KEY, [True] * 10 + [False])
    made = Store(str(tmp_path))
    made.footers()
    return Store(str(tmp_path))


def problems(store: Store) -> dict[str, str]:
    return {finding.name: finding.problem for finding in Store(store.url).verify() if finding.problem is not None}


def shown(store: Store) -> list[int]:
    return [round(each.accuracy.value * each.accuracy.n) for each in lines(Store(store.url))]


# the index


def with_pyarrow(path: Path) -> None:
    table = pq.read_table(path)
    at = table.schema.get_field_index("right")
    pq.write_table(table.set_column(at, table.schema.field(at), table.column("n").cast(pa.int64())), path)


def with_pandas(path: Path) -> None:
    frame = pd.read_parquet(path)
    frame["right"] = frame["n"]
    frame.to_parquet(path)


def with_pandas_and_our_metadata(path: Path) -> None:
    before = pq.read_table(path).schema
    frame = pd.read_parquet(path)
    frame["right"] = frame["n"]
    pq.write_table(pa.Table.from_pandas(frame, schema=before).replace_schema_metadata(before.metadata), path)


@pytest.mark.parametrize("edit", [with_pyarrow, with_pandas, with_pandas_and_our_metadata])
def test_an_edited_index_is_noticed_and_gives_no_number(store: Store, edit: Callable[[Path], None]) -> None:
    path = Path(store.files.path("index.parquet"))
    edit(path)
    edited = path.read_bytes()
    assert "index.parquet" in problems(store)
    assert path.read_bytes() == edited, "verify changes nothing"
    assert shown(store) == [10]
    assert problems(store) == {}, "it was made again"


def test_a_reader_says_that_the_index_was_edited(store: Store) -> None:
    with_pyarrow(Path(store.files.path("index.parquet")))
    told: list[str] = []
    Store(store.url, tell=told.append).footers()
    assert len(told) == 1
    assert told[0].startswith("index.parquet does not match its seal")


def test_no_flipped_byte_of_the_index_changes_a_footer(store: Store) -> None:
    path = Path(store.files.path("index.parquet"))
    whole, truth = path.read_bytes(), store.footers()
    rng = random.Random(0)
    for offset in rng.sample(range(len(whole)), 300):
        broken = bytearray(whole)
        broken[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        assert Store(store.url).footers() == truth


def test_an_index_is_read_as_it_was_written(store: Store) -> None:
    entries = store.index.entries()
    assert index_from_bytes(index_to_bytes(entries)) == entries
    assert index_from_bytes(index_to_bytes({})) == {}


def test_an_index_of_a_version_without_seals_is_made_again_and_is_no_problem_unless_it_lies(store: Store) -> None:
    path = Path(store.files.path("index.parquet"))
    table = pq.read_table(path)
    old = table.set_column(1, "stamp", pa.array(["1:2"])).replace_schema_metadata(None)
    pq.write_table(old, path)
    assert problems(store) == {}
    told: list[str] = []
    assert Store(store.url, tell=told.append).footers() == store.footers()
    assert told == []
    pq.write_table(old.set_column(old.schema.get_field_index("right"), "right", pa.array([11])), path)
    assert "says of" in problems(store)["index.parquet"]


def test_a_sealed_index_that_lies_is_found(store: Store) -> None:
    """As a faulty version of ours could write it."""
    (name, entry), *_ = store.index.entries().items()
    lie = entry._replace(footer=replace(entry.footer, right=11))
    store.files.write("index.parquet", index_to_bytes({name: lie}))
    assert "index.parquet says of" in problems(store)["index.parquet"]


def test_an_index_that_is_behind_is_no_problem(store: Store, add: Callable[..., Rows]) -> None:
    add(KEY, [False] * 11)
    add("o" * 20, [True])
    assert problems(store) == {}


def test_rows_replaced_at_equal_size_and_time_are_noticed(store: Store, add: Callable[..., Rows]) -> None:
    path = Path(store.files.path(NAME))

    def by_size(right: list[bool]) -> dict[int, bytes]:
        """The same run with commands of many lengths."""
        made = {}
        for length in range(40):
            add(KEY, right, command="x" * length)
            made[path.stat().st_size] = path.read_bytes()
        return made

    ten, nine = by_size([True] * 10 + [False]), by_size([True] * 9 + [False] * 2)
    size = next(size for size in ten if size in nine)
    path.write_bytes(ten[size])
    about = path.stat()
    assert shown(store) == [10]
    path.write_bytes(nine[size])
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    assert shown(store) == [9]


def test_a_file_put_in_place_of_another_at_equal_size_and_time_is_noticed(store: Store, tmp_path: Path) -> None:
    path = Path(store.files.path(NAME))
    about, data = path.stat(), bytearray(path.read_bytes())
    data[30:60] = bytes(30)
    (tmp_path / "other").write_bytes(data)
    os.utime(tmp_path / "other", ns=(about.st_atime_ns, about.st_mtime_ns))
    (tmp_path / "other").replace(path)
    assert path.stat().st_mtime_ns == about.st_mtime_ns
    read: list[str] = []
    reader = Store(store.url)
    real = reader.index.read
    reader.index.read = lambda name: (read.append(name), real(name))[1]  # type: ignore[func-returns-value]
    reader.footers()
    assert read == [NAME], "its footer is not taken from the index"
    assert NAME in problems(store)


def test_a_copy_of_a_run_under_another_name_does_not_count(store: Store, tmp_path: Path) -> None:
    (tmp_path / "rows" / "copy.parquet").write_bytes((tmp_path / NAME).read_bytes())
    assert shown(store) == [10]
    assert list(problems(store)) == ["rows/copy.parquet"]


@pytest.mark.parametrize("field", ["right", "in_top5", "failed"])
def test_every_count_of_a_footer_is_held_against_the_rows(store: Store, tmp_path: Path, field: str) -> None:
    rows = store.read(KEY)
    footer = replace(rows.footer, **{field: 7})
    pq.write_table(rows.table.replace_schema_metadata(footer.to_metadata()), tmp_path / NAME)
    assert problems(store) == {NAME: f"{NAME} miscounts its rows"}


def test_a_part_of_another_run_is_never_taken_over(
    store: Store, tmp_path: Path, footer_for: Any, rows_for: Any
) -> None:
    store.add_part(rows_for([True], footer=footer_for(key="p" * 20)))
    (tmp_path / "parts" / ("p" * 20)).rename(tmp_path / "parts" / ("q" * 20))
    with pytest.warns(match="holds the rows of run"):
        assert store.parts("q" * 20) == []


# galleries


@pytest.fixture
def pictured(store: Store) -> Store:
    rows = store.read(KEY)
    store.add_pictures(KEY, [Picture("s10", png(1), png(2)), Picture("s0", png(3), png(4))], rows=rows.digest)
    assert problems(store) == {}
    return store


GALLERY = f"gallery/{KEY}.parquet"


def rewritten(store: Store, change: Callable[[pd.DataFrame], None], *, keeps_metadata: bool = True) -> None:
    path = Path(store.files.path(GALLERY))
    before = pq.read_table(path).schema
    frame = pd.read_parquet(path)
    change(frame)
    if keeps_metadata:
        pq.write_table(pa.Table.from_pandas(frame, schema=before).replace_schema_metadata(before.metadata), path)
    else:
        frame.to_parquet(path)


def swap(frame: pd.DataFrame) -> None:
    frame["after"] = list(reversed(list(frame["after"])))


def rename(frame: pd.DataFrame) -> None:
    frame["id"] = ["s1", "s2"]


@pytest.mark.parametrize("keeps_metadata", [True, False])
@pytest.mark.parametrize("change", [swap, rename])
def test_an_edited_gallery_is_noticed_and_not_shown(
    pictured: Store, change: Callable[[pd.DataFrame], None], keeps_metadata: bool
) -> None:
    rewritten(pictured, change, keeps_metadata=keeps_metadata)
    assert list(problems(pictured)) == [GALLERY]
    with pytest.warns(match="gallery"):
        assert Store(pictured.url).pictures(KEY) == []
    assert not pictured.has_pictures(KEY, rows=pictured.read(KEY).digest)


def test_a_gallery_of_another_run_is_noticed(pictured: Store, add: Callable[..., Rows], tmp_path: Path) -> None:
    add("o" * 20, [False] * 11)
    (tmp_path / "gallery" / f"{'o' * 20}.parquet").write_bytes((tmp_path / GALLERY).read_bytes())
    assert list(problems(pictured)) == [f"gallery/{'o' * 20}.parquet"]


def test_a_gallery_of_other_rows_is_noticed_and_made_again(pictured: Store, add: Callable[..., Rows]) -> None:
    other = add(KEY, [False] * 11)
    assert problems(pictured) == {GALLERY: f"{GALLERY} was made from other rows of its run"}
    assert not pictured.has_pictures(KEY, rows=other.digest)


def test_pictures_without_a_run_or_a_sample_or_a_png_are_told(store: Store) -> None:
    digest = store.read(KEY).digest
    for pictures, key, words in (
        ([Picture("s0", png(), png())], "o" * 20, "of a run that is not in this store"),
        ([Picture("gone", png(), png())], KEY, "shows the sample `gone`"),
        ([Picture("s0", png(), b"hello")], KEY, "is no PNG"),
        ([Picture("s0", png()[:-20], png())], KEY, "is no PNG"),
    ):
        store.files.write(f"gallery/{key}.parquet", gallery_to_parquet(key, digest, pictures))
        ((name, problem),) = problems(store).items()
        assert name == f"gallery/{key}.parquet"
        assert words in problem
        store.files.remove(name)


def test_a_gallery_of_a_version_without_seals_is_shown(store: Store, tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    table = pa.table({"id": ["s0"], "before": [png()], "after": [png(1)]})
    pq.write_table(table, tmp_path / GALLERY)
    assert store.pictures(KEY) == [Picture("s0", png(), png(1))]
    assert problems(store) == {}


def test_no_flipped_byte_of_a_picture_is_a_png() -> None:
    whole = png()
    assert is_png(whole)
    for offset in range(len(whole)):
        broken = bytearray(whole)
        broken[offset] ^= 0x10
        assert not is_png(bytes(broken))
        assert not is_png(whole[:offset])


# tables of scores


@pytest.mark.parametrize("column", ["value", "unit", "benchmark", "model", "n", "source"])
def test_an_edited_table_of_scores_is_noticed(store: Store, tmp_path: Path, column: str) -> None:
    store.add_scores(published("multirobustbench"))
    (path,) = (tmp_path / "scores").glob("*.parquet")
    before = pq.read_table(path)
    frame = before.to_pandas()
    values = frame[column].tolist()
    values[0] = 12.5 if column == "value" else 7 if column == "n" else "points" if column == "unit" else "other"
    frame[column] = values
    edited = pa.Table.from_pandas(frame, schema=before.schema, preserve_index=False)
    pq.write_table(edited.replace_schema_metadata(before.schema.metadata), path)
    assert list(problems(store)) == [f"scores/{path.name}"]


def test_scores_under_another_name_are_left_aside(store: Store, tmp_path: Path) -> None:
    store.add_scores(published("multirobustbench"))
    (path,) = (tmp_path / "scores").glob("*.parquet")
    (tmp_path / "scores" / "multirobustbench.copy.parquet").write_bytes(path.read_bytes())
    with pytest.warns(match="copy"):
        assert len(store.scores("multirobustbench")) == 1
    assert list(problems(store)) == ["scores/multirobustbench.copy.parquet"]


def test_a_gallery_whose_rows_turn_unreadable_meanwhile_is_not_passed_over(
    pictured: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(key: str) -> Rows:
        raise CannotRead(f"cannot read rows/{key}.parquet: Input/output error")

    monkeypatch.setattr(pictured, "read_if_there", unreadable)
    found = {check.name: check for check in pictured.verify()}[GALLERY]
    assert found.problem is not None
    assert "could not be compared" in found.problem
    assert not found.is_damaged
