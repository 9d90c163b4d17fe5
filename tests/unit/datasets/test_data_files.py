from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.home import data_home
from holdfast.datasets import downloads as files
from holdfast.datasets.downloads import Download, File, Form, Mirror, downloads, is_whole, verify_files
from holdfast.datasets.getting import get_files

CONTENT = b"the content"
SHA = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
ONE = Download("one", (Form((File("a", SHA), File("b/c", MD5)), (Mirror("https://nowhere/{name}"),)),))


def put(root: Path, name: str, content: bytes = CONTENT) -> None:
    path = root / "one" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def test_the_root_is_the_environments_or_the_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_home() == root
    monkeypatch.setenv("HOLDFAST_DATA", "~/elsewhere")
    assert data_home() == Path.home() / "elsewhere"
    monkeypatch.delenv("HOLDFAST_DATA")
    assert data_home() == Path.home() / ".cache" / "holdfast" / "data"


def test_state_goes_from_missing_over_partly_to_here(root: Path) -> None:
    assert ONE.state == "missing"
    put(root, "a")
    assert ONE.state == "partly"
    put(root, "b/c.gz")
    assert ONE.state == "here"


def test_checksums_are_of_the_content_whether_packed_or_not(root: Path) -> None:
    put(root, "a.gz")
    put(root, "b/c")
    assert [checked.state for checked in verify_files(ONE)] == ["ok", "ok"]
    assert is_whole(ONE)


def test_damaged_and_missing_files_are_told_apart(root: Path) -> None:
    put(root, "a", b"other content")
    damaged, missing = verify_files(ONE)
    assert (damaged.state, damaged.expected) == ("damaged", SHA)
    assert damaged.got == "sha256:" + hashlib.sha256(b"other content").hexdigest()
    assert (missing.state, missing.path) == ("missing", root / "one" / "b/c")
    assert not is_whole(ONE)


def test_a_broken_gz_is_damaged_and_not_an_exception(root: Path) -> None:
    put(root, "a.gz")
    (root / "one" / "a.gz").write_bytes(gzip.compress(CONTENT)[:-4])
    assert verify_files(ONE)[0].state == "damaged"


def test_a_place_beside_the_root_counts(root: Path, tmp_path: Path) -> None:
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "a").write_bytes(CONTENT)
    download = Download("one", (Form((File("a", SHA),)),), roots=(tmp_path / "system",))
    assert (download.state, download.home) == ("here", tmp_path / "system")
    put(root, "a")
    assert download.home == root / "one"


def test_a_file_without_a_published_checksum_is_said_to_be_unchecked(root: Path) -> None:
    put(root, "a")
    assert verify_files(Download("one", (Form((File("a", ""),)),)))[0].state == "unchecked"


def test_any_whole_form_will_do(root: Path) -> None:
    two = Download("one", (Form((File("a", SHA), File("b", SHA))), Form((File("c", SHA),))))
    put(root, "a")
    put(root, "c")
    assert is_whole(two)


def test_an_unknown_dataset_is_misuse_with_the_closest_name() -> None:
    with pytest.raises(Misuse, match="cifra10") as error:
        downloads(["cifra10"])
    assert "cifar10" in str(error.value.hint)


def test_every_published_file_has_a_checksum_of_the_right_length_and_a_way_to_get_it() -> None:
    lengths = {"sha256": 64, "md5": 32}
    for download in downloads():
        assert download.licence
        for form in download.forms:
            for file in form.files:
                method, _, digest = file.checksum.partition(":")
                packed = bool(form.mirrors) and all(mirror.checksum for mirror in form.mirrors)
                assert not form.mirrors or packed or len(digest) == lengths[method], f"{download.name} {file.name}"
            for mirror in form.mirrors:
                kind = mirror.where.partition(":")[0]
                assert "{name}" in mirror.where + mirror.inside, mirror
                assert kind != "npm" or mirror.checksum, "a pinned package has a pinned tarball"


BY_HAND = Download("one", (), folders=("val", "other/val"), by_hand="sign a form")


def test_a_set_to_bring_by_hand_is_here_once_its_folder_holds_something(root: Path) -> None:
    with pytest.raises(HoldfastError, match="`one` has to be brought by hand") as error:
        get_files(BY_HAND)
    assert str(error.value.hint) == f"sign a form; put it into {root / 'one'}"
    assert (BY_HAND.state, BY_HAND.bundled, BY_HAND.origin) == ("missing", False, "sign a form")
    (root / "one" / "other" / "val").mkdir(parents=True)
    assert BY_HAND.state == "missing"
    put(root, "other/val/a")
    assert BY_HAND.state == "here"
    assert get_files(BY_HAND).folder == root / "one"
    assert "sign a form" in str(BY_HAND.missing("val").hint)
    assert verify_files(BY_HAND) == []


def test_a_file_that_is_called_gz_is_checked_as_it_lies(root: Path) -> None:
    kept = Download("one", (Form((File("x.tar.gz", SHA),), (Mirror("https://nowhere/{name}"),)),))
    (root / "one").mkdir(parents=True)
    (root / "one" / "x.tar.gz").write_bytes(CONTENT)
    assert [file.state for file in verify_files(kept)] == ["ok"]
    assert (kept.origin, files.downloads(["fashion-mnist-2k"])[0].origin) == ("https://nowhere/{name}", "bundled")


def test_a_dataset_is_published_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "catalogue", {})
    assert files.register_download("one", *ONE.forms) == files.catalogue["one"] == ONE
