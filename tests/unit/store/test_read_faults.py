"""A fault of a disk says nothing about a file: it is tried again, then told; nothing is moved or taken for absent."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fsspec.exceptions import FSTimeoutError

from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.store import Footer, Rows, Store
from holdfast.store import decoding as decoding_module
from holdfast.store import files as files_module
from holdfast.store import retrying as retrying_module
from holdfast.store.files import CannotRead, CannotWrite, Damaged, Files, Foreign

CODES = (
    "EACCES",
    "EIO",
    "ESTALE",
    "EMFILE",
    "ENFILE",
    "ENOMEM",
    "ETIMEDOUT",
    "EINTR",
    "ENOTCONN",
    "EREMOTEIO",
    "EPERM",
)
KEY = "k" * 20
NAME = f"rows/{KEY}.parquet"


def coded(name: str) -> OSError:
    code = getattr(errno, name)
    return OSError(code, os.strerror(code))


FAULTS: dict[str, Callable[[], BaseException]] = {
    **{name: (lambda name=name: coded(name)) for name in CODES},  # type: ignore[misc]
    "MemoryError": MemoryError,
    "Arrow out of memory": lambda: pa.ArrowMemoryError("malloc of size 1 failed"),
    "timeout of fsspec": FSTimeoutError,
    "an exception of a client library": lambda: RuntimeError("503 Slow Down"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_module, "PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture(params=["local", "memory"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> Store:
    """A store with one run."""
    made = Store(str(tmp_path / "store") if request.param == "local" else f"memory://faults-{tmp_path.name}")
    rows = rows_for([True, False, True], footer=footer_for(key=KEY))
    made.finish([rows], rows.ids, rows.footer)
    return made


class Failing:
    """A function whose first calls fail."""

    def __init__(self, real: Callable[..., Any], fault: Callable[[], BaseException], times: float) -> None:
        self.real, self.fault, self.left, self.calls = real, fault, times, 0

    def __call__(self, *words: Any, **named: Any) -> Any:
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self.fault()
        return self.real(*words, **named)


@pytest.fixture
def fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Failing]:
    """Makes an operation of the filesystem fail so many times."""

    def make(operation: str, fault: Callable[[], BaseException], times: float = float("inf")) -> Failing:
        failing = Failing(getattr(store.files.fs, operation), fault, times)
        monkeypatch.setattr(store.files.fs, operation, failing, raising=False)
        return failing

    return make


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_is_not_noticed(store: Store, fail: Callable[..., Failing], name: str) -> None:
    failing = fail("cat_file", FAULTS[name], 2)
    assert store.has(KEY)
    assert failing.calls == 3
    assert store.read(KEY).footer.key == KEY
    assert store.files.names("damaged", "") == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_lasts_is_told_and_nothing_is_moved(store: Store, fail: Callable[..., Failing], name: str) -> None:
    before = store.files.read(NAME)
    failing = fail("cat_file", FAULTS[name])
    for ask in (lambda: store.has(KEY), lambda: store.read(KEY)):
        with pytest.raises(CannotRead, match=rf"cannot read {NAME}: \w+") as caught:
            ask()
        assert not isinstance(caught.value, Damaged)
        assert "nothing was moved or measured again" in str(caught.value)
    failing.left = 0
    assert store.files.read(NAME) == before
    assert store.files.names("damaged", "") == []


def test_the_words_of_the_disk_are_told(store: Store, fail: Callable[..., Failing]) -> None:
    fail("cat_file", lambda: coded("EACCES"))
    with pytest.raises(CannotRead, match=f"^cannot read {NAME}: Permission denied"):
        store.read(KEY)


@pytest.mark.parametrize("times", [1, 2, float("inf")])
def test_a_fault_in_the_file_layer_itself_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    monkeypatch.setattr(Files, "read", Failing(lambda name: b"never", lambda: coded("ESTALE"), times).__call__)
    with pytest.raises(HoldfastError):
        store.read(KEY)
    monkeypatch.undo()
    assert store.has(KEY)


@pytest.mark.parametrize("times", [1, 2, 100])
def test_a_short_read_is_a_fault_and_no_damage(store: Store, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    real, left = store.files.fs.cat_file, [times]

    def cut(path: str, **named: Any) -> bytes:
        left[0] -= 1
        data = bytes(real(path, **named))
        return data[: len(data) // 2] if left[0] >= 0 else data

    monkeypatch.setattr(store.files.fs, "cat_file", cut)
    if times < 4:
        assert store.has(KEY)
    else:
        with pytest.raises(CannotRead, match=r"cannot read .*: [\d,]+ of [\d,]+ bytes came"):
            store.has(KEY)
    assert store.files.names("damaged", "") == []
    assert store.files.exists(NAME)


def test_bytes_that_change_from_reading_to_reading_are_no_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cable, not a file: damage is what two readings agree on."""
    real, count = store.files.fs.cat_file, [0]

    def flipped(path: str, **named: Any) -> bytes:
        data = bytearray(real(path, **named))
        count[0] += 1
        data[40 + count[0]] ^= 0xFF
        return bytes(data)

    monkeypatch.setattr(store.files.fs, "cat_file", flipped)
    with pytest.raises(CannotRead, match="every reading gives other bytes"):
        store.has(KEY)
    monkeypatch.undo()
    assert store.has(KEY)


