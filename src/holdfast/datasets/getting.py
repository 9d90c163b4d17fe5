"""Getting a dataset's files: mirrors in turn, everything checked, and in place only when whole."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
from holdfast.datasets.mirrors import MirrorFailed, Progress, Visit, brought

SCRATCH = ".getting-"


class Got(NamedTuple):
    """What `get` did; `mirror` is None when the files were here already."""

    dataset: str
    folder: Path
    mirror: str | None


def quiet(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def get_files(download: Download, *, force: bool = False, offline: bool = False, progress: Progress = quiet) -> Got:
    """Brings the files of a dataset here unless they are; `force` brings them again."""
    if download.bundled:
        return _bundled(download)
    if not force and (is_whole(download) or download.unpacked() is not None):
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


def _bundled(download: Download) -> Got:
    if not is_whole(download):
        raise HoldfastError(f"the bundled files of `{download.name}` are damaged", hint="install holdfast again")
    return Got(download.name, download.home, None)


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
