from __future__ import annotations

import gzip
import hashlib
import io
import multiprocessing
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.datasets import getting
from holdfast.datasets.downloads import Download, File, Form, Mirror, is_whole
from holdfast.datasets.getting import get_files

CONTENT = np.random.default_rng(0).bytes(700_000)
OTHER = b"the other file"


def sha(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


FILES = (File("a", sha(CONTENT)), File("b/c", sha(OTHER)))


def tgz(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


PACKAGE = tgz({"package/b/c": OTHER, "package/setup.js": b"evil()", "package/a": CONTENT, "../../escape": b"no"})


def one(*given: Mirror, files: tuple[File, ...] = FILES) -> Download:
    return Download("one", (Form(files, given),))


def left(root: Path) -> set[str]:
    return {str(path.relative_to(root / "one")) for path in (root / "one").rglob("*") if path.is_file()} - {".lock"}


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name, found first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.log\n{script}\n')
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_files_with_addresses_of_their_own_are_unpacked_and_named(root: Path, web: Any) -> None:
    web.content = {"/x/a.gz": gzip.compress(CONTENT), "/x/b/c.gz": gzip.compress(OTHER)}
    got = get_files(one(Mirror(f"{web.url}/x/{{name}}.gz")))
    assert got.mirror == f"{web.url}/x/{{name}}.gz"
    assert left(root) == {"a", "b/c"}
    assert (root / "one" / "a").read_bytes() == CONTENT


def test_an_archive_gives_the_wanted_members_and_no_others(root: Path, web: Any) -> None:
    web.content = {"/x.tar.gz": PACKAGE}
    get_files(one(Mirror(f"{web.url}/x.tar.gz", "package/{name}", sha(PACKAGE))))
    assert left(root) == {"a", "b/c"}
    assert not list(root.parent.rglob("escape"))


@pytest.mark.parametrize("breaks", [[0], [1], [131_072], [699_999], [200_000, 300_000], [5, 100, 10, 400_000]])
def test_a_download_that_breaks_off_goes_on_where_it_stopped(root: Path, web: Any, breaks: list[int]) -> None:
    web.content, web.breaks = {"/a": CONTENT}, list(breaks)
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    if breaks == [0]:  # nothing came: that is no progress, so the next call tries again
        with pytest.raises(HoldfastError, match="broke off after 0 of 700000 bytes"):
            get_files(download)
    get_files(download)
    assert (root / "one" / "a").read_bytes() == CONTENT
    starts = np.cumsum([0, *breaks])
    assert [expected for _, expected in web.asked] == [f"bytes={start}-" if start else None for start in starts]


def test_a_later_call_takes_up_what_an_earlier_one_left(root: Path, web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getting, "MOST_RESUMES", 1)
    web.content, web.breaks = {"/a": CONTENT}, [123_456]
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    with pytest.raises(HoldfastError, match="broke off after 123456 of 700000 bytes"):
        get_files(download)
    assert {Path(name).suffix for name in left(root)} == {".part"}
    get_files(download)
    assert web.asked[-1] == ("/a", "bytes=123456-")
    assert left(root) == {"a"}


def test_a_server_without_ranges_is_read_from_the_start(root: Path, web: Any) -> None:
    web.content, web.breaks, web.ranges = {"/a": CONTENT}, [1000], False
    get_files(one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1]))
    assert (root / "one" / "a").read_bytes() == CONTENT