def test_damage_is_moved_after_two_readings(store: Store, fail: Callable[..., Failing]) -> None:
    store.files.fs.pipe_file(store.files.path(NAME), store.files.read(NAME)[:-100])
    counted = fail("cat_file", MemoryError, 0)
    with pytest.warns(HoldfastWarning, match="moved to damaged/"):
        assert not store.has(KEY)
    assert counted.calls == 2


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError])
def test_no_memory_to_unpack_rows_is_a_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr(decoding_module, "rows_digest", Failing(decoding_module.rows_digest, error, float("inf")))
    with pytest.raises(CannotRead, match="out of memory"):
        store.has(KEY)
    assert store.files.exists(NAME)


@pytest.mark.parametrize("name", CODES)
def test_a_run_that_cannot_be_looked_up_is_not_absent(
    store: Store, fail: Callable[..., Failing], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if store.files.is_local:
        monkeypatch.setattr(files_module.os, "stat", Failing(os.stat, lambda: coded(name), float("inf")))
    else:
        fail("info", lambda: coded(name))
    with pytest.raises(CannotRead):
        store.has(KEY)


@pytest.mark.parametrize("name", CODES)
def test_a_folder_that_cannot_be_listed_is_not_empty(
    store: Store, fail: Callable[..., Failing], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def broken(times: float) -> None:
        if store.files.is_local:
            monkeypatch.setattr(files_module.os, "scandir", Failing(os.scandir, lambda: coded(name), times))
        else:
            fail("ls", lambda: coded(name), times)

    real = store.files.fs.ls
    broken(float("inf"))
    for ask in (store.footers, store.unfinished, store.verify, store.scores, lambda: store.parts(KEY)):
        with pytest.raises(CannotRead, match="cannot read"):
            ask()
    monkeypatch.undo()
    monkeypatch.setattr(retrying_module, "PAUSES", (0.0, 0.0, 0.0))
    store.files.fs.ls = real
    broken(2)
    assert list(store.footers()) == [KEY]


def test_runs_that_cannot_be_read_are_left_out_and_tried_again(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = rows_for([True], footer=footer_for(key="o" * 20))
    store.finish([other], other.ids, other.footer)
    real_tail, real_read = Files.tail, Files.read

    def refuse(real: Any) -> Any:
        def asked(self: Files, name: str, *size: int) -> bytes:
            if name == NAME:
                raise coded("EIO")
            return bytes(real(self, name, *size))

        return asked

    monkeypatch.setattr(Files, "tail", refuse(real_tail))
    monkeypatch.setattr(Files, "read", refuse(real_read))
    reader = Store(store.url)
    assert list(reader.footers()) == ["o" * 20]
    assert "Input/output error" in reader.damaged()[NAME].problem
    monkeypatch.setattr(Files, "tail", real_tail)
    monkeypatch.setattr(Files, "read", real_read)
    assert len(reader.footers()) == 2
    assert reader.damaged() == {}


def test_a_store_of_which_nothing_can_be_read_is_not_empty(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Files, name: str, *size: int) -> bytes:
        raise coded("EACCES")

    monkeypatch.setattr(Files, "tail", refused)
    monkeypatch.setattr(Files, "read", refused)
    with pytest.raises(CannotRead, match="Permission denied"):
        Store(store.url).footers()


def test_a_part_that_cannot_be_read_is_not_measured_again(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], fail: Callable[..., Failing]
) -> None:
    store.add_part(rows_for([True], footer=footer_for(key="p" * 20)))
    failing = fail("cat_file", lambda: coded("EIO"))
    with pytest.raises(CannotRead):
        store.parts("p" * 20)
    with pytest.warns(HoldfastWarning, match="left aside: cannot read parts/"):
        assert store.unfinished() == {}, "who only reads goes on"
    failing.left = 0
    assert len(store.parts("p" * 20)) == 1


def test_a_file_that_vanishes_meanwhile_is_no_error(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_part(rows_for([True], footer=footer_for(key="p" * 20)))
    listed = {folder: store.files.listing(folder, ".parquet") for folder in ("rows", "parts", "scores", "gallery")}
    store.files.remove(NAME)
    store.files.remove(f"parts/{'p' * 20}")
    monkeypatch.setattr(Files, "listing", lambda self, folder, suffix: listed[folder.split("/")[0]])
    assert store.parts("p" * 20) == []
    assert store.unfinished() == {}
    assert store.footers() == {}
    assert store.verify() == []


# writing


@pytest.mark.parametrize("name", ["EIO", "ESTALE", "EINTR", "ETIMEDOUT", "EACCES"])
@pytest.mark.parametrize("operation", ["makedirs", "pipe_file", "mv", "fsync", "replace"])
def test_a_write_is_tried_again(
    store: Store, fail: Callable[..., Failing], monkeypatch: pytest.MonkeyPatch, name: str, operation: str
) -> None:
    if operation in ("fsync", "replace"):
        real = getattr(os, operation)
        monkeypatch.setattr(files_module.os, operation, Failing(real, lambda: coded(name), 2))
    else:
        fail(operation, lambda: coded(name), 2)
    store.files.write("rows/new.parquet", b"whole")
    monkeypatch.undo()
    assert store.files.read("rows/new.parquet") == b"whole"
    assert store.files.leftovers() == []


def test_a_write_that_fails_leaves_the_old_file_and_no_half_one(store: Store, fail: Callable[..., Failing]) -> None:
    before = store.files.read(NAME)
    fail("makedirs", lambda: coded("EIO"))
    with pytest.raises(CannotWrite, match=r"cannot write .*: Input/output error"):
        store.files.write(NAME, b"half")
    assert store.files.read(NAME) == before
    assert store.files.leftovers() == []


def test_a_folder_that_is_removed_while_it_is_written_to_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    missing = lambda: FileNotFoundError(errno.ENOENT, "No such file or directory")  # noqa: E731
    monkeypatch.setattr(files_module.os, "replace", Failing(os.replace, missing, 1))
    store.files.write("parts/a/b.parquet", b"whole")
    assert store.files.read("parts/a/b.parquet") == b"whole"


def test_a_run_is_done_though_its_parts_cannot_be_removed(
    store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_for([True], footer=footer_for(key="p" * 20))
    store.add_part(rows)
    monkeypatch.setattr(Files, "remove", Failing(Files.remove, lambda: coded("EBUSY"), float("inf")).__call__)
    with pytest.warns(HoldfastWarning, match="the run is done without it"):
        store.finish([rows], rows.ids, rows.footer)
    assert store.has("p" * 20)
    assert store.unfinished() == {}


def test_what_is_no_file_is_told_at_once_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    (tmp_path / "rows" / f"{KEY}.parquet").mkdir(parents=True)
    monkeypatch.setattr(retrying_module.time, "sleep", lambda _: pytest.fail("waiting does not make it a file"))
    with pytest.raises(Foreign, match="it is a folder or a device, not a file"):
        store.has(KEY)
    assert (tmp_path / "rows" / f"{KEY}.parquet").is_dir()


def test_a_disk_that_is_gone_is_not_waited_for_at_every_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_module, "PAUSES", (1.0, 1.0))
    waited: list[float] = []
    monkeypatch.setattr(retrying_module.time, "sleep", waited.append)
    monkeypatch.setattr(Files, "read", Failing(Files.read, lambda: coded("EIO"), float("inf")).__call__)
    for _ in range(20):
        with pytest.raises(CannotRead):
            store.files.read(NAME)
    assert sum(waited) == 2 * retrying_module.PATIENCE


def test_sound_rows_that_another_worker_put_in_place_of_damage_are_not_moved(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = store.files.read(NAME)
    store.files.write(NAME, whole[:-50])
    real = store.rows_in

    def meanwhile(name: str) -> Rows:
        try:
            return real(name)
        finally:
            store.files.write(NAME, whole)

    monkeypatch.setattr(store, "rows_in", meanwhile)
    assert store.has(KEY)
    assert store.files.names("damaged", "") == []


def test_what_was_imported_and_is_damaged_is_kept_anew(tmp_path: Path, rows_for: Callable[..., Rows]) -> None:
    from holdfast.store.published import published

    store, rows = Store(str(tmp_path)), rows_for([True, False])
    for add in (lambda: store.add_rows(rows), lambda: store.add_scores(published("multirobustbench"))):
        assert add()
        assert not add()
    for name in store.files.names("rows", ".parquet") + store.files.names("scores", ".parquet"):
        store.files.write(name, store.files.read(name)[:-50])
    for add in (lambda: store.add_rows(rows), lambda: store.add_scores(published("multirobustbench"))):
        with pytest.warns(HoldfastWarning, match="moved to damaged/"):
            assert add()
    assert [finding.problem for finding in store.verify()] == [None, None]
