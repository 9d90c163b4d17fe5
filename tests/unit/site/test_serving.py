"""The pages over HTTP: the files of the build and nothing else, read-only, on this machine."""

from __future__ import annotations

import http.client
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from synthetic import add, fog

from holdfast.cli import pages as commands
from holdfast.core.errors import HoldfastError
from holdfast.site import serve as serve_module
from holdfast.site.build import Site
from holdfast.site.serve import Pages, server
from holdfast.store import retrying as retrying_module
from holdfast.store.files import Files
from holdfast.store.store import Store


class Served:
    """A running server, and what it told of its builds."""

    def __init__(self, store: Store, host: str = "127.0.0.1") -> None:
        self.told: list[Site] = []
        self.pages = Pages(store, told=self.told.append, pause=0.05)
        self.bound = server(self.pages, host=host, port=0)
        self.port = int(self.bound.server_address[1])
        self.thread = threading.Thread(target=self.bound.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer, data

    def close(self) -> None:
        self.bound.shutdown()
        self.bound.server_close()
        self.pages.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = Store(str(tmp_path_factory.mktemp("served") / "store"))
    add(store, 0.9)
    made = Served(store)
    yield made
    made.close()


def test_pages_are_served_with_their_types(served: Served) -> None:
    for path, kind in (
        ("/", "text/html; charset=utf-8"),
        ("/index.html?x=1", "text/html; charset=utf-8"),
        ("/assets/board.js", "text/javascript; charset=utf-8"),
        ("/downloads/imagenet-testbed.csv", "text/csv; charset=utf-8"),
        ("/models/resnet18.html", "text/html; charset=utf-8"),
    ):
        answer, data = served.ask(path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, kind), path
        assert data
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "Python" not in answer.headers["Server"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/assets/../../../../etc/passwd",
        "//etc/passwd",
        "/assets/..%5c..%5cetc",
        "/holdfast-site.json",
        "/.hidden",
        "/.git/config",
        "/assets",
        "/boards/",
        "/index.html%00.js",
        "/%ff%fe",
        "/" + "a" * 3000,
    ],
)
def test_nothing_but_the_build_is_served(served: Served, path: str) -> None:
    answer, data = served.ask(path)
    assert (answer.status, data) == (404, b"no such page\n")