def broken_off(root: Path, download: Download, part: bytes) -> None:
    """Leaves `part` as what an earlier call had downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(getting, "MOST_RESUMES", 1)
        with pytest.raises(HoldfastError, match="broke off"):
            get_files(download)
    next((root / "one").glob("*.part")).write_bytes(part)


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"])
def test_a_part_that_is_whole_already_or_too_long_does_no_harm(root: Path, web: Any, part: bytes) -> None:
    web.content, web.breaks = {"/a": CONTENT}, [100]
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    broken_off(root, download, part)
    get_files(download)
    assert (root / "one" / "a").read_bytes() == CONTENT


def test_a_stale_part_is_caught_by_the_checksum_and_nothing_of_it_kept(root: Path, web: Any) -> None:
    web.content, web.breaks = {"/a": CONTENT}, [100]
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    broken_off(root, download, b"stale" * 100)
    with pytest.raises(HoldfastError, match="wrong checksum"):
        get_files(download)
    assert left(root) == set()
    get_files(download)
    assert (root / "one" / "a").read_bytes() == CONTENT


def test_mirrors_are_tried_in_turn_until_one_has_the_right_content(root: Path, web: Any) -> None:
    web.content = {"/wrong/a": b"tampered", "/right/a": CONTENT, "/never/a": CONTENT}
    listed = [Mirror(f"{web.url}/{name}/{{name}}") for name in ("gone", "wrong", "right", "never")]
    assert get_files(one(*listed, files=FILES[:1])).mirror == listed[2].where
    assert [path for path, _ in web.asked] == ["/gone/a", "/wrong/a", "/right/a"]


def test_forms_are_tried_in_turn_too(root: Path, web: Any) -> None:
    web.content = {"/c": OTHER}
    first = Form(FILES[:1], (Mirror(f"{web.url}/{{name}}"),))
    second = Form((File("c", sha(OTHER)),), (Mirror(f"{web.url}/{{name}}"),))
    get_files(Download("one", (first, second)))
    assert left(root) == {"c"}


def test_a_wrong_checksum_keeps_nothing_and_says_both(root: Path, web: Any) -> None:
    web.content = {"/a": b"tampered", "/b/c": OTHER}
    with pytest.raises(HoldfastError) as error:
        get_files(one(Mirror(f"{web.url}/{{name}}")))
    assert sha(CONTENT) in error.value.problem
    assert sha(b"tampered") in error.value.problem
    assert left(root) == set()


def test_one_wrong_file_of_several_keeps_none_of_them(root: Path, web: Any) -> None:
    web.content = {"/a": CONTENT, "/b/c": b"tampered"}
    with pytest.raises(HoldfastError, match="b/c has a wrong checksum"):
        get_files(one(Mirror(f"{web.url}/{{name}}")))
    assert left(root) == set()


def test_a_file_may_be_known_by_the_checksum_of_its_packed_form_alone(root: Path, web: Any) -> None:
    packed = gzip.compress(CONTENT)
    web.content = {"/x.tar.gz": packed}
    form = Form((File("x.tar", ""),), (Mirror(f"{web.url}/{{name}}.gz", checksum=sha(packed)),))
    get_files(Download("one", (form,)))
    assert (root / "one" / "x.tar").read_bytes() == CONTENT
    web.content = {"/x.tar.gz": gzip.compress(OTHER)}
    with pytest.raises(HoldfastError, match="wrong checksum: expected sha256:"):
        get_files(Download("one", (form,)), force=True)
    assert (root / "one" / "x.tar").read_bytes() == CONTENT


def test_a_wrong_archive_is_not_even_opened(root: Path, web: Any) -> None:
    web.content = {"/x.tar.gz": PACKAGE}
    with pytest.raises(HoldfastError, match="wrong checksum: expected md5:00, got md5:"):
        get_files(one(Mirror(f"{web.url}/x.tar.gz", "package/{name}", "md5:00")))
    assert left(root) == set()


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tgz({"package/a": CONTENT}), "has no file package/b/c"),
        (b"no archive", "could not be opened"),
        (PACKAGE[:-50000], ""),
    ],
)
def test_a_broken_archive_is_what_its_mirror_said(root: Path, web: Any, archive: bytes, message: str) -> None:
    web.content = {"/x.tgz": archive}
    with pytest.raises(HoldfastError, match=rf"{web.url}/x\.tgz: .*{message}"):
        get_files(one(Mirror(f"{web.url}/x.tgz", "package/{name}")))
    assert left(root) == set()


def test_a_file_that_was_right_survives_a_failed_force(root: Path, web: Any) -> None:
    web.content = {"/a": CONTENT}
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    get_files(download)
    web.content = {"/a": b"tampered"}
    with pytest.raises(HoldfastError):
        get_files(download, force=True)
    assert is_whole(download)


def test_what_is_here_and_right_is_not_fetched_again_and_what_is_damaged_is(root: Path, web: Any) -> None:
    web.content = {"/a": CONTENT}
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    assert get_files(download).mirror is not None
    assert get_files(download).mirror is None
    assert len(web.asked) == 1
    (root / "one" / "a").write_bytes(b"damaged")
    assert get_files(download).mirror is not None
    assert is_whole(download)


def test_all_failing_is_one_error_with_what_each_mirror_said(root: Path, web: Any) -> None:
    with pytest.raises(HoldfastError) as error:
        get_files(one(Mirror(f"{web.url}/{{name}}"), Mirror("http://127.0.0.1:1/{name}"), files=FILES[:1]))
    message = error.value.problem.splitlines()
    assert len(message) == 3
    assert "answered 404" in message[1]
    assert "could not be reached" in message[2]
    assert str(root / "one") in str(error.value.hint)


@pytest.mark.parametrize("by", ["option", "environment"])
def test_offline_asks_nobody_and_says_so(root: Path, web: Any, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "environment":
        monkeypatch.setenv("HOLDFAST_OFFLINE", "1")
    web.content = {"/a": CONTENT}
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    with pytest.raises(HoldfastError, match="network must not be used"):
        get_files(download, offline=by == "option")
    assert web.asked == []
    (root / "one").mkdir(parents=True)
    (root / "one" / "a").write_bytes(CONTENT)
    assert get_files(download, offline=True).mirror is None


def test_npm_packs_a_tarball_and_never_installs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").write_bytes(PACKAGE)
    tool(tmp_path / "bin", "npm", f"cp {tmp_path}/package pkg-1.0.0.tgz", monkeypatch)
    got = get_files(one(Mirror("npm:pkg@1.0.0", "package/{name}", sha(PACKAGE))))
    assert got.mirror == "npm:pkg@1.0.0"
    assert left(root) == {"a", "b/c"}
    assert (tmp_path / "bin" / "npm.log").read_text().startswith("pack pkg@1.0.0 --ignore-scripts")


def test_a_debian_package_is_downloaded_and_unpacked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.gz").write_bytes(gzip.compress(OTHER))
    tool(tmp_path / "bin", "apt-get", "echo deb > pkg_1_all.deb", monkeypatch)
    unpack = f"mkdir -p content/usr/share/b && cp {tmp_path}/c.gz content/usr/share/b/c.gz"
    tool(tmp_path / "bin", "dpkg-deb", unpack, monkeypatch)
    get_files(one(Mirror("deb:pkg", "usr/share/{name}.gz"), files=FILES[1:]))
    assert left(root) == {"b/c"}
    with pytest.raises(HoldfastError, match=r"the package has no usr/share/a\.gz"):
        get_files(one(Mirror("deb:pkg", "usr/share/{name}.gz")))


def test_a_tool_that_is_missing_or_fails_is_what_its_mirror_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "bin", "npm", "echo first; echo 'code E404' >&2; exit 1", monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(HoldfastError) as error:
        get_files(one(Mirror("npm:pkg@1", "{name}"), Mirror("deb:pkg", "{name}")))
    assert "`npm pack` failed: code E404" in error.value.problem
    assert "needs `apt-get`, which is not installed" in error.value.problem
    assert left(root) == set()


def test_progress_rises_to_the_whole(root: Path, web: Any) -> None:
    web.content, web.breaks = {"/a": CONTENT}, [300_000]
    seen: list[tuple[int, int | None]] = []
    get_files(
        one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1]),
        progress=lambda what, done, total: seen.append((done, total)),
    )
    assert seen[-1] == (700_000, 700_000)
    assert sorted(seen) == seen
    assert {total for _, total in seen} == {700_000}


def test_two_who_want_the_same_take_turns_and_fetch_once(root: Path, web: Any) -> None:
    web.content = {"/a": CONTENT}
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    threads = [threading.Thread(target=get_files, args=(download,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_whole(download)
    assert len(web.asked) == 1


def _killed_before_the_rename(download: Download) -> None:
    Path.replace = lambda self, target: os._exit(9)  # type: ignore[method-assign,assignment]
    get_files(download)


def test_a_process_killed_before_the_rename_leaves_no_file_under_its_name(root: Path, web: Any) -> None:
    web.content = {"/a": CONTENT}
    download = one(Mirror(f"{web.url}/{{name}}"), files=FILES[:1])
    process = multiprocessing.get_context("fork").Process(target=_killed_before_the_rename, args=(download,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert not (root / "one" / "a").exists()
    assert get_files(download).mirror is not None
    assert left(root) == {"a"}
