"""The site over HTTP while runs finish: the files of the last build and nothing else, read-only."""

from __future__ import annotations

import contextlib
import mimetypes
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.core.errors import HoldfastError
from holdfast.core.temporary import temporary_folder
from holdfast.site.build import Site, build_site
from holdfast.site.policy import server_policy
from holdfast.store.site_store import stamp
from holdfast.store.store import Store

PAUSE = 3.0  # seconds between two looks at the store, and so between two builds at least
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".tex": "text/plain", ".csv": "text/csv"}
TEXTS = ("text/", "application/json")
HEADERS = {
    "Content-Security-Policy": server_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Pages:
    """The pages of a store, built again when it has changed."""

    def __init__(
        self, store: Store, *, own: Sequence[str] = (), told: Callable[[Site], None], pause: float = PAUSE
    ) -> None:
        self.store, self.own, self.told, self.pause = store, own, told, pause
        self._folder = temporary_folder("holdfast-site-")
        self._count = 0
        self._stop = threading.Event()
        self._wait = pause
        self._before: Path | None = None
        self.built = self._build(None)

    def refresh(self) -> bool:
        """Builds again where the store has changed, or where a file could not be read the last time."""
        begun = time.monotonic()
        now = stamp(self.store)
        self._wait = max(self.pause, 5 * (time.monotonic() - begun))  # a slow store is not asked all the time
        if now == self.built.stamp and not self.built.lacks_files:
            return False
        old = self.built
        self.built = self._build(old)
        if self.built.lacks_files:
            self._wait = max(self.pause, 5 * (time.monotonic() - begun))
        # requests under way may still read the build before; the one before that is done with
        if self._before is not None:
            shutil.rmtree(self._before, ignore_errors=True)
        self._before = old.out
        return True

    def watch(self, say: Callable[[str], None]) -> None:
        """Refreshes until `close`. Whatever fails leaves the pages as they are, is said once, and is tried again."""
        last = ""
        while not self._stop.wait(self._wait):
            try:
                self.refresh()
                last = ""
            except (Exception, SystemExit) as error:  # noqa: BLE001 - code of plug-ins runs here too
                now = error.problem if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
                if now != last and not self._stop.is_set():
                    with contextlib.suppress(Exception):  # the terminal may be closed
                        say(f"the pages stay as they were: {now}")
                last = now

    def close(self) -> None:
        self._stop.set()
        self._folder.close()

    def _build(self, old: Site | None) -> Site:
        self._count += 1
        store, folder = Store(self.store.url), self._folder.path / str(self._count)
        try:
            site = build_site(store, folder, own=self.own, before=old.out if old else None, is_live=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.told(site)
        return site


def server(pages: Pages, *, host: str = "127.0.0.1", port: int = 8000) -> ThreadingHTTPServer:
    """A server of the pages, bound but not yet serving. Port 0 takes any that is free."""

    class Handler(_Handler):
        served = pages
        hosts = {*LOOPBACK, host} if host in LOOPBACK else None

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A browser that closes the connection early is no error."""

    try:
        return Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise HoldfastError(
            f"cannot listen on {host}:{port}: {error}", hint="choose another with --port, or 0 for any that is free"
        ) from error


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for names that the build wrote; a path is only ever looked up among them."""

    served: Pages
    hosts: set[str] | None
    protocol_version = "HTTP/1.1"
    server_version = "holdfast"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if not self._is_for_us():
            self._say(HTTPStatus.FORBIDDEN, "this server answers to its own address only\n")
            return
        built, name, data = self.served.built, _name(self.path), None
        digest = built.files.get(name)
        if digest is not None and self.headers.get("If-None-Match") == f'"{digest}"':
            self._head(HTTPStatus.NOT_MODIFIED, {"ETag": f'"{digest}"'})
            return
        with contextlib.suppress(OSError):
            data = (built.out / name).read_bytes() if digest is not None else None
        if data is None:
            self._say(HTTPStatus.NOT_FOUND, "no such page\n")
        else:
            self._send(HTTPStatus.OK, data, _type(name), {"ETag": f'"{digest}"'})

    do_HEAD = do_GET  # noqa: N815 - the same without the body

    def _refuse(self) -> None:
        self.close_connection = True
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n", {"Allow": "GET, HEAD", "Connection": "close"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def _is_for_us(self) -> bool:
        """A page elsewhere can point its own name at this machine: on loopback only local names are answered."""
        if self.hosts is None:
            return True
        with contextlib.suppress(ValueError):
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in self.hosts
        return False

    def _say(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8", headers or {})

    def _send(self, status: HTTPStatus, data: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(data)), **headers})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server has
        """Quiet: the terminal is for what went wrong."""


def _name(path: str) -> str:
    """The file that a request asks for, as it would be named in the build."""
    try:
        name = unquote(urlsplit(path).path, errors="strict").removeprefix("/")
    except ValueError:
        return ""
    return f"{name}index.html" if not name or name.endswith("/") else name


def _type(name: str) -> str:
    kind = TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith(TEXTS) else kind