def test_what_appears_in_the_folder_later_is_not_served(served: Served, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (served.pages.built.out / "link.html").symlink_to(secret)
    (served.pages.built.out / "more.html").write_text("more")
    assert served.ask("/link.html")[0].status == 404
    assert served.ask("/more.html")[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(served: Served, method: str) -> None:
    answer, _ = served.ask("/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_head_gives_the_headers_of_get_without_the_page(served: Served) -> None:
    got, data = served.ask("/")
    head, nothing = served.ask("/", "HEAD")
    assert (head.status, nothing) == (200, b"")
    assert head.headers["Content-Length"] == str(len(data)) == got.headers["Content-Length"]


def test_an_unchanged_page_is_not_sent_twice(served: Served) -> None:
    first, _ = served.ask("/assets/tabulator.min.js")
    again, data = served.ask("/assets/tabulator.min.js", If_None_Match=first.headers["ETag"])
    assert (again.status, data) == (304, b"")


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8000", 200), ("[::1]:8000", 200), ("evil.example", 403), ("", 403)]
)
def test_on_loopback_only_local_names_are_answered(served: Served, host: str, status: int) -> None:
    assert served.ask("/", Host=host)[0].status == status


def test_it_listens_on_this_machine_unless_told() -> None:
    for function in (commands.serve_command, server):
        assert inspect.signature(function).parameters["host"].default == "127.0.0.1"


def test_a_port_in_use_is_an_error_with_a_way_out(served: Served) -> None:
    with pytest.raises(HoldfastError, match="cannot listen") as caught:
        server(served.pages, port=served.port)
    assert "--port" in str(caught.value.hint)


@pytest.mark.slow
def test_pages_are_built_again_when_a_run_finishes(store: Store, waited: Callable[[Callable[[], bool]], None]) -> None:
    add(store, 0.9)
    made = Served(store)
    try:
        result: list[str] = []
        threading.Thread(target=made.pages.watch, args=(result.append,), daemon=True).start()
        before = json.loads(made.ask("/build.json")[1])["stamp"]
        assert f'data-stamp="{before}"'.encode() in made.ask("/")[1]
        assert not made.pages.refresh()
        for severity in (1, 2, 3):
            add(store, 0.5, fog(severity), model=f"new-{severity}")
            waited(lambda s=severity: made.ask(f"/models/new-{s}.html")[0].status == 200)
        assert json.loads(made.ask("/build.json")[1])["stamp"] != before
        assert result == []
        assert len({site.stamp for site in made.told}) == len(made.told)
    finally:
        made.close()
    assert not made.pages.built.out.exists()


def test_a_build_that_fails_leaves_the_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch, waited: Callable[[Callable[[], bool]], None]
) -> None:
    made = Served(store)
    try:
        result: list[str] = []

        def failing(*_: object, **__: object) -> None:
            raise HoldfastError("no room left")

        monkeypatch.setattr("holdfast.site.serve.build_site", failing)
        threading.Thread(target=made.pages.watch, args=(result.append,), daemon=True).start()
        add(store, 0.9)
        waited(lambda: bool(result))
        assert result[0] == "the pages stay as they were: no room left"
        assert made.ask("/")[0].status == 200
    finally:
        made.close()


@pytest.fixture
def waited() -> Callable[[Callable[[], bool]], None]:
    """Waits for something that must happen; the limit only ends a test that would never."""

    def wait(happened: Callable[[], bool]) -> None:
        clock = threading.Event()
        for _ in range(1200):
            if happened():
                return
            clock.wait(0.05)
        pytest.fail("it never happened")

    return wait


@pytest.mark.parametrize(
    "error",
    [
        ValueError("odd"),
        SystemExit(3),
        *(
            pytest.param(error, marks=pytest.mark.slow)
            for error in (MemoryError(), RecursionError(), OSError(5, "EIO"))
        ),
    ],
)
def test_whatever_fails_in_a_refresh_the_last_pages_stay_and_it_is_tried_again(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path / "store"))
    add(store, 0.9)
    pages = Pages(store, told=lambda _: None, pause=0.02)
    before, result, left = pages.built, [], [3]
    real = serve_module.build_site

    def failing(*words: object, **named: object) -> Site:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return real(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(serve_module, "build_site", failing)
    add(store, 0.5, fog(1))
    thread = threading.Thread(target=pages.watch, args=(result.append,), daemon=True)
    thread.start()
    try:
        _wait_for(lambda: pages.built is not before)
        assert left[0] < 0
        assert len(result) == 1, "said once"
        assert result[0].startswith("the pages stay as they were: ")
        assert (before.out / "index.html").is_file(), "requests under way may still read the pages before"
    finally:
        pages.close()
        thread.join(10)
    assert not thread.is_alive()


def test_a_store_that_cannot_be_listed_for_a_while_keeps_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying_module, "PAUSES", (0.0,))
    store = Store(str(tmp_path / "store"))
    add(store, 0.9)
    pages = Pages(store, told=lambda _: None, pause=0.02)
    try:
        gone = tmp_path / "elsewhere"
        (tmp_path / "store" / "rows").rename(gone)
        (tmp_path / "store" / "rows").symlink_to("rows")  # cannot be listed: a loop
        with pytest.raises(HoldfastError, match="cannot read rows"):
            pages.refresh()
        assert (pages.built.out / "index.html").is_file()
        (tmp_path / "store" / "rows").unlink()
        gone.rename(tmp_path / "store" / "rows")
        assert not pages.refresh(), "as it was"
    finally:
        pages.close()


@pytest.mark.slow
def test_a_run_that_could_not_be_read_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_module, "PAUSES", (0.0,))
    store = Store(str(tmp_path / "store"))
    add(store, 0.9)
    name = f"rows/{add(store, 0.5, fog(1)).key}.parquet"
    real = Files.read, Files.tail

    def refused(self: Files, asked: str, *size: int) -> bytes:
        if asked == name:
            raise OSError(5, "Input/output error")
        return real[len(size)](self, asked, *size)

    monkeypatch.setattr(Files, "read", refused)
    monkeypatch.setattr(Files, "tail", refused)
    pages = Pages(store, told=lambda _: None, pause=0.02)
    try:
        assert "Input/output error" in (pages.built.out / "index.html").read_text()
        monkeypatch.setattr(Files, "read", real[0])
        monkeypatch.setattr(Files, "tail", real[1])
        assert pages.refresh(), "though no file has changed"
        assert "Input/output error" not in (pages.built.out / "index.html").read_text()
        assert not pages.refresh()
    finally:
        pages.close()


def _wait_for(is_so: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)
    assert is_so()
