"""The index: derived from the files, in step with them, and never needed for being right."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.core.types import Flag
from holdfast.metrics.summary import line, lines
from holdfast.store import ChangeRecord, Footer, Rows, Store
from holdfast.store import index as index_module
from holdfast.store.store import Damaged

Make = Callable[..., Footer]
MakeRows = Callable[..., Rows]


@pytest.fixture(params=["local", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "local" else f"memory://index-{tmp_path.name}"


@pytest.fixture
def add(url: str, rows_for: MakeRows, footer_for: Make) -> Callable[..., Rows]:
    """Adds a run as another process would: through a store of its own."""

    def make(key: str, right: list[bool], **more: object) -> Rows:
        footer = footer_for(key=key * 20, **more)
        rows = rows_for(right, footer=footer)
        return Store(url).finish([rows], rows.ids, footer)

    return make


def test_footers_through_the_index_are_those_of_the_files(url: str, add: Callable[..., Rows]) -> None:
    change = ChangeRecord("attack", "pgd", 2, "pgd:steps=3", {"steps": 3, "radius": 0.1, "norm": None})
    rich = {
        "changes": (change,),
        "flags": (Flag("name", "note", "why ü"),),
        "facts": {"rows taken over from": "x"},
        "tallies": {"restarts": 3},
        "versions": {"torch": "2"},
        "samples": 3,
        "precision": 0.01,
        "seconds": 1.5,
        "classes": ("a", "b"),
    }
    made = [add("a", [True, False]), add("b", [True], model="other", **rich), add("c", [False], **rich)]
    whole = {rows.footer.key: rows.footer for rows in made}
    assert Store(url).footers() == whole
    assert Store(url).files.exists("index.parquet")
    reader = Store(url)
    reader.index.read = lambda name: pytest.fail(f"{name} is in the index")
    assert reader.footers() == whole


def test_what_others_write_change_and_remove_is_noticed(url: str, add: Callable[..., Rows]) -> None:
    store = Store(url)
    add("a", [True, False])
    assert [footer.right for footer in store.footers().values()] == [1]
    add("b", [True])
    assert len(store.footers()) == 2
    changed = add("a", [True, True, True])
    assert store.footers()["a" * 20] == changed.footer
    assert Store(url).footers()["a" * 20] == changed.footer, "also by who comes with the index of before"
    store.files.remove(f"rows/{'b' * 20}.parquet")
    assert list(store.footers()) == ["a" * 20]


def test_the_table_is_written_anew_only_when_it_was_worth_it(
    url: str, add: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "WORTH", 3)
    for key in "abcd":
        add(key, [True])
    store = Store(url)
    store.footers()
    before = store.files.read("index.parquet")
    add("e", [True])
    assert len(store.footers()) == 5
    assert store.files.read("index.parquet") == before
    assert len(Store(url).footers()) == 5, "what the table lacks is read from the files"
    add("f", [True])
    add("g", [True])
    assert len(store.footers()) == 7
    assert store.files.read("index.parquet") != before


def test_a_large_folder_is_not_listed_at_every_question(
    url: str, add: Callable[..., Rows], rows_for: MakeRows, footer_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "FEW", 0)
    monkeypatch.setattr(index_module, "REST", float("inf"))
    store = Store(url)
    add("a", [True], family="same")
    assert len(store.footers()) == 1
    store.index.took = 1.0
    add("b", [True])
    assert len(store.footers()) == 1, "what others do is seen a little later"
    footer = footer_for(key="c" * 20, family="same")
    rows = rows_for([False], footer=footer)
    store.finish([rows], rows.ids, footer)
    assert set(store.footers()) == {"a" * 20, "c" * 20}, "what this store does, at once"
    found = store.siblings(footer_for(key="d" * 20, family="same"))
    assert [rows.footer.key for rows in found] == ["a" * 20, "c" * 20]
    store.index.took = 0.0
    monkeypatch.setattr(index_module, "REST", 0)
    assert len(store.footers()) == 3


def test_a_sibling_that_is_gone_is_passed_over(
    url: str, add: Callable[..., Rows], footer_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "FEW", 0)
    monkeypatch.setattr(index_module, "REST", float("inf"))
    add("a", [True], family="same")
    store = Store(url)
    store.footers()
    store.index.took = 1.0
    Store(url).files.remove(f"rows/{'a' * 20}.parquet")
    assert store.siblings(footer_for(key="d" * 20, family="same")) == []
    assert store.footers() == {}


def test_an_index_that_cannot_be_used_is_made_again(url: str, add: Callable[..., Rows]) -> None:
    add("a", [True])
    store = Store(url)
    whole = store.footers()
    table = pq.read_table(io.BytesIO(store.files.read("index.parquet")))
    older = io.BytesIO()
    pq.write_table(table.drop_columns(["right"]), older)
    for content in (older.getvalue(), b"", b"PAR1", store.files.read("index.parquet")[:-20]):
        store.files.fs.pipe_file(store.files.path("index.parquet"), content)
        assert Store(url).footers() == whole


def test_a_store_that_cannot_be_written_to_can_be_read(
    tmp_path: Path, rows_for: MakeRows, footer_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, footer = Store(str(tmp_path)), footer_for(key="a" * 20)
    rows = rows_for([True], footer=footer)
    store.finish([rows], rows.ids, footer)
    reader = Store(str(tmp_path))

    def refuse(name: str, data: bytes) -> None:
        from holdfast.core.errors import HoldfastError

        raise HoldfastError("read-only")

    monkeypatch.setattr(reader.files, "write", refuse)
    assert list(reader.footers()) == ["a" * 20]


def test_a_file_without_a_footer_is_left_out_and_told(url: str, add: Callable[..., Rows]) -> None:
    add("a", [True])
    store = Store(url)
    store.files.fs.pipe_file(store.files.path("rows/broken.parquet"), b"half a file")
    assert list(store.footers()) == ["a" * 20]
    (error,) = store.damaged().values()
    assert isinstance(error, Damaged)
    assert "rows/broken.parquet is not a whole Parquet file" in error.problem
    store.files.remove("rows/broken.parquet")
    assert store.damaged() == {}


def test_a_long_footer_is_read_too(url: str, add: Callable[..., Rows]) -> None:
    made = add("a", [True], classes=tuple(f"class {i}" for i in range(20_000)))
    assert Store(url).footers()["a" * 20] == made.footer


def test_scores_from_footers_are_those_from_rows(url: str, add: Callable[..., Rows], rows_for: MakeRows) -> None:
    add("a", [True, False, True])
    add("b", [False, False], model="other")
    store = Store(url)
    reader = Store(url)
    reader.read = lambda key: pytest.fail("no row is needed")  # type: ignore[method-assign]
    assert lines(reader) == [line(store.read(key)) for key in sorted(store.footers())]


def test_rows_of_a_version_that_did_not_count_are_counted(url: str, add: Callable[..., Rows]) -> None:
    made = add("a", [True, False, True])
    store = Store(url)
    older = replace(made.footer, right=None, in_top5=None, failed=None)
    sink = io.BytesIO()
    pq.write_table(made.table.replace_schema_metadata(older.to_metadata()), sink)
    store.files.write(f"rows/{'a' * 20}.parquet", sink.getvalue())
    (counted,) = lines(Store(url))
    assert (counted.accuracy.value, counted.accuracy.n, counted.failed) == (2 / 3, 3, 0)
    assert [finding.problem for finding in store.verify()] == [None]


def test_verify_tells_a_footer_that_miscounts(url: str, add: Callable[..., Rows]) -> None:
    made = add("a", [True, False, True])
    store = Store(url)
    sink = io.BytesIO()
    pq.write_table(made.table.replace_schema_metadata(replace(made.footer, right=3).to_metadata()), sink)
    store.files.write(f"rows/{'a' * 20}.parquet", sink.getvalue())
    assert [finding.problem for finding in store.verify()] == [f"rows/{'a' * 20}.parquet miscounts its rows"]
