"""A data root of its own for every test, and a web server that can break off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data root; the machine's own data and settings are out of sight."""
    folder = tmp_path / "data-root"
    monkeypatch.setenv("HOLDFAST_DATA", str(folder))
    monkeypatch.delenv("HOLDFAST_OFFLINE", raising=False)
    return folder


@dataclass
class Web:
    """Content by path; each request sends at most the next of `breaks` bytes before the connection drops."""

    url: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def web() -> Iterator[Web]:
    state = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expected = self.headers.get("Range")
            state.asked.append((self.path, expected))
            body = state.content.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start = int(expected.removeprefix("bytes=").rstrip("-")) if expected and state.ranges else 0
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            rest = body[start:]
            self.wfile.write(rest[: state.breaks.pop(0)] if state.breaks else rest)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()
